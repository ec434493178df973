//! Trainers that are paused for longer than a lease at random moments, and continue as if nothing had happened.
//!
//! `PBG_TEST_PAUSES=N` pauses N times instead of the twelve of the test command.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::faults::waits_for;
use super::killed::{Draws, end, meeting, meeting_of};
use crate::support::Workplace;

const TRAINERS: u32 = 3;
/// Passes of an epoch, and buckets of a pass.
const CHUNKS: u64 = 2;
/// As many as let all trainers train at the same time: only then is a bucket of the next pass free for the one that wakes
/// up.
const PARTITIONS: u64 = 6;

/// A pass ends while a trainer is paused between its choice of a bucket and its transaction. If leases did not name the
/// pass, it would get that bucket of the next pass, and train it with the edges of the previous one.
#[test]
fn what_paused_trainers_train_is_trained_once() {
    let Some(mut meeting) = meeting_of(PARTITIONS) else {
        return;
    };
    meeting.lease = "distributed.lease=1".to_owned();
    let chunks = format!("num_edge_chunks={CHUNKS}");
    let keys = ["num_epochs=1000000", &chunks];
    let mut trainers: Vec<_> = (0..TRAINERS)
        .map(|rank| meeting.start(rank, TRAINERS, &keys))
        .collect();
    for trainer in &mut trainers {
        assert!(trainer.trains(3), "{}", trainer.errors());
    }
    let pauses = env::var("PBG_TEST_PAUSES").ok();
    let pauses = pauses.map_or(12, |n| n.parse().expect("PBG_TEST_PAUSES is a number"));
    let mut draws = Draws(7);
    for pause in 0..pauses {
        let trainer = &mut trainers[draws.below(u64::from(TRAINERS)) as usize];
        thread::sleep(Duration::from_millis(draws.below(300)));
        signal("-STOP", trainer.child.id());
        thread::sleep(Duration::from_millis(1500 + draws.below(1000)));
        let trained = trainer.of("bucket_finished").len();
        signal("-CONT", trainer.child.id());
        let goes_on = trainer.trains(trained + 1);
        assert!(goes_on, "pause {pause}: {}", trainer.errors());
    }
    end(&meeting, &mut trainers);
    every_bucket_once(&meeting.place);
}

/// Meanwhile the other trainer removes the paused one, stops the run and ends its server. The paused trainer ends like
/// the other.
#[test]
fn a_trainer_that_was_paused_while_the_run_was_stopped_ends_too() {
    let Some(mut meeting) = meeting() else { return };
    meeting.lease = "distributed.lease=1".to_owned();
    for paused in [0, 1] {
        let mut trainers = [0, 1].map(|rank| meeting.start(rank, 2, &["num_epochs=1000000"]));
        for trainer in &mut trainers {
            assert!(trainer.trains(3), "{}", trainer.errors());
        }
        signal("-STOP", trainers[paused].child.id());
        let other = &mut trainers[1 - paused];
        let trained = other.of("bucket_finished").len();
        waits_for(other, "trainer_lost");
        assert!(other.trains(trained + 40), "{}", other.errors());
        let method = meeting.place.path("rendezvous").display().to_string();
        let method = format!("distributed_init_method=\"file://{method}\"");
        let stop = ["cluster", "stop", "--set", &method];
        meeting.place.run(stop).succeeds();
        assert_eq!(other.ends(), Some(130), "{}", other.errors());
        assert!(!meeting.server_runs());
        signal("-CONT", trainers[paused].child.id());
        let trainer = &mut trainers[paused];
        assert_eq!(trainer.ends(), Some(130), "{}", trainer.errors());
        let events = trainer.of("stopped_by_others");
        assert_eq!(events.len(), 1, "{}", trainer.errors());
        assert!(!meeting.server_runs());
    }
}

/// Asserts that all epochs but the last, which was stopped, have each bucket of each pass once.
fn every_bucket_once(place: &Workplace) {
    let mut trained: BTreeMap<u64, BTreeMap<[u64; 3], u32>> = BTreeMap::new();
    for line in place.read("model/metrics.jsonl").lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["event"] == "bucket_finished" {
            let number = |key: &str| event[key].as_u64().unwrap();
            let bucket = ["edge_chunk", "lhs", "rhs"].map(number);
            *trained
                .entry(number("epoch"))
                .or_default()
                .entry(bucket)
                .or_default() += 1;
        }
    }
    let last = *trained.keys().next_back().expect("a bucket was trained");
    assert!(last > 0, "no epoch has ended");
    for epoch in 0..last {
        let times = trained.remove(&epoch).unwrap_or_default();
        let more: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(more.is_empty(), "epoch {epoch}: trained twice: {more:?}");
        let found = times.len() as u64;
        let expected = CHUNKS * PARTITIONS * PARTITIONS;
        assert_eq!(found, expected, "buckets of epoch {epoch}");
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}
