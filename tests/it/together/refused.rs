//! Trainers that a run does not take, and that the others notice nothing of.

use std::thread;
use std::time::{Duration, Instant};

use super::faults::waits_for;
use super::{Meeting, PATIENCE};
use crate::support::Workplace;
use crate::support::graph::CONFIG;

#[test]
fn what_does_not_fit_is_refused_and_the_others_notice_nothing() {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(["train", "--set", "num_machines=2"])
        .fails(3, &["num_machines", "distributed_init_method"]);
    place
        .run(["train", "--rank", "1"])
        .fails(2, &["--rank is for a run of several trainers"]);
    let method = "distributed_init_method=file:///tmp/somewhere/else";
    place
        .run(["train", "--set", method])
        .fails(2, &["needs a rank", "--rank 0"]);
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let mut first = meeting.start(0, 2, &[]);
    let started = Instant::now();
    while first.of("gathering").is_empty() {
        assert!(started.elapsed() < PATIENCE, "{}", first.errors());
        thread::sleep(Duration::from_millis(20));
    }
    for (rank, keys, expected) in [
        (1, &["lr=0.2"][..], "the hash of the configuration"),
        (0, &[], "rank 0 is taken"),
        (
            1,
            &["validation.edges=test"],
            "`[validation]` is edges test",
        ),
    ] {
        let mut other = meeting.start(rank, 2, keys);
        let code = other.ends();
        let errors = other.errors();
        assert!(errors.contains(expected), "{code:?}: {errors}");
        assert_eq!(code, Some(10), "{errors}");
    }
    let mut second = meeting.start(1, 2, &[]);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
}

#[test]
fn one_with_another_dataset_is_refused() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let import =
        "import --set dataset=other --set seed=99 --edges train=train.tsv --edges test=test.tsv";
    meeting.place.run(import.split(' ')).succeeds();
    let mut first = meeting.start(0, 2, &[]);
    waits_for(&first, "gathering");
    let mut other = meeting.start(1, 2, &["dataset=other"]);
    assert_eq!(other.ends(), Some(10), "{}", other.errors());
    assert!(other.errors().contains("dataset"), "{}", other.errors());
    let mut second = meeting.start(1, 2, &[]);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
}

#[test]
fn rank_0_that_cannot_train_leaves_no_server() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let alone = ["train", "--progress", "none"];
    meeting.place.run(alone).succeeds();
    // The checkpoint that is there is of another model.
    let mut first = meeting.start(0, 1, &["dimension=8"]);
    assert_eq!(first.ends(), Some(5), "{}", first.errors());
    assert!(!meeting.server_runs());
    assert_eq!(meeting.left(), [""; 0]);
}
