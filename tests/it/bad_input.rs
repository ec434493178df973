//! Bad input of every kind ends with one clear error, which names the file and what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Workplace, finish, graph::CONFIG};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// Name of a kind of damage, and a function that inflicts it on a file.
type Damage = (&'static str, fn(&Path));

/// Three kinds of damage that every file suffers.
const DAMAGES: [Damage; 3] = [
    ("missing", |path| fs::remove_file(path).unwrap()),
    ("truncated", |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    }),
    ("flipped", |path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }),
];

/// Returns the files of a folder and of its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found.sort();
    found
}

/// Damages every file of `folder` in every way, except those in `unread`, which are not read back. `check` must fail
/// with `code` and name the file.
fn every_damage_is_found(folder: &str, unread: &[&str], code: i32) {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    let all = files(&place.path(folder));
    let read_back = all.iter().filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        !unread.contains(&name)
    });
    let mut checked = 0;
    for path in read_back {
        let original = fs::read(path).unwrap();
        for (damage, inflict) in DAMAGES {
            inflict(path);
            let name = path.file_name().unwrap().to_str().unwrap();
            eprintln!("{damage}: {name}");
            // A folder without a manifest is not a checkpoint: training starts anew, and says so.
            let is_start = code == 5 && name == "manifest.json" && damage == "missing";
            if !is_start {
                place
                    .run(["check"])
                    .fails(code, &[if damage == "missing" { folder } else { name }]);
            }
            fs::write(path, &original).unwrap();
            checked += 1;
        }
    }
    assert!(checked >= 9, "only {checked} damages in {all:?}");
    place.run(["check"]).succeeds();
}

#[test]
fn damaged_datasets() {
    every_damage_is_found("data", &[], 4);
}

#[test]
fn damaged_checkpoints() {
    every_damage_is_found("model", &["metrics.jsonl", "config.toml", ".lock"], 5);
}

#[test]
fn training_does_not_start_on_damaged_files() {
    let place = Workplace::with_dataset(CONFIG);
    for file in files(&place.path("data"))
        .iter()
        .filter(|f| f.to_string_lossy().contains("train"))
    {
        let original = fs::read(file).unwrap();
        DAMAGES[2].1(file);
        place
            .run(TRAIN)
            .fails(4, &[file.file_name().unwrap().to_str().unwrap()]);
        fs::write(file, original).unwrap();
    }
}

#[test]
fn edge_lists_with_faults() {
    let place = Workplace::with_edges(CONFIG);
    let check = |content: &str, words: &[&str]| {
        place.write("bad.tsv", content);
        place
            .run(["import", "--edges", "train=bad.tsv"])
            .fails(4, words);
        assert!(
            !place.path("data/manifest.json").exists(),
            "bad input must not leave a dataset"
        );
    };
    check("", &["bad.tsv", "empty"]);
    check("a\tr\tb\na\tr\n", &["bad.tsv, line 2", "column"]);
    check("a\tr\tb\nc\tr\td\te\n", &["bad.tsv, line 2", "column"]);
    place
        .run(["import", "--edges", "train=nowhere.tsv"])
        .fails(4, &["nowhere.tsv"]);
}

#[test]
fn compressed_and_columnar_files_with_faults() {
    let place = Workplace::with_edges(CONFIG);
    for name in ["bad.tsv.gz", "bad.tsv.zst", "bad.parquet"] {
        place.write(name, "this is no such format");
        place
            .run(["import", "--edges", &format!("train={name}")])
            .fails(4, &[name]);
    }
    let whole = include_bytes!("../../examples/wordnet/test.tsv.gz");
    place.write("short.tsv.gz", &whole[..whole.len() / 2]);
    place
        .run(["import", "--edges", "train=short.tsv.gz"])
        .fails(4, &["short.tsv.gz", "fetch the file again"]);
}

#[test]
fn a_relation_that_the_configuration_does_not_know() {
    let config = CONFIG
        .replace("dynamic_relations = true", "")
        .replace("\"any\"", "\"next\"");
    let place = Workplace::with_edges(&config);
    place
        .run(["import", "--edges", "train=train.tsv"])
        .fails(4, &["next but one", "train.tsv, line 2", "configuration"]);
}

#[test]
fn configurations_with_faults() {
    let check = |from: &str, to: &str, words: &[&str]| {
        let place = Workplace::with_edges(&CONFIG.replace(from, to));
        place.run(["check"]).fails(3, words);
        place.run(TRAIN).fails(3, words);
        place
            .run(["import", "--edges", "train=train.tsv"])
            .fails(3, words);
    };
    check(
        "dimension = 16",
        "dimensoin = 16",
        &["dimensoin", "dimension", "pbg.toml"],
    );
    check(
        "dimension = 16",
        "dimension = \"wide\"",
        &["dimension", "pbg.toml"],
    );
    check("dimension = 16", "dimension = -1", &["dimension"]);
    check("dimension = 16", "dimension = ", &["pbg.toml"]);
    check("lhs = \"place\"", "lhs = \"plaice\"", &["plaice", "place"]);
    // Two faults are reported at once.
    check(
        "dimension = 16",
        "dimension = 0\nmargni = 1",
        &["dimension", "margni"],
    );
}

#[test]
fn overrides_with_faults() {
    let place = Workplace::with_edges(CONFIG);
    place
        .run(["train", "--set", "lr"])
        .fails(2, &["KEY=VALUE", "lr"]);
    place
        .run(["train", "--set", "leraning_rate=1"])
        .fails(3, &["leraning_rate"]);
    place
        .run(["train", "--set", "entities.place.num_partitions=zero"])
        .fails(3, &["num_partitions"]);
}

#[test]
fn a_partition_count_that_the_dataset_does_not_have() {
    let place = Workplace::with_dataset(CONFIG);
    for command in [["check"].as_slice(), &TRAIN] {
        let set = ["--set", "entities.place.num_partitions=5"];
        place
            .run(command.iter().chain(&set))
            .fails(3, &["place", "3", "5", "import"]);
    }
}

#[test]
fn a_checkpoint_of_another_configuration() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    for change in [
        "dimension=8",
        "relations.0.operator=diagonal",
        "comparator=cos",
    ] {
        place
            .run(TRAIN.iter().chain(&["--set", change]))
            .fails(5, &["checkpoint", "model"]);
    }
    // A resumed run may train more epochs and change settings that do not affect the values.
    place
        .run(
            TRAIN
                .iter()
                .chain(&["--set", "num_epochs=3", "--set", "buffer_partitions=3"]),
        )
        .succeeds();
}

#[test]
fn a_dataset_that_was_never_imported() {
    let place = Workplace::with_edges(CONFIG);
    for command in ["train", "check", "eval", "score"] {
        place.run([command]).fails(4, &["data", "pbg-host import"]);
    }
}

#[test]
fn names_that_do_not_exist() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    place
        .run(["neighbors", "pbg.toml", "north pol 3"])
        .fails(4, &["north pol 3", "north pole"]);
    place
        .run(["eval", "--edges", "tset"])
        .fails(4, &["tset", "test"]);
}

#[test]
fn nothing_was_trained_yet() {
    let place = Workplace::with_dataset(CONFIG);
    for command in [
        ["eval"].as_slice(),
        &["neighbors", "pbg.toml", "x"],
        &["export", "--format", "npy", "--out", "o"],
    ] {
        place.run(command).fails(5, &["model", "pbg-host train"]);
    }
}

#[test]
fn a_checkpoint_folder_that_cannot_be() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("file", "in the way");
    place
        .run(TRAIN.iter().chain(&["--set", "checkpoint_path=file/model"]))
        .fails(8, &["file/model"]);
}

#[test]
fn a_model_that_diverges_is_a_finding() {
    for keys in [
        "--set lr=1e30 --set eval_fraction=0.3",
        "--set lr=1e30 --set init_scale=1e20",
    ] {
        let place = Workplace::with_dataset(CONFIG);
        let run = place.run(TRAIN.into_iter().chain(keys.split(' ')));
        let run = run.fails(7, &["not finite", "lr"]);
        assert!(!run.stderr.contains("defect"), "{}", run.stderr);
    }
}

#[test]
fn a_model_that_has_diverged_is_a_finding_when_it_is_asked() {
    let config = CONFIG.replace("num_partitions = 3", "num_partitions = 1");
    let place = Workplace::with_dataset(&config);
    // One batch, whose update is finite; only the ranking meets numbers that are not.
    let huge = "--set lr=1e30 --set batch_size=100000 --set num_epochs=1";
    place
        .run(TRAIN.into_iter().chain(huge.split(' ')))
        .succeeds();
    let run = place.run(["eval", "--checkpoint", "model"]);
    let run = run.fails(7, &["not finite", "lr"]);
    assert!(!run.stderr.contains("mistake"), "{}", run.stderr);
}

/// A limit on the size of files makes writes fail where a full disk does. Partitions are larger than the limit; the
/// files that plugins need are smaller.
#[test]
fn a_disk_that_is_full() {
    let place = Workplace::with_dataset(&CONFIG.replace("dimension = 16", "dimension = 50000"));
    place
        .run(TRAIN.iter().chain(&["--set", "num_epochs=1"]))
        .succeeds();
    let before = place.committed("model");
    let script = format!(
        "trap '' XFSZ; ulimit -f 8192; exec {} train --progress none",
        env!("CARGO_BIN_EXE_pbg-host")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path(""));
    finish(&mut command).fails(8, &["model"]);
    assert_eq!(
        place.committed("model"),
        before,
        "the last checkpoint is intact"
    );
    place.run(TRAIN).succeeds();
}

#[test]
fn two_runs_on_one_checkpoint() {
    let place = Workplace::with_dataset(CONFIG);
    let mut first = place.start(["train", "--set", "num_epochs=1000000", "--progress", "none"]);
    assert!(first.wait_until(|| place.path("model/metrics.jsonl").exists()));
    place.run(TRAIN).fails(9, &["model", "another"]);
    first.kill();
    // The lock does not outlive its owner.
    place.run(TRAIN).succeeds();
}
