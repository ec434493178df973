//! `eval --machines`: several processes together rank what one would rank alone.

use std::fs;

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::CONFIG;

const EVAL: [&str; 9] = [
    "eval",
    "--json",
    "--edges",
    "train",
    "--filter",
    "train,test",
    "--by",
    "relation",
    "--threads=1",
];

/// Asserts that two reports differ by no more than the last digits of means.
#[track_caller]
fn same(one: &Value, other: &Value) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()), "{one:?}\n{other:?}");
            let shared = one.iter().filter(|(key, _)| *key != "seconds");
            shared.for_each(|(key, value)| same(value, &other[key]));
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len());
            one.iter()
                .zip(other)
                .for_each(|(one, other)| same(one, other));
        }
        (Value::Number(one), Value::Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            assert!((one - other).abs() <= 1e-12 * other.abs(), "{one} {other}");
        }
        _ => assert_eq!(one, other),
    }
}

#[test]
fn processes_rank_together_what_one_ranks_alone() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    let report = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let alone = report(&place.run(EVAL).succeeds().stdout);
    let files = || {
        let names = fs::read_dir(place.path("model")).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    let together = [EVAL.as_slice(), &["--machines", "3"]].concat();
    let start = |_| {
        let mut command = place.command(&together);
        command
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let processes: Vec<_> = (0..3).map(start).collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        same(&report(&String::from_utf8(output.stdout).unwrap()), &alone);
    }
    assert_eq!(files(), before, "they leave nothing behind");
    // A single process ranks everything.
    same(&report(&place.run(&together).succeeds().stdout), &alone);
}
