//! Datasets, models and edges in an object store, exports to it, and training into it.

mod training;

use std::fs;
use std::path::{Path, PathBuf};

use pbg_files::remote::{ObjectStores as _, Patience, RemoteFolder};
use pbg_objects::CopiedFolders;
use serde_json::Value;

use crate::object_store::TestStore;
use crate::support::graph::CONFIG;
use crate::support::{Finished, Workplace, finish};

/// A store, and a folder in which the program runs with the store's address.
struct Cloud {
    store: TestStore,
    place: Workplace,
}

impl Cloud {
    fn new(place: Workplace) -> Option<Self> {
        let store = TestStore::start()?;
        Some(Self { store, place })
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.place.command(arguments);
        command.envs(self.store.environment());
        // Copies of this test are its own.
        command.env("PBG_HOST_CACHE", self.place.path("cache"));
        finish(&mut command)
    }

    /// Returns what opens folders of the store.
    fn stores(&self) -> CopiedFolders {
        let variables = self.store.environment().into_iter();
        let settings = variables.map(|(name, value)| (name.to_owned(), value));
        let unused = self.place.path("unused");
        CopiedFolders::new(unused, settings.collect(), Box::new(|_| ()))
    }

    /// Sends the files below the local folder `from` to the folder `name` of the store, and returns its URL.
    fn send(&self, from: &str, name: &str) -> String {
        let url = format!("s3://tests/{name}");
        send_all(
            &*self.stores().open(&url, Patience::Long).unwrap(),
            &self.place.path(from),
            "",
        );
        url
    }
}

fn send_all(remote: &dyn RemoteFolder, folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        match path.is_dir() {
            true => send_all(remote, &path, &format!("{name}/")),
            false => remote.upload(&path, &name).unwrap(),
        }
    }
}

/// Returns what an evaluation printed as JSON, without its duration.
fn ranks(evaluated: Finished) -> Value {
    let mut ranks: Value = serde_json::from_str(&evaluated.succeeds().stdout).unwrap();
    ranks["seconds"].take();
    ranks
}

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

#[test]
fn models_and_datasets_are_read_where_they_are() {
    let Some(cloud) = Cloud::new(Workplace::with_dataset(CONFIG)) else {
        return;
    };
    let place = &cloud.place;
    place.run(TRAIN).succeeds();
    let (data, model) = (
        cloud.send("data", "graph"),
        cloud.send("model", "runs/model"),
    );
    let set = format!("dataset={data}");
    let here = ranks(place.run(["eval", "model", "--edges", "test", "--json"]));
    fs::rename(place.path("data"), place.path("elsewhere")).unwrap();
    let eval = ["eval", &model, "--set", &set, "--edges", "test", "--json"];
    let there = cloud.run(&eval).succeeds();
    assert_eq!(ranks(there.clone()), here);
    let told = there
        .stderr
        .lines()
        .filter(|line| line.starts_with("copying "))
        .count();
    assert_eq!(
        told, 2,
        "the model and the dataset are copied: {}",
        there.stderr
    );
    let again = cloud.run(&eval).succeeds();
    assert_eq!(ranks(again.clone()), here);
    assert!(!again.stderr.contains("copying"), "{}", again.stderr);

    // Training from a dataset in a store is the same training.
    let trained = ["--set", &set, "--set", "checkpoint_path=second"];
    cloud.run(&[&TRAIN[..], &trained].concat()).succeeds();
    assert_eq!(place.committed("second"), place.committed("model"));
    let report = cloud.run(&["report", &model, "--json"]).succeeds();
    assert!(report.stdout.contains("\"epoch\""), "{}", report.stdout);

    // A damaged copy is not taken for a damaged model.
    let copies = fs::read_dir(place.path("cache/copies")).unwrap().flatten();
    let mut copies = copies.map(|copy| copy.path());
    let is_model = |copy: &PathBuf| {
        copy.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("model-")
    };
    let copy = copies.find(is_model).unwrap();
    let files = fs::read_dir(&copy)
        .unwrap()
        .flatten()
        .map(|file| file.path());
    let mut tables = files.filter(|file| file.extension().is_some_and(|e| e == "safetensors"));
    let table = tables.next().unwrap();
    let mut bytes = fs::read(&table).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&table, bytes).unwrap();
    let advice = format!("this is a local copy: remove {}", copy.display());
    cloud.run(&eval).fails(5, &["is damaged", &advice]);
    fs::remove_dir_all(&copy).unwrap();
    assert_eq!(ranks(cloud.run(&eval)), here);

    // A commit since then is seen.
    cloud
        .run(&[&TRAIN[..], &trained, &["--set", "num_epochs=5"]].concat())
        .succeeds();
    cloud.send("second", "runs/model");
    let newer = cloud.run(&eval).succeeds();
    assert_ne!(ranks(newer.clone()), here);
    assert!(newer.stderr.contains("copying"), "{}", newer.stderr);
}

#[test]
fn edges_come_from_a_store_and_exports_go_there() {
    let Some(cloud) = Cloud::new(Workplace::with_edges(CONFIG)) else {
        return;
    };
    let place = &cloud.place;
    for name in ["train", "test"] {
        let folder = place.path(&format!("raw/{name}"));
        fs::create_dir_all(&folder).unwrap();
        fs::copy(
            place.path(&format!("{name}.tsv")),
            folder.join("part-0.tsv"),
        )
        .unwrap();
        fs::write(folder.join("_SUCCESS"), "").unwrap();
    }
    let raw = cloud.send("raw", "raw");
    let (train, test) = (
        format!("train={raw}/train"),
        format!("test={raw}/test/part-*.tsv"),
    );
    cloud
        .run(&["import", "--edges", &train, "--edges", &test])
        .succeeds();
    let copies = place.path("cache/copies");
    let left = fs::read_dir(&copies).unwrap().flatten();
    let left = left.flat_map(|copy| fs::read_dir(copy.path()).unwrap().flatten());
    let left: Vec<_> = left
        .filter(|file| !file.file_name().to_str().unwrap().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "the edges are not kept: {left:?}");
    let manifest = place.read("data/manifest.json");
    fs::remove_dir_all(place.path("data")).unwrap();
    place.import().succeeds();
    assert_eq!(place.read("data/manifest.json"), manifest);

    cloud.run(&TRAIN).succeeds();
    let export = ["export", "--format", "tsv", "--out", "s3://tests/vectors"];
    let sent = cloud.run(&export).succeeds();
    assert!(
        sent.stdout.starts_with("s3://tests/vectors/"),
        "{}",
        sent.stdout
    );
    cloud.run(&export).fails(2, &["already exists"]);
    cloud
        .run(&[&export[..], &["--overwrite"]].concat())
        .succeeds();
    let outgoing = fs::read_dir(&copies).unwrap().flatten();
    let outgoing = outgoing.filter(|folder| folder.path().to_str().unwrap().contains("out-"));
    assert_eq!(outgoing.count(), 0, "no exported file stays here");
}

#[test]
fn what_cannot_be_in_a_store_is_refused_before_anything_is_copied() {
    let Some(cloud) = Cloud::new(Workplace::with_dataset(CONFIG)) else {
        return;
    };
    let raw = cloud.send("data", "graph");
    let set = format!("dataset={raw}/new");
    for (arguments, code, expected) in [
        (
            vec!["train", "--set", "checkpoint_path=s3://nowhere/model"],
            8,
            "there is no bucket `nowhere`",
        ),
        (
            vec!["train", "--set", "distributed.ledger=store"],
            3,
            "is `store`, but `checkpoint_path` is not in an object store: model",
        ),
        (
            vec!["train", "--set", "distributed.ledger=nats"],
            3,
            "is `nats`, but `distributed_init_method`, which names the NATS server, is not set",
        ),
        (
            vec!["import", "--set", &set, "--edges", "train=train.tsv"],
            2,
            "an import writes to a local folder, and s3://tests/graph/new is in an object store",
        ),
        (
            vec!["eval", "s3://tests/none"],
            5,
            "s3://tests/none is not a checkpoint",
        ),
        (
            vec!["eval", "s3://nowhere/x"],
            8,
            "there is no bucket `nowhere`",
        ),
        (vec!["eval", "s3://"], 8, "it names no bucket"),
        (
            vec!["train", "--set", "checkpoint_path=s3a://tests/model"],
            8,
            "a URL begins with s3://, gs:// or az://",
        ),
        (
            vec!["import", "--edges", "train=s3://tests/graph/*.tsv"],
            4,
            "there is no object of this name",
        ),
    ] {
        cloud.run(&arguments).fails(code, &[expected]);
    }
}
