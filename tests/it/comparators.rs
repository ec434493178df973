//! Comparators that are formulas of each pair of embeddings: trained, resumed and asked, and refused where scores must be
//! matrix products.

use serde_json::Value;

use crate::support::graph::{CONFIG, name};
use crate::support::{Workplace, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// A comparator of the user: minus the L1 distance with at least a millionth for each number.
const OWN: &str = r#"
[formulas]
own = '''{
  "name": "own",
  "components": 1,
  "nodes": [
    {"component": 0}, {"component": 1}, {"binary": ["sub", 0, 1]}, {"unary": ["abs", 2]}, {"constant": 0.000001},
    {"binary": ["max", 3, 4]}, {"sum": 5}, {"unary": ["neg", 6]}
  ],
  "score": 7
}'''
"#;

fn place(comparator: &str) -> Workplace {
    let named = format!("comparator = {comparator:?}");
    let config = CONFIG.replace("comparator = \"dot\"", &named);
    assert!(config.contains(&named), "the small graph has a comparator");
    let own = if comparator == "own" { OWN } else { "" };
    Workplace::with_dataset(&format!("{config}{own}"))
}

/// Returns the mean reciprocal rank of the test edges.
fn mrr(place: &Workplace) -> f64 {
    let answer = place.run(["eval", "--edges", "test", "--json"]).succeeds();
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    answer["raw"]["mrr"].as_f64().unwrap()
}

#[test]
fn models_learn_the_graph_and_answer() {
    for comparator in ["l1", "complex_l1", "own"] {
        let place = place(comparator);
        place.run(with(&TRAIN, &["num_epochs=0"])).succeeds();
        let untrained = mrr(&place);
        place
            .run(with(&TRAIN, &["num_epochs=20", "loss_fn=softmax"]))
            .succeeds();
        let trained = mrr(&place);
        assert!(
            trained > 2.0 * untrained,
            "{comparator}: {untrained}, {trained}"
        );
        // Every command scores in the same way: the first answer is the one with the score that `score` gives it.
        let asked = [
            "predict",
            "--head",
            &name(0, 3),
            "--relation",
            "next",
            "-k",
            "3",
            "--json",
        ];
        let answers = place.run(asked).succeeds().stdout;
        assert!(answers.contains("score"), "{answers}");
        place.run(["neighbors", "model", &name(1, 4)]).succeeds();
        let out = ["export", "model", "--format", "npy", "--out", "out"];
        place.run(out).succeeds();
    }
}

/// InterHT: the operator hands the relation's vector to the comparator in a component that entities leave unused.
const INTERHT: &str = r#"
[formulas]
hands_over = '''{
  "name": "hands_over", "components": 4,
  "parameters": [{"name": "r", "initial": {"normal": 0.1}}],
  "nodes": [
    {"component": 0}, {"component": 1}, {"component": 2}, {"component": 3}, {"parameter": 0}, {"constant": 0.0},
    {"binary": ["mul", 2, 5]}, {"binary": ["add", 6, 4]}
  ],
  "outputs": [0, 1, 7, 3]
}'''
interht = '''{
  "name": "interht", "components": 4,
  "nodes": [
    {"component": 0}, {"component": 1}, {"component": 4}, {"component": 5}, {"component": 6}, {"constant": 1.0},
    {"binary": ["add", 3, 5]}, {"binary": ["add", 1, 5]}, {"binary": ["mul", 0, 6]}, {"binary": ["mul", 2, 7]},
    {"binary": ["sub", 8, 9]}, {"binary": ["add", 10, 4]}, {"unary": ["abs", 11]}, {"sum": 12}, {"unary": ["neg", 13]}
  ],
  "score": 14
}'''
"#;

#[test]
fn interht_learns_the_graph() {
    let config = CONFIG
        .replace("comparator = \"dot\"", "comparator = \"interht\"")
        .replace("\"translation\"", "\"hands_over\"")
        .replace("dynamic_relations = true", "dynamic_relations = false")
        .replace("name = \"any\"", "name = \"*\"");
    let place = Workplace::with_dataset(&format!("{config}{INTERHT}"));
    place.run(with(&TRAIN, &["num_epochs=0"])).succeeds();
    let untrained = mrr(&place);
    let keys = ["num_epochs=20", "loss_fn=softmax", "init_scale=0.1"];
    place
        .run(with(
            &TRAIN,
            &[&keys[..], &["checkpoint_path=trained"]].concat(),
        ))
        .succeeds();
    let eval = ["eval", "trained", "--edges", "test", "--json"];
    let answer: Value = serde_json::from_str(&place.run(eval).succeeds().stdout).unwrap();
    let trained = answer["raw"]["mrr"].as_f64().unwrap();
    assert!(trained > 2.0 * untrained, "{untrained}, {trained}");
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    for comparator in ["l1", "complex_l1", "own"] {
        let trained = |epochs: &[&str]| {
            let place = place(comparator);
            for epochs in epochs {
                place.run(with(&TRAIN, &[epochs])).succeeds();
            }
            place
        };
        let whole = trained(&["num_epochs=2"]);
        let resumed = trained(&["num_epochs=1", "num_epochs=2"]);
        assert_eq!(whole.committed("model"), resumed.committed("model"));
        whole
            .run(with(&TRAIN, &["comparator=l2"]))
            .fails(5, &["comparator: \"l2\""]);
    }
}

#[test]
fn a_checkpoint_keeps_its_formula() {
    let place = place("own");
    place.run(with(&TRAIN, &["num_epochs=1"])).succeeds();
    let config = place.read("pbg.toml");
    place.write("pbg.toml", config.replace("0.000001", "0.000002"));
    place.run(TRAIN).fails(
        5,
        &["differences: formulas.own: differs, though both are written as text. Set"],
    );
    // The same formula in other words is no change: without spaces, and with another name inside.
    let same = config.replace(r#""name": "own""#, r#""name":"other""#);
    assert_ne!(same, config);
    place.write("pbg.toml", same.replace(", ", ","));
    place.run(with(&TRAIN, &["num_epochs=1"])).succeeds();
    // The folder of the checkpoint is enough to use the model.
    place.write("pbg.toml", "");
    place.run(["eval", "model", "--edges", "test"]).succeeds();
}

#[test]
fn check_says_the_price_of_a_pair() {
    let said = place("complex_l1").run(["check"]).succeeds().stdout;
    let line = said
        .lines()
        .find(|line| line.starts_with("comparator complex_l1: "));
    assert!(
        line.is_some_and(|line| line.contains("16 numbers")),
        "{said}"
    );
    let said = place("dot").run(["check"]).succeeds().stdout;
    assert!(!said.contains("comparator"), "{said}");
}

#[test]
fn neighbors_by_a_comparator_of_components_need_their_dimension() {
    let place = place("dot");
    let odd = [
        "num_epochs=0",
        "dimension=15",
        "relations.0.operator=diagonal",
    ];
    place.run(with(&TRAIN, &odd)).succeeds();
    let asked = [
        "neighbors",
        "model",
        &name(1, 4),
        "--comparator",
        "complex_l1",
    ];
    place.run(asked).fails(
        3,
        &[
            "the comparator `complex_l1` cuts embeddings into 2 components",
            "has 15",
        ],
    );
}

#[test]
fn an_index_offers_comparators_of_inner_products_only() {
    let help = Workplace::empty()
        .run(["index", "--help"])
        .succeeds()
        .stdout;
    assert!(help.contains("squared_l2"), "{help}");
    assert!(
        !help.contains("l1:") && !help.contains("complex_l1"),
        "{help}"
    );
    let place = place("dot");
    place
        .run(["index", "model", "--comparator", "l1"])
        .fails(2, &["l1", "squared_l2"]);
}

#[test]
fn what_needs_matrix_products_is_refused() {
    let place = place("l1");
    place
        .run(with(&TRAIN, &["relation_prediction=0.5"]))
        .fails(3, &["relation_prediction", "`dot`"]);
    place
        .run(with(&TRAIN, &["comparator=complex_l1", "dimension=15"]))
        .fails(3, &["complex_l1", "multiple of 2"]);
    place.run(with(&TRAIN, &["comparator=complex_l2"])).fails(
        3,
        &[
            "comparator",
            "the name of a formula in `formulas`",
            "did you mean `complex_l1`?",
        ],
    );
    place.run(with(&TRAIN, &["num_epochs=1"])).succeeds();
    place
        .run(["index", "model"])
        .fails(3, &["l1 is a formula of each pair of embeddings"]);
    place
        .run(["neighbors", "model", &name(0, 3), "--index"])
        .fails(3, &["l1 is a formula of each pair of embeddings"]);
    place
        .run(["index", "model", "--comparator", "l2"])
        .succeeds();
    place
        .run(["combine", "concatenate", "model", "model", "--out", "both"])
        .fails(5, &["`dot`", "`squared_l2`"]);
}

#[test]
fn an_invalid_formula_is_refused_with_its_node() {
    for (from, to, words) in [
        (
            r#"{"sum": 5}"#,
            r#"{"unary": ["neg", 5]}"#,
            ["node 7", "sum it over the vector"],
        ),
        (
            r#"{"component": 1}"#,
            r#"{"component": 2}"#,
            ["node 1", "no component 2"],
        ),
        (
            r#"["sub", 0, 1]"#,
            r#"["sub", 1, 1]"#,
            ["node 7", "both embeddings"],
        ),
    ] {
        let place = place("own");
        let config = place.read("pbg.toml");
        assert!(config.contains(from), "{config}");
        place.write("pbg.toml", config.replace(from, to));
        let words = [&["comparator", "own"], &words[..]].concat();
        place.run(TRAIN).fails(3, &words);
    }
}

/// An operator that takes the root of any number, and a comparator that does.
const ROOTS: &str = r#"
[formulas]
roots = '''{
  "name": "roots",
  "components": 1,
  "parameters": [{"name": "scale", "initial": "one"}],
  "nodes": [{"component": 0}, {"parameter": 0}, {"binary": ["mul", 0, 1]}, {"unary": ["sqrt", 2]}],
  "outputs": [3]
}'''
"#;

#[test]
fn a_formula_that_is_not_finite_is_named_and_repeated() {
    let operator = Workplace::with_dataset(&format!("{CONFIG}{ROOTS}"));
    let comparator = place("own");
    let config = comparator.read("pbg.toml");
    let other = config.replace(r#"["abs", 2]"#, r#"["sqrt", 2]"#);
    assert_ne!(config, other);
    comparator.write("pbg.toml", other);
    // Scores by which negatives are selected are the first to be computed.
    let scored = Workplace::with_dataset(&format!("{CONFIG}{ROOTS}"));
    for (place, keys, named) in [
        (
            operator,
            &["relations.0.operator=roots"][..],
            "the operator `roots`",
        ),
        (comparator, &[], "the comparator `own`"),
        (
            scored,
            &[
                "relations.0.operator=roots",
                "negative_sampler=hard_negatives",
            ],
            "the operator `roots`",
        ),
    ] {
        let failed = place.run(with(&TRAIN, keys)).fails(
            7,
            &[
                "the loss is not finite in epoch 1",
                named,
                "sqrt(-",
                "is not a number",
                "make it finite",
                "plugin replay model/faults/",
            ],
        );
        let (_, file) = failed.stderr.split_once("plugin replay ").unwrap();
        let file = file.split('`').next().unwrap();
        place
            .run(["plugin", "replay", file])
            .fails(7, &[named, "sqrt(-", "is not a number"]);
        // With other numbers, the formula has a value.
        let mut fault: Value = serde_json::from_str(&place.read(file)).unwrap();
        for number in fault["embeddings"].as_array_mut().unwrap() {
            for number in number.as_array_mut().unwrap() {
                *number = 1.into();
            }
        }
        let positive = fault.to_string();
        if named.contains("operator") {
            place.write("positive.json", &positive);
            let again = place.run(["plugin", "replay", "positive.json"]).succeeds();
            assert!(again.stdout.contains("is finite"), "{}", again.stdout);
        }
        let short = positive.replace("\"embeddings\":[[1,", "\"embeddings\":[[");
        place.write("short.json", short);
        place
            .run(["plugin", "replay", "short.json"])
            .fails(2, &["the file"]);
    }
}
