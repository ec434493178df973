//! Indexes that find too few of the best: they are used only if a width is given, and a warning says so.

use std::fmt::Write as _;

use pbg_fuzz::Dice;
use serde_json::Value;

use crate::index::{MODELS, trained};
use crate::support::Workplace;

const NEAR: [&str; 4] = ["neighbors", "pbg.toml", "e7", "--json"];
const PREDICTED: [&str; 6] = ["predict", "--json", "--head", "e7", "--relation", "r1"];

/// Returns the output and the messages of both commands.
fn asked(place: &Workplace, options: &[&str]) -> [(String, String); 2] {
    [&NEAR[..], &PREDICTED].map(|command| {
        let finished = place.run(command.iter().chain(options)).succeeds();
        (finished.stdout, finished.stderr)
    })
}

#[test]
fn an_index_that_was_not_measured_is_not_trusted() {
    let place = trained(MODELS[2]);
    let exact = asked(&place, &[]);
    place.run(["index", "--recall-queries", "0"]).succeeds();
    for ((exact, _), (found, said)) in exact.iter().zip(asked(&place, &["--index"])) {
        assert_eq!(*exact, found);
        assert!(
            said.contains(
                "warning: exact: the recall of walks was not measured when the index was built"
            ),
            "{said}"
        );
    }
    for (_, said) in asked(&place, &["--index", "--width", "64"]) {
        assert!(
            said.contains("its recall with width 64 was not measured"),
            "{said}"
        );
        assert!(!said.contains("warning"), "{said}");
    }
    // It takes the memory of comparing all entities.
    let check = PREDICTED.iter().chain(&["--index", "--check"]);
    let needs = place
        .run(check.filter(|word| **word != "--json"))
        .succeeds();
    assert!(
        needs.stdout.contains("largest partition"),
        "{}",
        needs.stdout
    );
}

/// Trains embeddings that point in all directions, few of which an index with few links reaches.
fn scattered() -> Workplace {
    let place = Workplace::empty();
    place.write(
        "pbg.toml",
        "dataset = \"data\"\ncheckpoint_path = \"model\"\ndimension = 48\nlr = 0.001\nworkers = 1\nnum_epochs = 1\n\
         eval_fraction = 0\n[entities.place]\nnum_partitions = 1\n[[relations]]\nname = \"*\"\nlhs = \"place\"\n\
         rhs = \"place\"\noperator = \"translation\"\n",
    );
    let mut dice = Dice::new(3);
    let mut edges = String::new();
    for at in 0..9000 {
        writeln!(edges, "e{at}\tr{}\te{}", at % 3, dice.from(0, 8999)).unwrap();
    }
    place.write("edges.tsv", edges);
    place
        .run(["import", "--edges", "train=edges.tsv"])
        .succeeds();
    place.run(["train", "--progress", "none"]).succeeds();
    place
}

#[test]
fn an_index_that_finds_too_little_is_a_warning() {
    let place = scattered();
    let exact = asked(&place, &[]);
    let build = "index --json --links 4 --build-width 4 --recall-queries 40";
    let built = place.run(build.split(' ')).succeeds();
    let report: Value = serde_json::from_str(&built.stdout).unwrap();
    let best = report["types"][0]["recall"].as_array().unwrap().last();
    for kind in ["neighbors", "predictions"] {
        let recall = best.unwrap()[kind].as_f64().unwrap();
        assert!(recall < 0.9, "{kind}: the graph is too easy: {recall}");
        let warning = format!("warning: {kind} of place: walks find {recall:.3} of the ten best");
        assert!(built.stderr.contains(&warning), "{}", built.stderr);
    }
    for ((exact, _), (found, said)) in exact.iter().zip(asked(&place, &["--index"])) {
        assert_eq!(*exact, found);
        assert!(
            said.contains("warning: exact: when the index was built, walks found 0."),
            "{said}"
        );
        assert!(said.contains("`--width 512` forces walks"), "{said}");
    }
    // A smaller width would not find more.
    for width in ["512", "100"] {
        for (_, said) in asked(&place, &["--index", "--width", width]) {
            assert!(
                said.contains("warning: approximate, by the index: recall@10"),
                "{said}"
            );
            assert!(said.contains("without `--width`"), "{said}");
        }
    }
}
