//! Training into an object store: by one trainer, by several, and by some that die.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use pbg_files::remote::{ObjectStores as _, Patience};
use serde_json::Value;

use super::Cloud;
use crate::support::graph::CONFIG;
use crate::support::{Workplace, with};
use crate::together::{Trainer, edges, edges_by_epoch, nats_server, server_runs};

/// Model without parameters that trainers share.
fn unshared() -> String {
    let config = CONFIG
        .replace("num_partitions = 3", "num_partitions = 4")
        .replace("operator = \"translation\"", "operator = \"none\"");
    format!("{config}\n[[plugins.grants]]\nplugin = 'from_file'\nread = ['orders']\n")
}

impl Cloud {
    fn train(&self, keys: &[&str]) -> Command {
        let mut arguments = vec!["train", "--progress", "json"];
        let brief = ["distributed.lease=6", "distributed.heartbeat=0.5"];
        for key in brief.iter().chain(keys) {
            arguments.extend(["--set", key]);
        }
        let mut command = self.place.command(arguments);
        command.envs(self.store.environment());
        command.env("PBG_HOST_CACHE", self.place.path("cache"));
        command.env("PBG_HOST_LISTEN", "127.0.0.1");
        command
    }

    fn start(&self, rank: u32, keys: &[&str]) -> Trainer {
        let mut command = self.train(keys);
        command.args(["--rank", &rank.to_string()]);
        Trainer::spawn(&self.place, rank, &mut command)
    }

    /// Returns the checksums of the partitions in the checkpoint `name`.
    fn checksums(&self, name: &str) -> BTreeMap<String, u64> {
        let stores = self.stores();
        let url = format!("s3://tests/{name}");
        let folder = stores.open(&url, Patience::Long).unwrap();
        let content = folder.read("manifest.json", 1 << 20).unwrap();
        checksums(std::str::from_utf8(&content.bytes).unwrap())
    }
}

/// Returns the checksums of the partitions that a manifest names.
fn checksums(manifest: &str) -> BTreeMap<String, u64> {
    let manifest: Value = serde_json::from_str(manifest).unwrap();
    let files = manifest["files"].as_object().unwrap().iter();
    let files = files.filter(|(name, _)| name.starts_with("embeddings_"));
    let key = |name: &str| name.split('.').next().unwrap().to_owned();
    let files = files.map(|(name, file)| (key(name), file["crc32"].as_u64().unwrap()));
    files.collect()
}

/// Returns the keys with which trainers in `place` find a server, the program `nats`.
fn server_keys(place: &Workplace, nats: &Path) -> [String; 2] {
    let rendezvous = place.path("rendezvous");
    [
        format!("distributed_init_method=file://{}", rendezvous.display()),
        format!("distributed.nats_server={:?}", nats.display().to_string()),
    ]
}

/// Returns the last epoch that trainers have begun, counted from 0.
fn last_epoch(trainers: &[&Trainer]) -> u64 {
    let trained = buckets(trainers).into_iter();
    trained.map(|[epoch, ..]| epoch).max().unwrap_or(0)
}

fn buckets(trainers: &[&Trainer]) -> Vec<[u64; 3]> {
    let events = trainers.iter().flat_map(|t| t.of("bucket_finished"));
    let of = |event: Value| ["epoch", "lhs", "rhs"].map(|key| event[key].as_u64().unwrap());
    events.map(of).collect()
}

#[test]
fn one_trainer_trains_into_a_store_and_goes_on_from_there() {
    let Some(cloud) = Cloud::new(Workplace::with_dataset(CONFIG)) else {
        return;
    };
    let place = &cloud.place;
    let mut train = cloud.train(&["checkpoint_path=s3://tests/model"]);
    let mut trainer = Trainer::spawn(place, 0, &mut train);
    assert_eq!(trainer.ends(), Some(0), "{}", trainer.errors());
    let all = edges(&place.path("train.tsv"));
    assert_eq!(edges_by_epoch(&[&trainer]), [(0, all), (1, all)]);

    let eval = ["eval", "s3://tests/model", "--edges", "test"];
    cloud.run(&eval).succeeds();

    // The same command goes on, and says where it begins.
    let mut train = cloud.train(&["checkpoint_path=s3://tests/model", "num_epochs=3"]);
    let mut trainer = Trainer::spawn(place, 0, &mut train);
    assert_eq!(trainer.ends(), Some(0), "{}", trainer.errors());
    assert_eq!(edges_by_epoch(&[&trainer]), [(2, all)]);
    let at = ["--set", "checkpoint_path=s3://tests/model"];
    let status = cloud
        .run(&[&["cluster", "status"][..], &at].concat())
        .succeeds();
    let expected = "in s3://tests/model, heartbeats by polling";
    assert!(status.stdout.contains(expected), "{}", status.stdout);
    let history = ["cluster", "history", "--epoch", "3"];
    let history = cloud.run(&[&history[..], &at].concat()).succeeds();
    assert_eq!(history.stdout.lines().count(), 1 + 9, "{}", history.stdout);
    cloud.run(&["report", "s3://tests/model"]).succeeds();
    let stop = cloud.run(&[&["cluster", "stop"][..], &at].concat());
    stop.fails(10, &["the run has no trainers"]);
    // Nothing of the run stays on this machine but what readers have copied.
    let copies = std::fs::read_dir(place.path("cache/copies"))
        .unwrap()
        .flatten();
    let names: Vec<_> = copies
        .map(|copy| copy.file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.contains("out-")), "{names:?}");
}

#[test]
fn a_trainer_that_died_is_replaced_and_a_second_one_is_refused() {
    let Some(cloud) = Cloud::new(Workplace::with_dataset(CONFIG)) else {
        return;
    };
    let at = "checkpoint_path=s3://tests/model";
    let keys = [at, "num_epochs=100000"];
    let mut first = Trainer::spawn(&cloud.place, 0, &mut cloud.train(&keys));
    assert!(first.trains(12), "{}", first.errors());
    let mut second = Trainer::spawn(&cloud.place, 1, &mut cloud.train(&keys));
    assert_eq!(second.ends(), Some(10), "{}", second.errors());
    let errors = second.errors();
    assert!(errors.contains("rank 0 is taken"), "{errors}");
    assert!(!errors.contains("NATS"), "{errors}");
    // Trainers that do not hear each other would remove each other in turns.
    if let Some(nats) = nats_server() {
        let server = server_keys(&cloud.place, &nats);
        let server = server.each_ref().map(String::as_str);
        let mut other = cloud.start(0, &[&keys[..], &server].concat());
        assert_eq!(other.ends(), Some(10), "{}", other.errors());
        let errors = other.errors();
        assert!(
            errors.contains("what carries heartbeats is a server"),
            "{errors}"
        );
        assert!(!server_runs(&cloud.place));
    }
    first.kill();
    let mut next = Trainer::spawn(&cloud.place, 2, &mut cloud.train(&keys));
    assert!(next.trains(3), "{}", next.errors());
    next.interrupt();
    assert_eq!(next.ends(), Some(130), "{}", next.errors());
    let epochs = 2 + last_epoch(&[&first, &next]);
    let number = format!("num_epochs={}", 1 + epochs);
    let mut last = Trainer::spawn(&cloud.place, 3, &mut cloud.train(&[at, &number]));
    assert_eq!(last.ends(), Some(0), "{}", last.errors());
    let all = edges(&cloud.place.path("train.tsv"));
    let history = ["cluster", "history", "--json", "--set", at];
    let history = cloud.run(&history).succeeds().stdout;
    let history: Vec<Value> = serde_json::from_str(&history).unwrap();
    for epoch in 0..=epochs {
        let of_epoch = history.iter().filter(|row| row["epoch"] == epoch);
        let buckets: BTreeSet<String> = of_epoch
            .clone()
            .map(|row| row["bucket"].to_string())
            .collect();
        let trained: u64 = of_epoch
            .clone()
            .map(|row| row["edges"].as_u64().unwrap())
            .sum();
        let found = (of_epoch.count(), buckets.len(), trained);
        assert_eq!(found, (9, 9, all), "epoch {epoch}");
    }
    let eval = ["eval", "s3://tests/model", "--edges", "test"];
    cloud.run(&eval).succeeds();
}

#[test]
fn two_trainers_meet_in_a_store_without_a_server() {
    let Some(cloud) = Cloud::new(Workplace::with_dataset(&unshared())) else {
        return;
    };
    let keys = [
        "checkpoint_path=s3://tests/model",
        "num_machines=2",
        "checkpoint_preservation_interval=1",
    ];
    let mut first = cloud.start(0, &keys);
    let mut second = cloud.start(1, &keys);
    for trainer in [&mut first, &mut second] {
        assert_eq!(trainer.ends(), Some(0), "{}", trainer.errors());
    }
    let trained = buckets(&[&first, &second]);
    let distinct: BTreeSet<_> = trained.iter().collect();
    assert_eq!((trained.len(), distinct.len()), (32, 32));
    let all = edges(&cloud.place.path("train.tsv"));
    assert_eq!(edges_by_epoch(&[&first, &second]), [(0, all), (1, all)]);
    assert_eq!(cloud.checksums("model/epoch_2"), cloud.checksums("model"));
    // One machine that trains the buckets in the order of the history gets the same bytes.
    for epoch in ["1", "2"] {
        let history = ["cluster", "history", "--order", "--set", keys[0]];
        let order = cloud
            .run(&[&history[..], &["--epoch", epoch]].concat())
            .succeeds();
        cloud.place.write("orders/order.csv", order.stdout);
        let epochs = format!("num_epochs={epoch}");
        let alone = ["checkpoint_path=alone", "bucket_order=from_file", &epochs];
        let train = with(&["train", "--progress", "none"], &alone);
        cloud.place.run(train).succeeds();
        let alone = checksums(&cloud.place.read("alone/manifest.json"));
        assert_eq!(
            alone,
            cloud.checksums(&format!("model/epoch_{epoch}")),
            "epoch {epoch}"
        );
    }
}

#[test]
fn shared_parameters_need_a_server_and_the_ledger_stays_in_the_store() {
    let config = CONFIG.replace("num_partitions = 3", "num_partitions = 4");
    let Some(cloud) = Cloud::new(Workplace::with_dataset(&config)) else {
        return;
    };
    let Some(nats) = nats_server() else { return };
    let at = ["checkpoint_path=s3://tests/model", "num_machines=2"];
    let mut alone = cloud.start(0, &at);
    assert_eq!(alone.ends(), Some(3), "{}", alone.errors());
    let expected = "through an object store alone they cannot be exchanged";
    assert!(alone.errors().contains(expected), "{}", alone.errors());
    let server = server_keys(&cloud.place, &nats);
    let server = server.each_ref().map(String::as_str);
    let keys = [&at[..], &server].concat();
    let mut trainers = [0, 1].map(|rank| cloud.start(rank, &keys));
    for trainer in &mut trainers {
        assert_eq!(trainer.ends(), Some(0), "{}", trainer.errors());
    }
    let all = edges(&cloud.place.path("train.tsv"));
    let [first, second] = &trainers;
    assert_eq!(edges_by_epoch(&[first, second]), [(0, all), (1, all)]);
    // The server is gone; the record is where the model is.
    let status = ["cluster", "status", "--json", "--set", at[0]];
    let status = cloud.run(&status).succeeds();
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["ledger_url"], "s3://tests/model");
    assert_eq!(status["epoch"], 3, "{status}");
}
