//! Ranks of held-out edges during training, compared with those of `eval` on the same model.

use serde_json::Value;

use crate::support::{Workplace, is_long, with};

/// A cycle of entities. Each edge is listed often, so that the held-out ones are trained as well.
const CONFIG: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 20
lr = 0.1
workers = 1
seed = 3
comparator = "dot"
loss_fn = "softmax"
dynamic_relations = true
num_batch_negs = 0
eval_fraction = 0.5

[entities.e]
num_partitions = 1

[[relations]]
name = "any"
lhs = "e"
rhs = "e"
operator = "complex_diagonal"
"#;

/// Imports a cycle of `entities` entities with `rows` edges in total.
fn cycle(entities: usize, rows: usize) -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", CONFIG);
    let edge = |row: usize| {
        let at = row % entities;
        format!("n{at}\tnext\tn{}\n", (at + 1) % entities)
    };
    place.write("train.tsv", (0..rows).map(edge).collect::<String>());
    place
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    place
}

/// Trains; returns MRR, Hits@1 and Hits@10 of the held-out edges, and those of `eval` without a filter.
fn ranks(place: &Workplace, keys: &[&str]) -> [[f64; 3]; 2] {
    place
        .run(with(&["train", "--progress", "none"], keys))
        .succeeds();
    let metrics = place.read("model/metrics.jsonl");
    let events = metrics
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let trained: Vec<Value> = events
        .filter(|event: &Value| event["event"] == "bucket_finished")
        .collect();
    let held_out = &trained.last().unwrap()["eval_after"];
    let eval = place.run(with(&["eval", "--edges", "train", "--json"], keys));
    let eval: Value = serde_json::from_str(&eval.succeeds().stdout).unwrap();
    [held_out, &eval["raw"]].map(|ranks| {
        ["mrr", "hits_at_1", "hits_at_10"].map(|metric| ranks[metric].as_f64().unwrap())
    })
}

/// Tolerance between figures of half of the edges and figures of all of them.
const SAMPLE: f64 = 0.05;

#[test]
fn held_out_edges_rank_as_eval_ranks_them_whatever_the_graph_size() {
    let sizes: &[_] = match is_long() {
        true => &[2, 10, 30, 100, 300],
        false => &[2, 30, 300],
    };
    for &entities in sizes {
        let place = cycle(entities, entities.max(40) * 20);
        for keys in [
            ["num_epochs=1", "lr=0.03"],
            ["num_epochs=4", "lr=0.1"],
            ["num_epochs=30", "lr=0.1"],
        ] {
            let path = format!("checkpoint_path={}", place.path("model").display());
            let _none = std::fs::remove_dir_all(place.path("model"));
            let [held_out, raw] = ranks(&place, &[keys[0], keys[1], &path]);
            eprintln!("{entities} entities, {keys:?}: {held_out:.3?}, eval {raw:.3?}");
            for (held_out, raw) in held_out.into_iter().zip(raw) {
                assert!((held_out - raw).abs() < SAMPLE, "{held_out} {raw}");
            }
        }
    }
}

/// If candidates are drawn from a part of a large graph, the ranks are never worse than among all entities.
#[test]
fn held_out_edges_of_a_larger_graph_rank_no_worse_than_among_all() {
    let place = cycle(3000, 30_000);
    let [held_out, raw] = ranks(&place, &["num_epochs=3"]);
    for (held_out, raw) in held_out.into_iter().zip(raw) {
        assert!(held_out > raw - SAMPLE, "{held_out} {raw}");
    }
}
