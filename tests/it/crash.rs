//! After any fault at any operation on the file system, the same command continues, and leaves the files that an
//! undisturbed command leaves.
//!
//! The test command tries some of the operations. `cargo xtask crash --minutes N` sets `PBG_TEST_MINUTES`, and tries
//! them in a scattered order until the time is over.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::faults::{Fault, Lack, inject, without};
use crate::support::graph::CONFIG;
use crate::support::{Finished, Workplace, finish, minutes};

/// Command to disturb.
struct Scenario {
    name: &'static str,
    /// Creates a folder in which the command can start; each case starts in a copy of it.
    start: fn() -> Workplace,
    command: &'static [&'static str],
    /// Features that the file system lacks.
    lacks: &'static [Lack],
    /// Returns the files that the command leaves, by name.
    leaves: fn(&Workplace) -> BTreeMap<String, Vec<u8>>,
    /// Asserts that the results are readable after the fault, before the command starts again.
    whole: fn(&Workplace),
}

/// Returns every file below a folder, by its path.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        } else {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

fn trained(place: &Workplace) -> BTreeMap<String, Vec<u8>> {
    let folders = ["model", "model/epoch_1", "model/best"];
    let mut all = BTreeMap::new();
    for folder in folders {
        let tensors = place.committed(folder).into_iter();
        all.extend(tensors.map(|(name, bytes)| (format!("{folder}/{name}"), bytes)));
    }
    // No half-written file is left, and no file that no version names.
    for path in files(&place.path("model")).into_keys() {
        let left = path.ends_with(".tmp") || path.contains(".old");
        assert!(!left, "{path} was left behind");
    }
    all
}

const TRAINING: Scenario = Scenario {
    name: "train",
    start: || Workplace::with_dataset(CONFIG),
    command: &[
        "train",
        "--progress",
        "none",
        "--set",
        "checkpoint_interval=0",
        "--set",
        "checkpoint_preservation_interval=1",
        "--set",
        "validation.edges=test",
        "--set",
        "validation.early_stop=5",
    ],
    lacks: &[],
    leaves: trained,
    whole: |place| {
        place.run(["check"]).succeeds();
    },
};

const IMPORT: Scenario = Scenario {
    name: "import",
    start: || Workplace::with_dataset(CONFIG),
    command: &[
        "import",
        "--edges",
        "train=test.tsv",
        "--edges",
        "more=train.tsv",
    ],
    lacks: &[],
    leaves: |place| {
        let names = fs::read_dir(place.path("")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name());
        let hidden: Vec<_> = names
            .filter(|name| name.as_encoded_bytes()[0] == b'.')
            .collect();
        assert!(hidden.is_empty(), "{hidden:?} was left behind");
        files(&place.path("data"))
    },
    whole: |place| {
        // The dataset is the old one or the new one.
        place.run(["check"]).succeeds();
    },
};

/// [`IMPORT`] with names on the disk.
const SORTING_IMPORT: Scenario = Scenario {
    name: "import with names on the disk",
    command: &[
        "import",
        "--names-on-disk",
        "--edges",
        "train=test.tsv",
        "--edges",
        "more=train.tsv",
    ],
    ..IMPORT
};

/// [`IMPORT`] where two folders cannot be exchanged in one step.
const RENAMING_IMPORT: Scenario = Scenario {
    name: "import without an exchange",
    lacks: &[Lack::Exchange],
    ..IMPORT
};

const EXPORT: Scenario = Scenario {
    name: "export",
    start: || {
        let place = Workplace::with_dataset(CONFIG);
        place.run(["train", "--progress", "none"]).succeeds();
        place
    },
    command: &["export", "--format", "npy", "--out", "out", "--overwrite"],
    lacks: &[],
    leaves: |place| files(&place.path("out")),
    whole: |_| {},
};

/// [`EXPORT`] where every file has a name.
const NAMING_EXPORT: Scenario = Scenario {
    name: "export without files that have no name",
    lacks: &[Lack::Unnamed],
    ..EXPORT
};

/// Runs the scenario with a fault at operation `at`; 0 for none.
fn run(scenario: &Scenario, place: &Workplace, fault: Fault, at: usize) -> (Finished, Vec<String>) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = place.command(scenario.command);
    inject(&mut command, &place.path(""), log.path(), fault, at);
    without(&mut command, &place.path(""), scenario.lacks);
    let finished = finish(&mut command);
    let log = fs::read_to_string(log.path()).unwrap();
    (finished, log.lines().map(str::to_owned).collect())
}

/// Injects a fault at an operation, and asserts what must hold afterwards.
fn disturb(
    scenario: &Scenario,
    start: &Workplace,
    fault: Fault,
    at: usize,
    expected: &BTreeMap<String, Vec<u8>>,
) {
    let place = start.copied();
    let (finished, operations) = run(scenario, &place, fault, at);
    // Threads interleave: a run may have fewer operations than the one that was counted.
    let Some(operation) = operations.get(at - 1) else {
        finished.succeeds();
        return;
    };
    let case = format!("{}: {fault:?} at operation {operation}", scenario.name);
    eprintln!("{case}");
    match (fault, finished.code()) {
        (Fault::Kill, code) => {
            assert_eq!(
                (finished.signal(), code),
                (Some(9), None),
                "{case}\n{}",
                finished.stderr
            );
        }
        // The command may succeed without operations that only free space or only report.
        (_, Some(0)) => {}
        (_, Some(8)) => assert!(finished.stderr.contains("error: "), "{case}"),
        (_, code) => panic!("{case}: exit code {code:?}\n{}", finished.stderr),
    }
    (scenario.whole)(&place);
    place.run(scenario.command).succeeds();
    let left = (scenario.leaves)(&place);
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&left), names(expected), "{case}");
    for (name, bytes) in expected {
        assert!(left[name] == *bytes, "{case}: {name} differs");
    }
}

/// Injects `cases` faults, spread over all operations; with `PBG_TEST_MINUTES`, as many as fit the time.
fn disturbed_anywhere(scenario: &Scenario, cases: usize) {
    let start = (scenario.start)();
    let place = start.copied();
    let (finished, operations) = run(scenario, &place, Fault::Kill, 0);
    finished.succeeds();
    let expected = (scenario.leaves)(&place);
    let all = operations.len();
    assert!(all > 5, "{operations:?}");
    let Some(minutes) = minutes() else {
        for case in 0..cases {
            let fault = Fault::CRASHES[case % Fault::CRASHES.len()];
            disturb(scenario, &start, fault, 1 + case * all / cases, &expected);
        }
        return;
    };
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    // Every fault of every operation once, in a scattered order; then once more.
    let faults = 3 * all;
    let stride = (faults / 2..).find(|s| gcd(*s, faults) == 1).unwrap_or(1);
    for case in 0.. {
        if Instant::now() > end {
            eprintln!("{}: {case} faults at {all} operations", scenario.name);
            return;
        }
        let chosen = case * stride % faults;
        disturb(
            scenario,
            &start,
            Fault::CRASHES[chosen % 3],
            1 + chosen / 3,
            &expected,
        );
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[test]
fn a_crash_while_training() {
    disturbed_anywhere(&TRAINING, 18);
}

#[test]
fn a_crash_while_importing() {
    disturbed_anywhere(&IMPORT, 9);
}

#[test]
fn a_crash_while_importing_without_an_exchange() {
    disturbed_anywhere(&RENAMING_IMPORT, 6);
}

#[test]
fn a_crash_while_names_are_sorted() {
    disturbed_anywhere(&SORTING_IMPORT, 6);
}

#[test]
fn a_crash_while_exporting() {
    disturbed_anywhere(&EXPORT, 6);
}

#[test]
fn a_crash_while_exporting_without_files_that_have_no_name() {
    disturbed_anywhere(&NAMING_EXPORT, 6);
}
