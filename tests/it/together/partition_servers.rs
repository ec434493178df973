//! Partitions in the memory of partition servers: nothing is lost when servers and trainers end or are killed, beyond what
//! no checkpoint has.

use std::fs;

use super::killed::{end, meeting, repeats};

/// Keys of runs that go on until they are stopped, and keep the end of every epoch.
const LONG: [&str; 3] = [
    "num_epochs=1000000",
    "checkpoint_preservation_interval=1",
    "checkpoint_interval=3",
];

fn keys<'k>(more: &[&'k str]) -> Vec<&'k str> {
    LONG.iter().chain(more).copied().collect()
}

#[test]
fn trainers_with_servers_of_their_own_train_what_one_machine_trains() {
    let Some(meeting) = meeting() else { return };
    let keys = keys(&["num_partition_servers=-1"]);
    let mut trainers = [0, 1].map(|rank| meeting.start(rank, 2, &keys));
    for trainer in &mut trainers {
        assert!(trainer.trains(40), "{}", trainer.errors());
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
fn with_two_replicas_a_lost_server_costs_what_its_trainer_had_not_settled() {
    let Some(meeting) = meeting() else { return };
    let keys = keys(&[
        "num_partition_servers=-1",
        "distributed.partition_replicas=2",
    ]);
    let mut trainers = [0, 1, 2].map(|rank| meeting.start(rank, 3, &keys));
    for trainer in &mut trainers {
        assert!(trainer.trains(10), "{}", trainer.errors());
    }
    trainers[2].kill();
    super::faults::waits_for(&mut trainers[0], "bucket_finished");
    for trainer in &mut trainers[..2] {
        let trained = trainer.of("bucket_finished").len();
        assert!(trainer.trains(trained + 40), "{}", trainer.errors());
    }
    end(&meeting, &mut trainers[..2]);
    repeats(&meeting.place);
    for trainer in &trainers[..2] {
        assert_eq!(
            trainer.of("ledger_replaced").len(),
            0,
            "{}",
            trainer.errors()
        );
    }
}
