//! The server of the ledger ends, hangs or loses its files while trainers work.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::faults::{signal, waits_for};
use super::{Meeting, PATIENCE, Trainer};

/// Patience longer than any test: a trainer that ends earlier has not waited for it.
const LONG: &str = "distributed.patience=100000";

/// Starts two trainers with endless runs, and waits until they train.
fn two(keys: &[&str]) -> Option<(Meeting, [Trainer; 2])> {
    let mut meeting = Meeting::new(4)?;
    meeting.lease = "distributed.lease=5".to_owned();
    let all = [&["num_epochs=1000000", LONG][..], keys].concat();
    let mut trainers = [0, 1].map(|rank| meeting.start(rank, 2, &all));
    for trainer in &mut trainers {
        assert!(trainer.trains(3), "{}", trainer.errors());
    }
    Some((meeting, trainers))
}

fn server(meeting: &Meeting) -> u64 {
    let record = fs::read_to_string(meeting.place.path("rendezvous")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    record["pid"].as_u64().unwrap()
}

/// Asserts that each trainer trains more buckets, and that both end when the run is stopped.
fn go_on_and_end(meeting: &Meeting, trainers: &mut [Trainer; 2]) {
    for trainer in &mut *trainers {
        let trained = trainer.of("bucket_finished").len();
        assert!(trainer.trains(trained + 5), "{}", trainer.errors());
    }
    let method = meeting.place.path("rendezvous").display().to_string();
    let method = format!("distributed_init_method=\"file://{method}\"");
    let stop = ["cluster", "stop", "--set", &method];
    meeting.place.run(stop).succeeds();
    for trainer in trainers {
        assert_eq!(trainer.ends(), Some(130), "{}", trainer.errors());
    }
    assert!(!meeting.server_runs());
}

#[test]
fn rank_0_starts_its_server_again() {
    let Some((meeting, mut trainers)) = two(&[]) else {
        return;
    };
    let killed = server(&meeting);
    signal("-KILL", killed);
    waits_for(&mut trainers[0], "ledger_server");
    go_on_and_end(&meeting, &mut trainers);
    assert_ne!(server(&meeting), killed);
}

#[test]
fn a_ledger_whose_files_are_lost_is_made_anew_while_trainers_wait() {
    let Some((meeting, mut trainers)) = two(&[]) else {
        return;
    };
    // Rank 0 must not be faster.
    let first = u64::from(trainers[0].child.id());
    signal("-STOP", first);
    signal("-KILL", server(&meeting));
    fs::remove_dir_all(meeting.place.path("rendezvous.nats")).unwrap();
    signal("-CONT", first);
    for trainer in &mut trainers {
        waits_for(trainer, "rejoining");
    }
    go_on_and_end(&meeting, &mut trainers);
}

#[test]
fn a_server_that_stands_still_is_told_about_and_one_ctrl_c_ends_every_trainer() {
    let Some((meeting, mut trainers)) = two(&[]) else {
        return;
    };
    let still = server(&meeting);
    signal("-STOP", still);
    for trainer in &mut trainers {
        waits_for(trainer, "ledger_silent");
        trainer.interrupt();
    }
    for trainer in &mut trainers {
        assert_eq!(trainer.ends(), Some(130), "{}", trainer.errors());
        let errors = trainer.errors();
        assert!(errors.contains("at most 10 seconds"), "{errors}");
        assert!(errors.contains("the same command"), "{errors}");
    }
    signal("-CONT", still);
}

#[test]
fn a_server_that_stood_still_is_found_again() {
    let Some((meeting, mut trainers)) = two(&[]) else {
        return;
    };
    let still = server(&meeting);
    signal("-STOP", still);
    for trainer in &mut trainers {
        waits_for(trainer, "ledger_silent");
    }
    signal("-CONT", still);
    for trainer in &mut trainers {
        waits_for(trainer, "ledger_answers");
    }
    go_on_and_end(&meeting, &mut trainers);
}

#[test]
fn lines_say_what_is_waited_for_where_there_is_no_json() {
    for how in ["plain", "none"] {
        let Some(meeting) = Meeting::new(4) else {
            return;
        };
        let keys = ["num_epochs=1000000", LONG];
        let mut trainer = meeting.spawn(0, &mut meeting.command_showing(how, 0, 1, &keys));
        says(&trainer, "started nats-server");
        thread::sleep(Duration::from_secs(1));
        let still = server(&meeting);
        signal("-STOP", still);
        says(&trainer, "the ledger has not answered for");
        says(&trainer, "distributed.patience");
        trainer.interrupt();
        assert_eq!(trainer.ends(), Some(130), "{}", trainer.errors());
        signal("-CONT", still);
    }
}

fn says(trainer: &Trainer, words: &str) {
    let started = Instant::now();
    while !trainer.errors().contains(words) {
        assert!(started.elapsed() < PATIENCE, "{}", trainer.errors());
        thread::sleep(Duration::from_millis(20));
    }
}
