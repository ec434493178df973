//! Partitions in the memory of partition servers: nothing is lost when servers and trainers end or are killed, beyond what
//! no checkpoint has.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::killed::{end, meeting, repeats, repeats_every};
use super::{Meeting, PATIENCE, Trainer};

/// Keys of runs that go on until they are stopped, and keep the end of every epoch.
const LONG: [&str; 3] = [
    "num_epochs=1000000",
    "checkpoint_preservation_interval=1",
    "checkpoint_interval=3",
];

fn keys<'k>(more: &[&'k str]) -> Vec<&'k str> {
    LONG.iter().chain(more).copied().collect()
}

/// Starts a partition server of the run.
fn server(meeting: &Meeting, number: u32, keys: &[&str]) -> Trainer {
    let rendezvous = meeting.place.path("rendezvous").display().to_string();
    let rendezvous = format!("distributed_init_method=\"file://{rendezvous}\"");
    let mut arguments = vec![
        "partition-server",
        "--listen",
        "127.0.0.1:0",
        "--memory",
        "1M",
    ];
    for key in [
        &*rendezvous,
        "distributed.heartbeat=0.2",
        "distributed.patience=60",
    ]
    .iter()
    .chain(keys)
    {
        arguments.extend(["--set", key]);
    }
    let mut command = meeting.place.command(arguments);
    Trainer::spawn(&meeting.place, 10 + number, &mut command)
}

#[test]
fn trainers_with_servers_of_their_own_train_what_one_machine_trains() {
    let Some(meeting) = meeting() else { return };
    let keys = keys(&["num_partition_servers=-1"]);
    let mut trainers = [0, 1].map(|rank| meeting.start(rank, 2, &keys));
    for trainer in &mut trainers {
        assert!(trainer.trains(40), "{}", trainer.output());
    }
    end(&meeting, &mut trainers);
    repeats(&meeting.place);
    // Partitions are on disk only as files of the newest checkpoints.
    let files = fs::read_dir(meeting.place.path("model")).unwrap();
    let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let partitions = files.filter(|name| name.starts_with("embeddings_"));
    assert!(partitions.count() <= 8);
}

#[test]
fn a_lost_server_takes_the_run_back_to_the_newest_checkpoint() {
    let Some(meeting) = meeting() else { return };
    // With a checkpoint every few epochs, a server nearly always has partitions that no checkpoint has.
    let keys = keys(&[
        "num_partition_servers=-1",
        "checkpoint_preservation_interval=4",
    ]);
    let mut trainers = [0, 1].map(|rank| meeting.start(rank, 2, &keys));
    // If it has none, its loss costs nothing.
    for kills in 1.. {
        for trainer in &mut trainers {
            let trained = trainer.of("bucket_finished").len();
            assert!(trainer.trains(trained + 20), "{}", trainer.output());
        }
        trainers[1].kill();
        let started = Instant::now();
        while trainers[0].of("server_lost").len() < kills {
            assert!(started.elapsed() < PATIENCE, "{}", trainers[0].output());
            thread::sleep(Duration::from_millis(20));
        }
        // As many buckets need all partitions.
        let trained = trainers[0].of("bucket_finished").len();
        assert!(trainers[0].trains(trained + 20), "{}", trainers[0].output());
        if !trainers[0].of("ledger_replaced").is_empty() {
            break;
        }
        assert!(kills < 8, "{}", trainers[0].output());
        trainers[1] = meeting.start(1, 2, &keys);
    }
    let trained = trainers[0].of("bucket_finished").len();
    assert!(trainers[0].trains(trained + 60), "{}", trainers[0].output());
    end(&meeting, &mut trainers[..1]);
    repeats_every(4, &meeting.place);
}

#[test]
fn with_two_replicas_a_lost_server_costs_what_its_trainer_had_not_settled() {
    let Some(meeting) = meeting() else { return };
    let keys = keys(&[
        "num_partition_servers=-1",
        "distributed.partition_replicas=2",
    ]);
    let mut trainers = [0, 1, 2].map(|rank| meeting.start(rank, 3, &keys));
    for trainer in &mut trainers {
        assert!(trainer.trains(10), "{}", trainer.output());
    }
    trainers[2].kill();
    super::faults::waits_for(&mut trainers[0], "bucket_finished");
    for trainer in &mut trainers[..2] {
        let trained = trainer.of("bucket_finished").len();
        assert!(trainer.trains(trained + 40), "{}", trainer.output());
    }
    // Until then, the server of the ledger stays for the third one.
    is_removed(&mut trainers[..2]);
    end(&meeting, &mut trainers[..2]);
    repeats(&meeting.place);
    for trainer in &trainers[..2] {
        assert_eq!(
            trainer.of("ledger_replaced").len(),
            0,
            "{}",
            trainer.output()
        );
    }
}

/// Waits until one of `trainers` has removed a trainer that was killed.
fn is_removed(trainers: &mut [Trainer]) {
    let started = Instant::now();
    while trainers.iter().all(|t| t.of("trainer_lost").is_empty()) {
        let waited = started.elapsed();
        assert!(waited < PATIENCE, "{}", trainers[0].output());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn servers_may_end_and_others_begin_while_trainers_go_on() {
    let Some(meeting) = meeting() else { return };
    let servers = ["num_partition_servers=2"];
    let keys = keys(&servers);
    let mut trainers = [0, 1].map(|rank| meeting.start(rank, 2, &keys));
    super::faults::waits_for(&mut trainers[0], "gathering");
    assert_eq!(trainers[0].of("bucket_finished").len(), 0);
    let mut processes = vec![server(&meeting, 1, &servers), server(&meeting, 2, &servers)];
    for trainer in &mut trainers {
        assert!(trainer.trains(20), "{}", trainer.output());
    }
    processes[0].interrupt();
    assert_eq!(processes[0].ends(), Some(0), "{}", processes[0].output());
    for number in 3..5 {
        for trainer in &mut trainers {
            let trained = trainer.of("bucket_finished").len();
            assert!(trainer.trains(trained + 20), "{}", trainer.output());
        }
        processes.push(server(&meeting, number, &servers));
    }
    end(&meeting, &mut trainers);
    repeats(&meeting.place);
    for server in &mut processes {
        assert_eq!(server.ends(), Some(0), "{}", server.output());
    }
    for trainer in &trainers {
        assert_eq!(
            trainer.of("ledger_replaced").len(),
            0,
            "{}",
            trainer.output()
        );
    }
}
