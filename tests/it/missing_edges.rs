//! `predict --missing`: the best edges that a graph lacks, compared with the scores of all edges.

use std::collections::BTreeSet;
use std::fs::File;

use serde_json::Value;

use crate::support::graph::{CONFIG, RING, name};
use crate::support::{Workplace, finish};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];
const RELATIONS: [&str; 4] = ["near", "next", "next but one", "opposite"];

type Edge = [String; 3];

fn trained() -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    place
}

/// Returns the missing edges that the program prints, with rank and score.
fn missing(place: &Workplace, options: &[&str]) -> Vec<(Edge, u64, f32)> {
    let found = place.run(["predict", "--missing", "--json"].iter().chain(options));
    let found = found.succeeds();
    assert!(found.stderr.contains("pairs to score"), "{}", found.stderr);
    let edge = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let part = |key| line[key].as_str().unwrap().to_owned();
        let score: f32 = serde_json::from_value(line["score"].clone()).unwrap();
        (
            ["head", "relation", "tail"].map(part),
            line["rank"].as_u64().unwrap(),
            score,
        )
    };
    found.stdout.lines().map(edge).collect()
}

/// Returns all edges that are not in the lists, with the scores of `score`, best first.
fn all_missing(place: &Workplace, lists: &[&str], relations: &[&str]) -> Vec<(Edge, f32)> {
    let texts: Vec<String> = lists.iter().map(|list| place.read(list)).collect();
    let known: BTreeSet<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    let names: Vec<String> = (0..2)
        .flat_map(|ring| (0..RING).map(move |i| name(ring, i)))
        .collect();
    let mut edges = Vec::new();
    for relation in relations {
        for head in &names {
            let of_head = names
                .iter()
                .map(|tail| [head, *relation, tail].map(str::to_owned));
            edges.extend(of_head.filter(|edge| !known.contains(edge.join("\t").as_str())));
        }
    }
    let lines: String = edges.iter().map(|edge| edge.join("\t") + "\n").collect();
    let lines = place.write("all.tsv", lines);
    let mut command = place.command(["score"]);
    let scores = finish(command.stdin(File::open(lines).unwrap()))
        .succeeds()
        .stdout;
    let scores = scores.lines().map(|line| line.parse::<f32>().unwrap());
    let mut all: Vec<(Edge, f32)> = edges.into_iter().zip(scores).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Compares edges with the first of `expected`; equal scores may have another order.
fn same(found: &[(Edge, u64, f32)], expected: &[(Edge, f32)], count: usize) {
    assert_eq!(found.len(), count);
    for (at, ((edge, rank, score), (_, best))) in found.iter().zip(expected).enumerate() {
        assert_eq!((*rank, score), (at as u64 + 1, best));
        assert!(expected.contains(&(edge.clone(), *score)), "{edge:?}");
    }
    let different: BTreeSet<&Edge> = found.iter().map(|(edge, ..)| edge).collect();
    assert_eq!(different.len(), count);
}

#[test]
fn the_best_of_all_pairs_are_listed() {
    let place = trained();
    let all = all_missing(&place, &["train.tsv", "test.tsv"], &RELATIONS);
    same(&missing(&place, &["-k", "300"]), &all, 300);
    let one_thread = missing(&place, &["-k", "300", "--threads", "1"]);
    assert_eq!(one_thread, missing(&place, &["-k", "300"]));
    // All that are missing, if there are fewer than asked for.
    same(&missing(&place, &["-k", "1000000"]), &all, all.len());
    let without_loops: Vec<_> = all
        .iter()
        .filter(|(edge, _)| edge[0] != edge[2])
        .cloned()
        .collect();
    same(
        &missing(&place, &["-k", "50", "--no-loops"]),
        &without_loops,
        50,
    );
    let with_test = all_missing(&place, &["train.tsv"], &RELATIONS);
    same(
        &missing(&place, &["-k", "40", "--filter", "train"]),
        &with_test,
        40,
    );
    let near = all_missing(&place, &["train.tsv", "test.tsv"], &["near"]);
    same(
        &missing(&place, &["-k", "20", "--relation", "near"]),
        &near,
        20,
    );
    let each = missing(&place, &["-k", "20", "--per-relation"]);
    assert_eq!(each.len(), 80);
    let of_near: Vec<_> = each
        .iter()
        .filter(|(edge, ..)| edge[1] == "near")
        .cloned()
        .collect();
    same(&of_near, &near, 20);
}

#[test]
fn a_search_says_what_it_costs_and_is_refused_if_that_is_too_much() {
    let place = trained();
    let check = place.run(["predict", "--missing", "--check"]).succeeds();
    assert!(check.stderr.contains("25.6 k pairs"), "{}", check.stderr);
    assert!(check.stdout.contains("known edges between two partitions"));
    let most = ["predict", "--missing", "--most-pairs", "25599"];
    place.run(most).fails(
        2,
        &["25.6 k pairs", "--relation NAME", "--most-pairs 25600"],
    );
    place
        .run(["predict", "--missing", "--most-pairs", "25600"])
        .succeeds();
    let one = [
        "predict",
        "--missing",
        "--relation",
        "next",
        "--most-pairs",
        "6400",
    ];
    place.run(one).succeeds();
    place
        .run(["predict", "--missing", "--relation", "over"])
        .fails(4, &["`over`"]);
    place
        .run(["predict", "--missing", "--head", &name(0, 1)])
        .fails(2, &["--head"]);
    place
        .run(["predict", "--per-relation"])
        .fails(2, &["--missing"]);
    // Files have the columns of other predictions.
    place
        .run(["predict", "--missing", "--out", "missing.parquet"])
        .succeeds();
    assert!(place.path("missing.parquet").metadata().unwrap().len() > 0);
    place
        .run(["predict", "--missing", "-k", "3", "--out", "missing.jsonl"])
        .succeeds();
    assert_eq!(place.read("missing.jsonl").lines().count(), 3);
}
