//! `relation_prediction`: with dynamic relations, the relation of each edge is also predicted.

use std::fs;

use serde_json::Value;

use crate::support::graph::CONFIG;
use crate::support::{Workplace, finish, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];
const WEIGHT: &str = "relation_prediction=0.5";

fn json(place: &Workplace, arguments: &[&str]) -> Value {
    let found = place.run(arguments).succeeds();
    serde_json::from_str(&found.stdout).unwrap()
}

#[test]
fn relations_are_told_apart_by_the_operators() {
    // Two places are joined by only one of the relations, and scores must show which.
    let right = |keys: &[&str]| {
        let place = Workplace::with_dataset(CONFIG);
        let longer = ["num_epochs=10", "relations.0.operator=diagonal"];
        let keys = [&longer[..], keys].concat();
        place.run(with(&TRAIN, &keys)).succeeds();
        let edges = place.read("train.tsv");
        let edges: Vec<Vec<&str>> = edges.lines().map(|l| l.split('\t').collect()).collect();
        let mut relations: Vec<&str> = edges.iter().map(|edge| edge[1]).collect();
        relations.sort_unstable();
        relations.dedup();
        assert!(relations.len() > 1);
        let mut asked = String::new();
        for edge in edges.iter().take(60) {
            for relation in &relations {
                asked += &format!("{}\t{relation}\t{}\n", edge[0], edge[2]);
            }
        }
        let asked = fs::File::open(place.write("asked.tsv", asked)).unwrap();
        let score = with(&["score", "pbg.toml"], &keys);
        let found = finish(place.command(score).stdin(asked)).succeeds();
        let scores: Vec<f32> = found
            .stdout
            .lines()
            .map(|line| line.rsplit('\t').next().unwrap().parse().unwrap())
            .collect();
        let rows = scores.chunks(relations.len()).zip(&edges);
        let hits = rows.filter(|(row, edge)| {
            let most = row.iter().copied().fold(f32::MIN, f32::max);
            let own = relations.iter().position(|r| *r == edge[1]).unwrap();
            row[own] == most
        });
        hits.count()
    };
    let (without, with_it) = (right(&[]), right(&[WEIGHT]));
    assert!(2 * with_it > 3 * without, "{without}, then {with_it} of 60");
}

#[test]
fn bytes_do_not_depend_on_when_a_run_is_saved() {
    let keys = [WEIGHT, "num_epochs=2"];
    let [whole, often] = ["600", "0"].map(|interval| {
        let place = Workplace::with_dataset(CONFIG);
        let interval = format!("checkpoint_interval={interval}");
        place
            .run(with(&TRAIN, &[&keys[..], &[&*interval]].concat()))
            .succeeds();
        place
    });
    assert_eq!(whole.committed("model"), often.committed("model"));
    let resumed = Workplace::with_dataset(CONFIG);
    for epochs in ["num_epochs=1", "num_epochs=2"] {
        resumed
            .run(with(&TRAIN, &[&keys[..], &[epochs]].concat()))
            .succeeds();
    }
    assert_eq!(whole.committed("model"), resumed.committed("model"));
}

#[test]
fn its_buffers_are_announced() {
    let place = Workplace::with_dataset(CONFIG);
    let worker = |keys: &[&str]| {
        let report = json(&place, &with(&["check", "--json"], keys));
        let parts = report["memory"].as_array().unwrap().iter();
        let of_worker = parts.filter(|part| part[0] == "1 worker");
        of_worker.map(|part| part[1].as_u64().unwrap()).sum::<u64>()
    };
    assert!(worker(&[WEIGHT]) > worker(&[]));
}

#[test]
fn where_it_is_not_there_one_line_says_so() {
    let place = Workplace::with_dataset(CONFIG);
    for (key, words) in [
        ("comparator=cos", &["relation_prediction", "`dot`"][..]),
        (
            "relations.0.operator=affine",
            &["relation_prediction", "`diagonal`", "affine"],
        ),
        (
            "dynamic_relations=false",
            &["relation_prediction", "dynamic_relations"],
        ),
        (
            "execution.device=cuda:0",
            &["relation_prediction", "cuda:0"],
        ),
    ] {
        place.run(with(&["check"], &[WEIGHT, key])).fails(3, words);
    }
    place
        .run(with(&["check"], &["relation_predictions=0.5"]))
        .fails(3, &["did you mean", "relation_prediction"]);
}
