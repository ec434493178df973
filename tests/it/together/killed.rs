//! Trainers that are killed at random moments, and one machine that repeats the buckets that they committed.
//!
//! `PBG_TEST_KILLS=N` kills N times instead of the five of the test command.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Meeting, Trainer, nats_server};
use crate::support::graph::CONFIG;
use crate::support::{Workplace, with};

/// Buckets per epoch.
const BUCKETS: usize = 16;

/// Pseudorandom numbers, the same in every run.
pub(super) struct Draws(pub(super) u64);

impl Draws {
    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Creates a meeting with a model that has no shared parameters and keeps the end of every epoch.
pub(super) fn meeting() -> Option<Meeting> {
    meeting_of(4)
}

/// Returns a meeting as [`meeting`] does, for another number of partitions.
pub(super) fn meeting_of(partitions: u64) -> Option<Meeting> {
    let nats = nats_server()?;
    let config = CONFIG
        .replace(
            "num_partitions = 3",
            &format!("num_partitions = {partitions}"),
        )
        .replace("operator = \"translation\"", "operator = \"none\"");
    let grant = "[[plugins.grants]]\nplugin = 'from_file'\nread = ['orders']\n";
    let place = Workplace::with_dataset(&format!("{config}\n{grant}"));
    let lease = "distributed.lease=2".to_owned();
    Some(Meeting { place, nats, lease })
}

/// Returns the checksums of the partitions in a checkpoint's folder.
fn partitions(place: &Workplace, folder: &str) -> BTreeMap<String, u64> {
    let manifest: Value =
        serde_json::from_str(&place.read(&format!("{folder}/manifest.json"))).unwrap();
    let files = manifest["files"].as_object().unwrap().iter();
    let key = |name: &str| name.split('.').next().unwrap().to_owned();
    let partitions = files.filter(|(name, _)| name.starts_with("embeddings_"));
    let partitions = partitions.map(|(name, file)| (key(name), file["crc32"].as_u64().unwrap()));
    partitions.collect()
}

#[test]
fn what_killed_trainers_have_committed_is_repeated_by_one_machine() {
    let Some(meeting) = meeting() else { return };
    let kills = env::var("PBG_TEST_KILLS").ok();
    let kills = kills.map_or(5, |n| n.parse().expect("PBG_TEST_KILLS is a number"));
    let keys = ["num_epochs=1000000", "checkpoint_preservation_interval=1"];
    let mut trainers = [0, 1].map(|rank| meeting.start(rank, 2, &keys));
    let mut draws = Draws(7);
    for kill in 0..kills {
        let victim = draws.below(2) as usize;
        // In its first moments, in its first bucket, or later.
        if draws.below(4) > 0 {
            let trained = 1 + draws.below(3) as usize;
            let trains = trainers[victim].trains(trained);
            assert!(trains, "kill {kill}: {}", trainers[victim].errors());
        }
        thread::sleep(Duration::from_millis(draws.below(300)));
        trainers[victim].kill();
        trainers[victim] = meeting.start(victim as u32, 2, &keys);
    }
    for trainer in &mut trainers {
        assert!(trainer.trains(2 * BUCKETS), "{}", trainer.errors());
    }
    end(&meeting, &mut trainers);
    repeats(&meeting.place);
}

pub(super) fn end(meeting: &Meeting, trainers: &mut [Trainer]) {
    let method = meeting.place.path("rendezvous").display().to_string();
    let method = format!("distributed_init_method=\"file://{method}\"");
    let stop = ["cluster", "stop", "--set", &method];
    meeting.place.run(stop).succeeds();
    for trainer in trainers {
        assert_eq!(trainer.ends(), Some(130), "{}", trainer.errors());
    }
    assert!(!meeting.server_runs());
    assert_eq!(meeting.left(), [""; 0]);
}

/// Asserts that the history has every bucket of every epoch once, and that one machine which trains them in that order
/// gets the same bytes.
pub(super) fn repeats(place: &Workplace) {
    repeats_every(1, place);
}

/// Asserts what [`repeats`] does, for a run that keeps the end of every epoch whose number is a multiple of `interval`.
pub(super) fn repeats_every(interval: u64, place: &Workplace) {
    let history = place
        .run(["cluster", "history", "--json"])
        .succeeds()
        .stdout;
    let history: Vec<Value> = serde_json::from_str(&history).unwrap();
    let mut epochs: BTreeMap<u64, Vec<[u64; 2]>> = BTreeMap::new();
    for row in &history {
        let bucket = ["lhs", "rhs"].map(|side| row["bucket"][side].as_u64().unwrap());
        epochs
            .entry(row["epoch"].as_u64().unwrap())
            .or_default()
            .push(bucket);
    }
    let names = fs::read_dir(place.path("model")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let kept = names.filter_map(|name| name.strip_prefix("epoch_")?.parse::<u64>().ok());
    let last = kept.max().expect("an epoch has ended");
    for epoch in 0..last {
        let mut buckets = epochs[&epoch].clone();
        let order: String = buckets
            .iter()
            .map(|[lhs, rhs]| format!("{lhs},{rhs}\n"))
            .collect();
        buckets.sort_unstable();
        buckets.dedup();
        assert_eq!(
            (buckets.len(), epochs[&epoch].len()),
            (BUCKETS, BUCKETS),
            "epoch {epoch}"
        );
        place.write("orders/order.csv", order);
        let number = format!("num_epochs={}", epoch + 1);
        let keys = ["checkpoint_path=alone", "bucket_order=from_file", &number];
        place
            .run(with(&["train", "--progress", "none"], &keys))
            .succeeds();
        if (epoch + 1) % interval != 0 {
            continue;
        }
        let kept = format!("model/epoch_{}", epoch + 1);
        assert_eq!(
            partitions(place, "alone"),
            partitions(place, &kept),
            "epoch {epoch}"
        );
    }
    eprintln!("{last} epochs are the same");
    // The last order as the program itself prints it.
    let number = format!("{last}");
    let printed = ["cluster", "history", "--order", "--epoch", &number];
    let printed = place.run(printed).succeeds().stdout;
    place.write("orders/order.csv", printed);
    let keys = [
        "checkpoint_path=other",
        "bucket_order=from_file",
        "num_epochs=1",
    ];
    place
        .run(with(&["train", "--progress", "none"], &keys))
        .succeeds();
}
