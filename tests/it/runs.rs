//! Whole runs with features that the small graph lacks: edges that can be told apart, weights, several entity types and
//! features, edge sets and chunks, workers, another checkpoint to begin with.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::{self, CONFIG};
use crate::support::tensors::tensors;

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

fn events(place: &Workplace, kind: &str) -> Vec<Value> {
    let text = place.read("model/metrics.jsonl");
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.filter(|event: &Value| event["event"] == kind).collect()
}

/// Returns only the embeddings.
fn embeddings(place: &Workplace, folder: &str) -> Vec<Vec<f32>> {
    let all = tensors(place, folder).into_iter();
    all.filter(|((_, name), _)| name == "embeddings")
        .map(|(_, tensor)| tensor.numbers)
        .collect()
}

/// Trains with more keys.
fn train(place: &Workplace, keys: &[&str]) {
    let set = keys.iter().flat_map(|key| ["--set", key]);
    place.run(TRAIN.into_iter().chain(set)).succeeds();
}

/// Every edge has its own relation, whose operator changes when the edge is trained. The run counts as many edges as
/// there are, and each was trained: so each was trained exactly once.
#[test]
fn an_epoch_trains_every_edge_once() {
    let edges = 300;
    let list: String = (0..edges)
        .map(|edge| format!("e{}\trelation {edge}\te{}\n", edge * 7 % 90, edge * 31 % 90))
        .collect();
    for keys in [
        &["workers=1"][..],
        &["workers=3", "num_edge_chunks=3", "bucket_order=random"],
        &[
            "num_edge_chunks=2",
            "buffer_partitions=3",
            "execution.prefetch=false",
        ],
    ] {
        let place = Workplace::empty();
        let config = CONFIG.replace("\"translation\"", "\"diagonal\"");
        place.write(
            "pbg.toml",
            config.replace("num_epochs = 2", "num_epochs = 1"),
        );
        place.write("train.tsv", &list);
        place
            .run(["import", "--edges", "train=train.tsv"])
            .succeeds();
        train(&place, keys);
        let epoch = &events(&place, "epoch_finished")[0];
        assert_eq!(epoch["stats"]["count"], edges);
        let tensors = tensors(&place, "model");
        for side in ["lhs", "rhs"] {
            let name = format!("relations/0/operator/{side}/diagonals.adagrad");
            let moved = &tensors[&("model".to_owned(), name)];
            let untrained = moved
                .numbers
                .chunks_exact(16)
                .filter(|row| row.iter().all(|&x| x == 0.0));
            assert_eq!(untrained.count(), 0, "{keys:?}");
        }
    }
}

#[test]
fn sets_and_chunks_are_trained_one_after_the_other() {
    let place = Workplace::with_edges(CONFIG);
    let import = [
        "import",
        "--edges",
        "train=train.tsv",
        "--edges",
        "more=test.tsv",
    ];
    place.run(import).succeeds();
    let keys = [
        "edge_sets=train,more",
        "num_edge_chunks=3",
        "checkpoint_interval=0",
    ];
    train(&place, &keys);
    let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
    let pass = |event: &Value| ["epoch", "edge_set", "edge_chunk"].map(|key| number(event, key));
    let buckets = events(&place, "bucket_finished");
    let passes: Vec<_> = buckets.iter().map(pass).collect();
    assert!(passes.is_sorted(), "{passes:?}");
    let all: BTreeSet<_> = passes.iter().copied().collect();
    assert_eq!(all.len(), 2 * 2 * 3);
    for all in all {
        let visits = passes.iter().filter(|pass| **pass == all).count();
        assert_eq!(visits, 9, "{all:?}");
    }
    for epoch in 0..2 {
        for (set, expected) in [(0, 324), (1, 36)] {
            let of_set = |event: &&Value| pass(event)[..2] == [epoch, set];
            let edges = buckets.iter().filter(of_set);
            let edges: u64 = edges.map(|event| number(&event["stats"], "count")).sum();
            assert_eq!(edges, expected);
        }
    }
}

/// Imports the small graph with a weight for each edge.
fn weighted(config: &str, weight: impl Fn(usize) -> &'static str) -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", config);
    let lines = graph::tsv().0;
    let lines = lines.lines().enumerate();
    let list: String = lines
        .map(|(at, line)| format!("{line}\t{}\n", weight(at)))
        .collect();
    place.write("train.tsv", list);
    let import = [
        "import",
        "--columns",
        "lhs,rel,rhs,weight",
        "--edges",
        "train=train.tsv",
    ];
    place.run(import).succeeds();
    place.run(TRAIN).succeeds();
    place
}

#[test]
fn weights_of_edges_weigh_their_loss() {
    let plain = Workplace::with_edges(CONFIG);
    plain
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    train(&plain, &[]);
    let ones = weighted(CONFIG, |_| "1");
    assert_eq!(ones.committed("model"), plain.committed("model"));
    // A weight of all edges equals the same weight of their relation.
    let twos = weighted(CONFIG, |_| "2");
    let relation = Workplace::with_edges(&format!("{CONFIG}weight = 2.0\n"));
    relation
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    train(&relation, &[]);
    assert_eq!(twos.committed("model"), relation.committed("model"));
    assert_ne!(twos.committed("model"), plain.committed("model"));
    // Edges of weight zero train nothing.
    let nothing = weighted(CONFIG, |_| "0");
    train(&plain, &["checkpoint_path=still", "lr=0", "relation_lr=0"]);
    assert_eq!(embeddings(&nothing, "model"), embeddings(&plain, "still"));
    let uneven = weighted(CONFIG, |at| ["0.25", "1", "4"][at % 3]);
    assert_ne!(embeddings(&uneven, "model"), embeddings(&plain, "model"));
}

#[test]
fn a_run_begins_with_the_checkpoint_of_init_path() {
    let place = Workplace::with_dataset(CONFIG);
    train(&place, &[]);
    let still = [
        "checkpoint_path=still",
        "num_epochs=1",
        "lr=0",
        "relation_lr=0",
    ];
    train(&place, &[&still[..], &["init_path=model"]].concat());
    assert_eq!(embeddings(&place, "still"), embeddings(&place, "model"));
    let parameters = |folder: &str| {
        let mut all = tensors(&place, folder);
        all.retain(|(file, name), _| file == "model" && !name.ends_with(".adagrad"));
        all
    };
    assert_eq!(parameters("still"), parameters("model"));
    train(
        &place,
        &[&still[..3], &["relation_lr=0", "checkpoint_path=random"]].concat(),
    );
    assert_ne!(embeddings(&place, "random"), embeddings(&place, "model"));
}

/// Users read texts, which are bags of words; texts cite texts; users know users.
const TYPES: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 6
comparator = "dot"
loss_fn = "softmax"
num_epochs = 8
lr = 0.1
workers = 1
global_emb = false
batch_size = 20
num_batch_negs = 10
num_uniform_negs = 10
eval_fraction = 0.0

[entities.user]
num_partitions = 3

[entities.text]
num_partitions = 1
featurized = true

[entities.place]
num_partitions = 3
dimension = 4

[[relations]]
name = "reads"
lhs = "user"
rhs = "text"

[[relations]]
name = "cites"
lhs = "text"
rhs = "text"

[[relations]]
name = "near"
lhs = "place"
rhs = "place"
operator = "diagonal"
"#;

fn typed() -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", TYPES);
    let mut edges = String::new();
    for index in 0..60 {
        edges.push_str(&format!("user {index}\treads\ttext {}\n", index % 12));
        edges.push_str(&format!(
            "text {}\tcites\ttext {}\n",
            index % 12,
            (index + 1) % 12
        ));
        edges.push_str(&format!(
            "place {}\tnear\tplace {}\n",
            index % 20,
            (index + 1) % 20
        ));
    }
    place.write("train.tsv", edges);
    let words =
        (0..12).map(|text| format!("text {text}\tword{}\tword{}\n", text % 3, 3 + text % 4));
    place.write("text.features", words.collect::<String>());
    let import = [
        "import",
        "--edges",
        "train=train.tsv",
        "--features",
        "text=text.features",
    ];
    place.run(import).succeeds();
    place
}

/// Reads the rows of an exported file by name.
fn exported(place: &Workplace, file: &str) -> BTreeMap<String, Vec<f64>> {
    let text = place.read(file);
    let row = |line: &str| {
        let (name, numbers) = line.split_once('\t').unwrap();
        let numbers = numbers.split('\t').map(|number| number.parse().unwrap());
        (name.to_owned(), numbers.collect())
    };
    text.lines().map(row).collect()
}

#[test]
fn types_of_all_kinds_are_trained_together() {
    let place = typed();
    // Types of two and of three partitions cannot be on the same side.
    place
        .run(["check", "--set", "entities.place.num_partitions=2"])
        .fails(3, &["num_partitions"]);
    train(&place, &[]);
    let epochs = events(&place, "epoch_finished");
    let loss = |event: &Value| event["stats"]["loss"].as_f64().unwrap();
    assert!(epochs.iter().all(|event| event["stats"]["count"] == 180));
    assert!(loss(&epochs[7]) < loss(&epochs[0]));
    // Every entity, and every word, was trained.
    let accumulators = tensors(&place, "model").into_iter();
    let accumulators = accumulators.filter(|((_, name), _)| name == "row_adagrad");
    let rows: Vec<f32> = accumulators.flat_map(|(_, rows)| rows.numbers).collect();
    assert_eq!(rows.len(), 60 + 20 + 7);
    assert!(rows.iter().all(|&row| row > 0.0));
    // Each type has its own dimension and its own neighbours.
    let near = place
        .run(["neighbors", "pbg.toml", "place 3", "-k", "30"])
        .succeeds();
    let names: Vec<&str> = near
        .stdout
        .lines()
        .filter_map(|l| l.split('\t').nth(1))
        .collect();
    assert_eq!(names.len(), 19);
    assert!(
        names.iter().all(|name| name.starts_with("place ")),
        "{names:?}"
    );
    place
        .run(["export", "--format", "tsv", "--out", "out"])
        .succeeds();
    let places = exported(&place, "out/entities_place.tsv");
    assert!(places.len() == 20 && places.values().all(|row| row.len() == 4));
}

#[test]
fn a_featurized_entity_is_the_mean_of_its_features() {
    let place = typed();
    train(&place, &[]);
    place
        .run(["export", "--format", "tsv", "--out", "out"])
        .succeeds();
    let words = exported(&place, "out/features_text.tsv");
    let users = exported(&place, "out/entities_user.tsv");
    assert_eq!((words.len(), users.len()), (7, 60));
    let text = |index: usize| -> Vec<f64> {
        let (a, b) = (
            format!("word{}", index % 3),
            format!("word{}", 3 + index % 4),
        );
        let both = words[&a].iter().zip(&words[&b]);
        both.map(|(a, b)| (a + b) / 2.0).collect()
    };
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let mut lines = String::new();
    let mut expected = Vec::new();
    for index in 0..12 {
        let user = format!("user {index}");
        lines.push_str(&format!("{user}\treads\ttext {index}\n"));
        expected.push(dot(&users[&user], &text(index)));
        lines.push_str(&format!("text {index}\tcites\ttext {}\n", (index + 5) % 12));
        expected.push(dot(&text(index), &text((index + 5) % 12)));
    }
    let edges = place.write("asked.tsv", lines);
    let mut score = place.command(["score", "pbg.toml"]);
    score.stdin(std::fs::File::open(edges).unwrap());
    let scores = crate::support::finish(&mut score).succeeds().stdout;
    let scores: Vec<f64> = scores.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(scores.len(), expected.len());
    for (found, expected) in scores.iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-4 * (1.0 + expected.abs()),
            "{found} {expected}"
        );
    }
}

#[test]
fn workers_share_the_work_and_learn_alike() {
    let place = Workplace::with_dataset(CONFIG);
    let last = |workers: u32| {
        let keys = [format!("workers={workers}"), "num_epochs=20".to_owned()];
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        train(&place, &keys);
        let epochs = events(&place, "epoch_finished");
        assert!(epochs.iter().all(|event| event["stats"]["count"] == 324));
        std::fs::remove_dir_all(place.path("model")).unwrap();
        epochs[19]["stats"]["loss"].as_f64().unwrap() / 324.0
    };
    let (one, three) = (last(1), last(3));
    assert!((one - three).abs() < 0.1 * one, "{one} {three}");
}

#[test]
fn types_with_features_grow() {
    let place = typed();
    train(&place, &[]);
    let export = ["export", "--format", "tsv", "--out", "out", "--overwrite"];
    let rows = || {
        place.run(export).succeeds();
        ["features_text", "entities_user", "entities_place"]
            .map(|table| exported(&place, &format!("out/{table}.tsv")))
    };
    let before = rows();
    place.write(
        "more.tsv",
        "user 60\treads\ttext 12\ntext 12\tcites\ttext 1\nuser 1\treads\ttext 2\n",
    );
    let features = place.read("text.features") + "text 12\tword1\tword9\n";
    place.write("text.features", features);
    let import = "import --edges more=more.tsv --features text=text.features";
    place.run(import.split(' ')).succeeds();

    // The words of old texts have rows, and the new entities have none yet.
    assert_eq!(rows(), before);
    let eval = place.run("eval --json --edges more".split(' ')).succeeds();
    let report: Value = serde_json::from_str(&eval.stdout).unwrap();
    // A text is the mean of those of its words that have rows; the new user has none.
    assert_eq!(report["raw"]["count"], 2, "{}", eval.stdout);
    assert_eq!(report["without_embedding"], 1);

    let more = ["edge_sets=train,more", "num_epochs=9"];
    let mut command = vec!["train", "--progress", "none", "--allow-data-change"];
    command.extend(more.iter().flat_map(|key| ["--set", key]));
    place.run(command).succeeds();
    let after = rows();
    assert_eq!(after[0].len(), before[0].len() + 1);
    assert_eq!(after[1].len(), before[1].len() + 1);
    assert_eq!(after[2].len(), before[2].len());
    assert!(after[0].contains_key("word9") && after[1].contains_key("user 60"));
    let eval = place.run("eval --json --edges more".split(' ')).succeeds();
    let report: Value = serde_json::from_str(&eval.stdout).unwrap();
    assert_eq!(report["raw"]["count"], 3);
}
