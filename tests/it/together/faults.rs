//! Faults of a process, its server or its disk, none of which loses an edge.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Meeting, PATIENCE, Trainer, edges, edges_by_epoch};
use crate::support::finish;

pub(super) fn signal(name: &str, pid: u64) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Waits for an event of `trainer`.
pub(super) fn waits_for(trainer: &mut Trainer, kind: &str) {
    let started = Instant::now();
    while trainer.of(kind).is_empty() {
        let ended = trainer.child.try_wait().unwrap().is_some();
        let in_vain = ended && trainer.of(kind).is_empty();
        assert!(
            !in_vain,
            "the trainer ended without an event {kind}: {}",
            trainer.errors()
        );
        let waited = started.elapsed();
        assert!(
            waited < PATIENCE,
            "no event {kind} in {waited:?}; the last ones are {:#?}\n{}",
            trainer.events().iter().rev().take(20).collect::<Vec<_>>(),
            trainer.errors()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Asserts that every epoch has trained every edge, and that the history has every bucket of it once.
fn is_whole(meeting: &Meeting, trainers: &[&Trainer]) {
    let all = edges(&meeting.place.path("train.tsv"));
    let epochs = edges_by_epoch(trainers);
    assert!(epochs.iter().all(|(_, count)| *count == all), "{epochs:?}");
    let history = meeting.place.run(["cluster", "history", "--json"]);
    let history: Vec<Value> = serde_json::from_str(&history.succeeds().stdout).unwrap();
    let bucket = |row: &Value| {
        let number = |value: &Value| value.as_u64().unwrap();
        let (lhs, rhs) = (&row["bucket"]["lhs"], &row["bucket"]["rhs"]);
        [&row["epoch"], lhs, rhs].map(number)
    };
    let buckets: BTreeSet<_> = history.iter().map(bucket).collect();
    assert_eq!(buckets.len(), history.len(), "a bucket counts twice");
    let last = buckets.iter().map(|[epoch, ..]| epoch).max().unwrap() + 1;
    assert_eq!(buckets.len() as u64, 16 * last);
}

#[test]
fn one_that_is_paused_for_longer_than_a_lease_joins_anew() {
    let Some(mut meeting) = Meeting::new(4) else {
        return;
    };
    meeting.lease = "distributed.lease=2".to_owned();
    let keys = ["num_epochs=60"];
    let mut first = meeting.start(0, 2, &keys);
    let mut second = meeting.start(1, 2, &keys);
    assert!(second.trains(3), "{}", second.errors());
    let pid = u64::from(second.child.id());
    signal("-STOP", pid);
    waits_for(&mut first, "trainer_lost");
    // On a busy machine, the first trainer might be done before the second is awake.
    let other = u64::from(first.child.id());
    signal("-STOP", other);
    signal("-CONT", pid);
    waits_for(&mut second, "rejoining");
    signal("-CONT", other);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
    is_whole(&meeting, &[&first, &second]);
}

#[test]
fn one_that_wakes_up_after_the_end_says_that_the_others_have_finished() {
    let Some(mut meeting) = Meeting::new(4) else {
        return;
    };
    meeting.lease = "distributed.lease=2".to_owned();
    let keys = ["num_epochs=5", "distributed.patience=3"];
    let mut first = meeting.start(0, 2, &keys);
    let mut second = meeting.start(1, 2, &keys);
    assert!(second.trains(1), "{}", second.errors());
    let pid = u64::from(second.child.id());
    signal("-STOP", pid);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    is_whole(&meeting, &[&first]);
    signal("-CONT", pid);
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
    let finished = second.of("run_finished").len() + second.of("finished_by_others").len();
    assert_eq!(finished, 1, "{}", second.errors());
}

#[test]
fn the_loss_of_rank_0_and_of_the_ledger_costs_no_more_than_what_no_checkpoint_has() {
    let Some(mut meeting) = Meeting::new(4) else {
        return;
    };
    meeting.lease = "distributed.lease=2".to_owned();
    let keys = ["num_epochs=30", "distributed.patience=3"];
    let mut first = meeting.start(0, 2, &keys);
    let mut second = meeting.start(1, 2, &keys);
    // Into the second epoch, when there is a checkpoint.
    assert!(first.trains(10), "{}", first.errors());
    waits_for(&mut first, "epoch_finished");
    let rendezvous = fs::read_to_string(meeting.place.path("rendezvous")).unwrap();
    let rendezvous: Value = serde_json::from_str(&rendezvous).unwrap();
    first.kill();
    signal("-KILL", rendezvous["pid"].as_u64().unwrap());
    // The second trainer waits for the ledger, then says that the same command resumes.
    assert_eq!(second.ends(), Some(10), "{}", second.errors());
    assert!(
        second.errors().contains("same command"),
        "{}",
        second.errors()
    );
    fs::remove_dir_all(meeting.place.path("rendezvous.nats")).unwrap();
    let mut again = meeting.start(0, 2, &keys);
    let mut other = meeting.start(1, 2, &keys);
    assert_eq!(again.ends(), Some(0), "{}", again.errors());
    assert_eq!(other.ends(), Some(0), "{}", other.errors());
    is_whole(&meeting, &[&again, &other]);
}

#[test]
fn one_whose_disk_is_full_ends_and_the_others_go_on() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let keys = ["num_epochs=2", "dimension=60000"];
    let mut first = meeting.start(0, 2, &keys);
    let command = meeting.command(1, 2, &keys);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    // A limit on the size of files makes writes fail where a full disk does.
    let script = format!("trap '' XFSZ; ulimit -f 4096; exec {}", words.join(" "));
    let mut full = Command::new("sh");
    full.args(["-c", &script])
        .current_dir(meeting.place.path(""))
        .env("PBG_HOST_LISTEN", "127.0.0.1")
        .stdout(Stdio::null());
    finish(&mut full).fails(8, &["model"]);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    is_whole(&meeting, &[&first]);
    assert_eq!(meeting.left(), [""; 0]);
}
