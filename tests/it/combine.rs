//! `combine`: the mean of several versions of a run, and models whose scores are sums of other models' scores.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use crate::support::graph::{self, CONFIG};
use crate::support::tensors::tensors;
use crate::support::{Workplace, finish, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// Trains a model into `folder`.
fn train(place: &Workplace, folder: &str, keys: &[&str]) {
    let folder = format!("checkpoint_path={folder}");
    place.run(with(&with(&TRAIN, &[&folder]), keys)).succeeds();
}

fn combine<'a>(how: &'a str, models: &[&'a str], out: &'a str) -> Vec<&'a str> {
    [&["combine", how], models, &["--out", out]].concat()
}

/// Returns scores of edges of every relation, asked for the left side, and the scores of all answers to questions for
/// the right side.
fn scores(place: &Workplace, model: &str) -> Vec<f32> {
    let (_, test) = graph::tsv();
    let edges = File::open(place.write("edges.tsv", test)).unwrap();
    let scored = finish(place.command(["score", model]).stdin(Stdio::from(edges))).succeeds();
    let mut scores: Vec<f32> = scored.stdout.lines().map(|s| s.parse().unwrap()).collect();
    for relation in ["next", "opposite"] {
        let head = graph::name(0, 3);
        let question = ["predict", model, "--head", &head, "--relation", relation];
        let all = with(&question, &[]);
        let all = [&all[..], &["--answers", "1000", "--unfiltered", "--json"]].concat();
        let answered = place.run(all).succeeds();
        let answers: serde_json::Value = serde_json::from_str(&answered.stdout).unwrap();
        let mut named: Vec<(String, f32)> = answers["answers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|answer| {
                let name = answer["name"].as_str().unwrap().to_owned();
                (name, answer["score"].as_f64().unwrap() as f32)
            })
            .collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(named.len(), 2 * graph::RING);
        scores.extend(named.into_iter().map(|(_, score)| score));
    }
    scores
}

#[test]
fn scores_of_concatenated_models_are_sums() {
    let fixed = CONFIG
        .replace("dynamic_relations = true", "global_emb = true")
        .replace("\"any\"", "\"*\"");
    let cases: [(&str, &[&str]); 7] = [
        (CONFIG, &["relations.0.operator=complex_diagonal"]),
        (
            CONFIG,
            &["relations.0.operator=diagonal", "optimizer=adagrad"],
        ),
        (CONFIG, &["comparator=squared_l2"]),
        (CONFIG, &["relations.0.operator=quate"]),
        (CONFIG, &["relations.0.operator=linear", "regularizer=DURA"]),
        (&fixed, &["relations.0.operator=complex_diagonal"]),
        (&fixed, &["relations.0.operator=affine"]),
    ];
    for (config, keys) in cases {
        let place = Workplace::with_dataset(config);
        train(&place, "one", keys);
        // A model with another dimension, other negatives and another learning rate.
        let others = ["seed=8", "dimension=8", "lr=0.2", "num_uniform_negs=5"];
        train(&place, "two", &[keys, &others].concat());
        place
            .run(combine("concatenate", &["one", "two"], "sum"))
            .succeeds();
        let of = |model| scores(&place, model);
        for ((sum, one), two) in of("sum").into_iter().zip(of("one")).zip(of("two")) {
            let expected = one + two;
            let size = 1.0 + one.abs() + two.abs();
            assert!(
                (sum - expected).abs() < 1e-4 * size,
                "{keys:?}: {sum} {expected}"
            );
        }
    }
}

#[test]
fn the_mean_of_versions_is_one_of_their_numbers() {
    let place = Workplace::with_dataset(CONFIG);
    let keys = ["num_epochs=4", "checkpoint_preservation_interval=1"];
    train(&place, "model", &keys);
    let versions = ["model/epoch_2", "model/epoch_3", "model/epoch_4"];
    let last = [
        "combine",
        "average",
        "model",
        "--last",
        "3",
        "--out",
        "model/mean",
    ];
    let said = place.run(last).succeeds();
    assert_eq!(said.stdout, "wrote model/mean: the mean of 3 models\n");
    let again = place.run(combine("average", &versions, "mean")).succeeds();
    assert_eq!(again.stderr, "");
    assert_eq!(place.committed("mean"), place.committed("model/mean"));
    let means = tensors(&place, "model/mean");
    let all = versions.map(|version| tensors(&place, version));
    assert_eq!(means.len(), all[0].len());
    for (key, mean) in &means {
        assert_eq!(mean.shape, all[0][key].shape);
        for (index, mean) in mean.numbers.iter().enumerate() {
            let sum: f32 = all.iter().map(|version| version[key].numbers[index]).sum();
            assert!(
                (mean - sum / 3.0).abs() < 1e-5 * (1.0 + mean.abs()),
                "{key:?}"
            );
        }
    }
    train(&place, "other", &["seed=8"]);
    let mixed = place.run(combine("average", &["model", "other"], "mixed"));
    let warned = mixed.succeeds().stderr;
    assert!(
        warned.starts_with("warning: ") && warned.contains("different seeds"),
        "{warned}"
    );
    // The result is a checkpoint like any other: it can be ranked and trained further. The run next to it is unchanged.
    let eval = ["eval", "model/mean", "--edges", "test", "--json"];
    let ranks = place.run(eval).succeeds();
    assert!(ranks.stdout.contains("\"mrr\""), "{}", ranks.stdout);
    let on = ["checkpoint_path=model/mean", "num_epochs=1"];
    place.run(with(&TRAIN, &on)).succeeds();
    let before = place.committed("model");
    train(&place, "model", &keys);
    assert_eq!(before, place.committed("model"));
}

#[test]
fn halves_on_the_disk_stay_halves() {
    let place = Workplace::with_dataset(CONFIG);
    let keys = ["storage=bf16", "relations.0.operator=complex_diagonal"];
    train(&place, "one", &keys);
    train(&place, "two", &[&keys[..], &["seed=8"]].concat());
    place
        .run(combine("concatenate", &["one", "two"], "sum"))
        .succeeds();
    let (one, sum) = (tensors(&place, "one"), tensors(&place, "sum"));
    for (key, whole) in sum.iter().filter(|((_, name), _)| name == "embeddings") {
        let part = &one[key];
        assert_eq!(
            (whole.dtype.as_str(), part.dtype.as_str()),
            ("BF16", "BF16")
        );
        // Numbers that fit are not rounded again. The real parts of the first model come first, then those of the
        // second.
        for (whole, part) in whole.numbers.chunks(32).zip(part.numbers.chunks(16)) {
            assert_eq!(whole[..8], part[..8]);
            assert_eq!(whole[16..24], part[8..]);
        }
    }
}

#[test]
fn what_does_not_fit_is_told_in_a_line() {
    let place = Workplace::with_dataset(CONFIG);
    let short = ["num_epochs=1"];
    let model = |folder: &str, keys: &[&str]| train(&place, folder, &[&short, keys].concat());
    model("one", &[]);
    model("wide", &["dimension=20"]);
    model("other", &["relations.0.operator=diagonal"]);
    model("cos", &["comparator=cos"]);
    model("even", &["relations.0.operator=complex_diagonal"]);
    model("mirror", &["relations.0.operator=householder"]);
    let grown = place.copied();
    let (train, _) = graph::tsv();
    grown.write("train.tsv", train + "a new one\tnext\tanother\n");
    grown.import().succeeds();

    let fails = |how: &str, models: &[&str], code: i32, words: &[&str]| {
        place.run(combine(how, models, "out")).fails(code, words);
        assert!(!place.path("out").exists());
    };
    fails(
        "average",
        &["one", "wide"],
        5,
        &["one and wide", "dimension: "],
    );
    fails(
        "average",
        &["one", "other"],
        5,
        &["one and other", "operator: "],
    );
    fails(
        "concatenate",
        &["one", "cos"],
        5,
        &["one and cos", "comparator: "],
    );
    fails(
        "concatenate",
        &["cos", "cos"],
        5,
        &["`dot` nor `squared_l2`"],
    );
    fails(
        "concatenate",
        &["mirror", "mirror"],
        5,
        &["`householder` has sums"],
    );
    fails("concatenate", &["one", "nowhere"], 5, &["nowhere"]);
    fails("average", &["one"], 2, &["`last`"]);
    fails(
        "average",
        &["one", "even", "--last", "2"],
        2,
        &["`last`", "one run"],
    );
    fails(
        "average",
        &["one", "--last", "2"],
        5,
        &[
            "one has 0 preserved epochs",
            "checkpoint_preservation_interval",
        ],
    );
    fails("average", &["nowhere", "--last", "2"], 5, &["nowhere"]);
    fails("sum", &["one", "wide"], 2, &["average", "concatenate"]);
    place
        .run(combine("average", &["one", "one"], "wide"))
        .fails(5, &["wide already contains a checkpoint", "--out"]);
    grown
        .run(combine("average", &["one", "one"], "out"))
        .fails(5, &["one", "has grown"]);
    let files = fs::read_dir(place.path("even")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let is_model = |path: &PathBuf| path.to_string_lossy().contains("model.v");
    let damaged = paths
        .filter(is_model)
        .map(|path| fs::write(path, "no").unwrap());
    assert_eq!(damaged.count(), 1);
    fails("average", &["even", "even"], 5, &["even"]);
}
