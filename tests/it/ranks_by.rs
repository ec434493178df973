//! `eval --by`: the ranks per relation and entity type, which add up to those of all edges.

use serde_json::Value;

use crate::support::graph::CONFIG;
use crate::support::world::World;
use crate::support::{Workplace, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

fn eval(place: &Workplace, options: &[&str]) -> Value {
    let eval = ["eval", "--json", "--edges", "valid", "--filter", "valid"];
    let report = place.run(eval.iter().chain(options)).succeeds();
    serde_json::from_str(&report.stdout).unwrap()
}

const MEANS: [&str; 6] = [
    "mean_rank",
    "mrr",
    "hits_at_1",
    "hits_at_3",
    "hits_at_10",
    "auc",
];

#[test]
fn sums_by_relation_and_by_type_are_those_of_all() {
    for seed in 0..8 {
        let world = World::new(seed);
        let place = world.imported();
        place.run(with(&TRAIN, &["num_epochs=1"])).succeeds();
        let total = eval(&place, &[]);
        for by in ["relation", "entity-type"] {
            let mut report = eval(&place, &["--by", by]);
            let parts = report["by"].as_array().unwrap().clone();
            for ranks in ["raw_lhs", "raw_rhs", "filtered_lhs", "filtered_rhs"] {
                add_up(&parts, ranks, &total[ranks]);
            }
            // Nothing else in the report differs.
            report.as_object_mut().unwrap().remove("by");
            report["seconds"] = total["seconds"].clone();
            assert_eq!(report, total);
        }
    }
}

/// Asserts that the means of `parts`, weighted by their counts, are those of `all`.
#[track_caller]
fn add_up(parts: &[Value], ranks: &str, all: &Value) {
    let number = |value: &Value| value.as_f64().unwrap();
    let count: f64 = parts.iter().map(|part| number(&part[ranks]["count"])).sum();
    assert_eq!(count, number(&all["count"]), "{ranks}");
    for mean in MEANS {
        let of = |part: &Value| number(&part[ranks][mean]) * number(&part[ranks]["count"]);
        let sum: f64 = parts.iter().map(of).sum();
        let expected = number(&all[mean]) * count;
        assert!(
            (sum - expected).abs() < 1e-9 * expected.max(1.0),
            "{ranks} {mean}"
        );
    }
}

/// The ranks of a relation equal the ranks of an edge set with only its edges.
#[test]
fn the_ranks_of_a_relation_are_those_of_its_edges() {
    let place = Workplace::with_edges(CONFIG);
    let test = place.read("test.tsv");
    let near = test.lines().filter(|line| line.contains("\tnear\t"));
    place.write(
        "near.tsv",
        near.map(|line| line.to_owned() + "\n").collect::<String>(),
    );
    let import = "import --edges train=train.tsv --edges test=test.tsv --edges near=near.tsv";
    place.run(import.split(' ')).succeeds();
    place.run(TRAIN).succeeds();
    let report = |options: &str| {
        let report = place.run(options.split(' ')).succeeds().stdout;
        serde_json::from_str::<Value>(&report).unwrap()
    };
    let by = report("eval --json --edges test --filter train,test --by relation");
    let alone = report("eval --json --edges near --filter train,test");
    let by = by["by"].as_array().unwrap();
    assert_eq!(by[0]["name"], "near", "it has the most edges");
    for ranks in [
        "raw",
        "raw_lhs",
        "raw_rhs",
        "filtered",
        "filtered_lhs",
        "filtered_rhs",
    ] {
        let (part, all) = (&by[0][ranks], &alone[ranks]);
        assert_eq!(part["count"], all["count"]);
        for mean in MEANS {
            let of = |value: &Value| value[mean].as_f64().unwrap();
            assert!(
                (of(part) - of(all)).abs() < 1e-12 * of(all).max(1.0),
                "{ranks} {mean}"
            );
        }
    }
    let text = "eval --edges test --filter train,test --by relation";
    let text = place.run(text.split(' ')).succeeds().stdout;
    let (_, table) = text.split_once("filtered ranks by relation\n").unwrap();
    let rows = table.lines().filter(|row| row.starts_with('|'));
    let names: Vec<_> = rows
        .map(|row| row.split('|').nth(1).unwrap().trim())
        .collect();
    assert_eq!(names.len(), 2 + 3 + 1, "{text}");
    assert!(names[2] == "near" && names[5] == "all", "{text}");
    place
        .run(["eval", "--by", "relations"])
        .fails(2, &["relations", "entity-type"]);
}
