//! Processes whose learning rates a plugin decides.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Meeting;

/// Learning rates by epoch and edge chunk, as text.
type Rates = BTreeMap<(u64, u64), String>;

/// Adds the learning rates of events to `rates`; all buckets of a pass must have the same.
fn add(rates: &mut Rates, events: &[Value]) {
    for event in events {
        let pass = ["epoch", "edge_chunk"].map(|key| event[key].as_u64().unwrap());
        let rate = event["lr"].to_string();
        let known = rates.entry(pass.into()).or_insert_with(|| rate.clone());
        assert_eq!(*known, rate, "{pass:?}");
    }
}

#[test]
fn two_processes_train_with_the_rates_of_one() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let keys = [
        "num_epochs=3",
        "num_edge_chunks=2",
        "lr_schedule.warmup_epochs=0.5",
        "lr_schedule.decay=warm_restarts",
        "plugins.params.warm_restarts.period=1.2",
    ];
    let mut second = meeting.start(1, 2, &keys);
    let mut first = meeting.start(0, 2, &keys);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
    let mut together = Rates::new();
    for trainer in [&first, &second] {
        add(&mut together, &trainer.of("bucket_finished"));
    }
    let set = keys.iter().chain(&["checkpoint_path=alone"]);
    let set = set.flat_map(|key| ["--set", key]);
    let train = ["train", "--progress", "none"].into_iter().chain(set);
    meeting.place.run(train).succeeds();
    let events = meeting.place.read("alone/metrics.jsonl");
    let events = events.lines().map(serde_json::from_str);
    let events: Vec<Value> = events.map(Result::unwrap).collect();
    let finished: Vec<Value> = events
        .into_iter()
        .filter(|event| event["event"] == "bucket_finished")
        .collect();
    let mut alone = Rates::new();
    add(&mut alone, &finished);
    assert_eq!(together, alone);
    assert_eq!(alone.len(), 6);
}

/// The schedule is asked before a trainer joins, so that the others never wait for one that cannot train.
#[test]
fn a_trainer_whose_schedule_fails_does_not_join() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let keys = |epochs| [epochs, "lr_schedule.decay=warm_restarts"];
    let mut failed = meeting.start(0, 2, &keys("num_epochs=2000000"));
    assert_ne!(failed.ends(), Some(0));
    let said = failed.errors();
    assert!(said.contains("more than 1000000"), "{said}");
    assert!(!meeting.place.path("model").exists());
    let mut trainers = [1, 0].map(|rank| meeting.start(rank, 2, &keys("num_epochs=2")));
    for trainer in &mut trainers {
        assert_eq!(trainer.ends(), Some(0), "{}", trainer.errors());
    }
}
