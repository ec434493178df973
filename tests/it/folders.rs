//! Folders that two commands need at the same time, that belong to something else, or that a killed command left
//! behind.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::crash::files;
use crate::support::faults::{Fault, Lack, inject, without};
use crate::support::graph::{self, CONFIG};
use crate::support::{Finished, Workplace, finish, with};

const IMPORT: [&str; 3] = ["import", "--edges", "more=train.tsv"];
const TRAIN: [&str; 3] = ["train", "--progress", "none"];
const EXPORT: [&str; 6] = ["export", "--format", "tsv", "--out", "out", "--overwrite"];

fn dataset(place: &Workplace) -> BTreeMap<String, Vec<u8>> {
    files(&place.path("data"))
}

/// Returns the hidden files and folders that imports left next to the dataset.
fn hidden(place: &Workplace) -> Vec<String> {
    let entries = fs::read_dir(place.path("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

/// Runs a command on a file system that lacks something, with a fault at an operation (0 for none); returns the result
/// and the operations.
fn disturbed(
    place: &Workplace,
    command: &[&str],
    lacks: &[Lack],
    (fault, at): (Fault, usize),
) -> (Finished, Vec<String>) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = place.command(command);
    inject(&mut command, &place.path(""), log.path(), fault, at);
    without(&mut command, &place.path(""), lacks);
    let finished = finish(&mut command);
    let log = fs::read_to_string(log.path()).unwrap();
    (finished, log.lines().map(str::to_owned).collect())
}

/// Returns the numbers of the operations that do `what` to a path that ends in `path`.
fn at(operations: &[String], what: &str, path: &str) -> Vec<usize> {
    let numbered = (1..).zip(operations);
    let does = |line: &str| line.contains(&format!(" {what} ")) && line.ends_with(path);
    numbered
        .filter(|(_, line)| does(line))
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn of_two_imports_at_once_one_is_refused_and_no_edge_set_is_lost() {
    let place = Workplace::with_dataset(CONFIG);
    let lines = (0..300_000).map(|i| format!("left {i}\tnear\tright {i}\n"));
    place.write("large.tsv", lines.collect::<String>());
    let mut first = place.start(["import", "--edges", "large=large.tsv"]);
    let begun = place.path(".data.import/new");
    assert!(first.wait_until(|| begun.exists()), "{}", first.stderr());
    first.signal("STOP");
    place
        .run(IMPORT)
        .fails(9, &["another import is writing to", "data", "wait for it"]);
    first.signal("CONT");
    let first = first.finish();
    assert_eq!(first.code(), Some(0), "{}", first.stderr);
    place.run(IMPORT).succeeds();
    for set in ["train", "test", "large", "more"] {
        assert!(
            place.path(&format!("data/edges_{set}.arrow")).exists(),
            "{set}"
        );
    }
    assert!(hidden(&place).is_empty(), "{:?}", hidden(&place));
}

#[test]
fn an_import_that_was_killed_between_two_renames_loses_nothing() {
    let start = Workplace::with_dataset(CONFIG);
    let counted = start.copied();
    let lacks = [Lack::Exchange];
    let (finished, operations) = disturbed(&counted, &IMPORT, &lacks, (Fault::Kill, 0));
    finished.succeeds();
    let expected = dataset(&counted);
    // The rename that would put the new dataset at its path.
    let renames = at(&operations, "rename", "/data");
    assert_eq!(renames.len(), 1, "{operations:?}");
    for fault in [Fault::Kill, Fault::Broken] {
        let place = start.copied();
        let (finished, _) = disturbed(&place, &IMPORT, &lacks, (fault, renames[0]));
        assert_ne!(finished.code(), Some(0));
        let is_aside = !place.path("data").exists();
        assert_eq!(is_aside, fault == Fault::Kill, "{fault:?}");
        // The next command finds the old dataset, whether it reads it or imports again.
        let read = place.copied();
        read.run(["check"]).succeeds();
        assert_eq!(dataset(&read), dataset(&start));
        place.run(IMPORT).succeeds();
        assert_eq!(dataset(&place), expected, "{fault:?}");
        assert!(hidden(&place).is_empty(), "{:?}", hidden(&place));
    }
}

#[test]
fn an_import_that_was_killed_before_it_removed_the_old_dataset_keeps_no_other_from_coming() {
    let start = Workplace::with_dataset(CONFIG);
    for lacks in [&[][..], &[Lack::Exchange]] {
        let counted = start.copied();
        let (finished, operations) = disturbed(&counted, &IMPORT, lacks, (Fault::Kill, 0));
        finished.succeeds();
        let renamed = *at(&operations, "rename", "/data").last().unwrap();
        let removals = at(&operations, "remove", "");
        let behind: Vec<_> = removals.iter().filter(|&&at| at > renamed).collect();
        assert!(behind.len() > 3, "{operations:?}");
        for &&removal in [behind[0], behind[1], behind[behind.len() - 1]].iter() {
            let place = start.copied();
            let (finished, _) = disturbed(&place, &IMPORT, lacks, (Fault::Kill, removal));
            assert_eq!(finished.signal(), Some(9));
            assert_eq!(dataset(&place), dataset(&counted));
            place.run(IMPORT).succeeds();
            assert!(hidden(&place).is_empty(), "{:?}", hidden(&place));
        }
    }
}

#[test]
fn an_exchange_that_fails_is_a_failure() {
    let start = Workplace::with_dataset(CONFIG);
    let (finished, operations) = disturbed(&start.copied(), &IMPORT, &[], (Fault::Kill, 0));
    finished.succeeds();
    let exchange = at(&operations, "rename", "/data");
    assert_eq!(exchange.len(), 1, "{operations:?}");
    let place = start.copied();
    let (finished, _) = disturbed(&place, &IMPORT, &[], (Fault::Broken, exchange[0]));
    finished.fails(8, &["cannot rename to", "Input/output error"]);
    assert_eq!(dataset(&place), dataset(&start));
    assert!(hidden(&place).is_empty(), "{:?}", hidden(&place));
}

#[test]
fn where_there_are_no_locks_an_import_says_what_it_cannot_know() {
    let start = Workplace::with_dataset(CONFIG);
    let lacks = [Lack::Exchange, Lack::Locks];
    let counted = start.copied();
    let (finished, operations) = disturbed(&counted, &IMPORT, &lacks, (Fault::Kill, 0));
    finished.succeeds();
    let place = start.copied();
    let rename = at(&operations, "rename", "/data")[0];
    disturbed(&place, &IMPORT, &lacks, (Fault::Kill, rename));
    let (again, _) = disturbed(&place, &IMPORT, &lacks, (Fault::Kill, 0));
    let words = [
        "no locks",
        ".data.import/old to",
        "remove it and start again",
    ];
    again.fails(8, &words);
    // Does what the message says.
    fs::rename(place.path(".data.import/old"), place.path("data")).unwrap();
    fs::remove_dir_all(place.path(".data.import")).unwrap();
    let (again, _) = disturbed(&place, &IMPORT, &lacks, (Fault::Kill, 0));
    again.succeeds();
    assert_eq!(dataset(&place), dataset(&counted));
}

#[test]
fn a_dataset_behind_a_link_is_replaced_where_it_is() {
    let place = Workplace::with_edges(CONFIG);
    fs::create_dir(place.path("disk")).unwrap();
    symlink("disk/graph", place.path("data")).unwrap();
    for _ in 0..2 {
        place.import().succeeds();
        assert!(place.path("data").is_symlink() && place.path("disk/graph").is_dir());
        assert_eq!(fs::read_dir(place.path("disk")).unwrap().count(), 1);
    }
    place.run(["check"]).succeeds();
}

#[test]
fn an_import_replaces_a_dataset_and_nothing_else() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    place.write(
        "page/manifest.json",
        "{\"name\": \"an extension of a browser\"}",
    );
    let import = ["import", "--fresh", "--edges", "train=train.tsv"];
    for folder in ["model", "page"] {
        let before = files(&place.path(folder));
        let key = format!("dataset={folder}");
        place
            .run(with(&import, &[&key]))
            .fails(4, &["is not a dataset", folder]);
        assert_eq!(files(&place.path(folder)), before, "{folder}");
    }
    place.run(with(&import, &["dataset=data/inner"])).fails(
        4,
        &[
            "data/inner",
            "belongs to the dataset",
            "choose another folder",
        ],
    );
    assert!(!place.path("data/inner").exists());
    // A dataset with a damaged manifest is replaced all the same.
    place.write("data/manifest.json", "");
    place.run(import).succeeds();
}

#[test]
fn an_export_does_not_write_through_a_link() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    for lacks in [&[][..], &[Lack::Unnamed]] {
        let place = place.copied();
        place.write("thesis.tex", "years of work");
        fs::create_dir(place.path("out")).unwrap();
        let linked = [
            "entities_place.tsv.tmp",
            "entities_place.tsv",
            "relations.names.json.tmp",
        ];
        for name in linked {
            symlink("../thesis.tex", place.path("out").join(name)).unwrap();
        }
        let (finished, _) = disturbed(&place, &EXPORT, lacks, (Fault::Kill, 0));
        finished.succeeds();
        assert_eq!(place.read("thesis.tex"), "years of work");
        assert!(
            place
                .path("out/entities_place.tsv")
                .symlink_metadata()
                .unwrap()
                .is_file()
        );
        assert!(place.read("out/entities_place.tsv").lines().count() > 10);
    }
}

#[test]
fn an_export_that_was_killed_in_a_file_leaves_nothing_of_it() {
    let start = Workplace::with_dataset(CONFIG);
    start.run(TRAIN).succeeds();
    for format in ["npy", "safetensors", "parquet", "tsv"] {
        let export = ["export", "--format", format, "--out", "out"];
        let counted = start.copied();
        let (finished, operations) = disturbed(&counted, &export, &[], (Fault::Kill, 0));
        finished.succeeds();
        let writes = (1..).zip(&operations);
        let writes = writes.filter(|(_, line)| line.contains(" write ") || line.contains(" sync "));
        for (write, line) in writes.filter(|(_, line)| line.contains("/out/")) {
            let place = start.copied();
            let (finished, _) = disturbed(&place, &export, &[], (Fault::Kill, write));
            assert_eq!(finished.signal(), Some(9), "{line}");
            let whole = files(&counted.path("out"));
            for (name, bytes) in files(&place.path("out")) {
                assert!(whole.get(&name) == Some(&bytes), "{line}: {name}");
            }
        }
    }
}

#[test]
fn an_export_keeps_out_of_the_folders_of_others() {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(
            TRAIN
                .iter()
                .chain(&["--set", "checkpoint_preservation_interval=1"]),
        )
        .succeeds();
    let before = [files(&place.path("data")), files(&place.path("model"))];
    let folders = [
        "data",
        "data/out",
        "model",
        "model/epoch_1",
        "model/epoch_77",
        "model/best",
    ];
    for folder in folders {
        let export = ["export", "--format", "npy", "--overwrite", "--out", folder];
        place
            .run(export)
            .fails(2, &[folder, "belongs to the", "choose another folder"]);
    }
    let head = graph::name(0, 0);
    let predict = [
        "predict",
        "--head",
        &head,
        "--relation",
        "near",
        "--out",
        "data/a.jsonl",
    ];
    place
        .run(predict)
        .fails(2, &["data/a.jsonl is in the dataset"]);
    assert_eq!(
        [files(&place.path("data")), files(&place.path("model"))],
        before
    );
    // A folder with a name of its own below a checkpoint is kept.
    let export = ["export", "--format", "npy", "--out", "model/exported"];
    place.run(export).succeeds();
    place
        .run(with(
            &TRAIN,
            &["num_epochs=3", "checkpoint_preservation_interval=1"],
        ))
        .succeeds();
    assert!(place.path("model/exported/entities_place.npy").exists());
}

#[test]
fn a_checkpoint_needs_a_folder_of_its_own() {
    let place = Workplace::with_dataset(CONFIG);
    let before = files(&place.path("data"));
    symlink("data", place.path("alias")).unwrap();
    place.write("file", "");
    let cases: [(&str, i32, &str); 9] = [
        ("data", 3, "belongs to the dataset"),
        ("./data/../data", 3, "belongs to the dataset"),
        ("alias", 3, "belongs to the dataset"),
        ("data/model", 3, "an import into that one would remove it"),
        ("/", 3, "is the root of the file system"),
        ("/proc/self", 3, "is where the system shows its state"),
        ("/proc/none", 3, "is where the system shows its state"),
        ("/sys", 3, "is where the system shows its state"),
        ("file/model", 8, "cannot create the folder"),
    ];
    for (folder, code, words) in cases {
        let key = format!("checkpoint_path={folder}");
        for command in [&["check"][..], &TRAIN] {
            place.run(with(command, &[&key])).fails(code, &[words]);
        }
    }
    assert_eq!(files(&place.path("data")), before);
    // A dataset in a folder that the run would remove.
    fs::create_dir(place.path("model")).unwrap();
    fs::rename(place.path("data"), place.path("model/best")).unwrap();
    for command in [&["check"][..], &TRAIN] {
        let words = [
            "contains the dataset",
            "model/best",
            "at a path that a run would remove",
        ];
        place
            .run(with(command, &["dataset=model/best"]))
            .fails(3, &words);
    }
    assert!(Path::new(&place.path("model/best/manifest.json")).exists());
}
