//! Operators from plugins: trained, resumed, queried, and refused if the operator is another one.

use std::fs;

use crate::support::{Workplace, graph::CONFIG};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];
const EVAL: [&str; 4] = ["eval", "model", "--edges", "test"];

/// Imports a small graph whose relations have this operator.
fn with_operator(name: &str) -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    set_operator(&place, name);
    place
}

fn set_operator(place: &Workplace, name: &str) {
    let operator = format!("operator = {name:?}");
    let changed = CONFIG.replace("operator = \"translation\"", &operator);
    assert!(
        changed.contains(&operator),
        "the small graph's relations have an operator"
    );
    place.write("pbg.toml", changed);
}

/// Returns the component of a standard operator.
fn component(name: &str) -> &'static [u8] {
    let standard = pbg_wasm::standard_plugins().iter();
    let plugin = standard.filter(|plugin| plugin.kind == pbg_wasm::PluginSlot::TracedOperator);
    plugin
        .map(|plugin| (plugin.name, plugin.bytes))
        .find(|(known, _)| *known == name)
        .unwrap()
        .1
}

/// Trains with an operator; returns the bytes of the checkpoint.
fn trained(operator: &str) -> Vec<(String, Vec<u8>)> {
    let place = with_operator(operator);
    place.run(TRAIN).succeeds();
    let files = place.committed("model");
    files
        .into_iter()
        .filter(|(name, _)| name.starts_with("embeddings"))
        .collect()
}

#[test]
fn formulas_of_built_in_operators_train_to_the_same_bytes() {
    assert_eq!(trained("transe"), trained("translation"));
    assert_eq!(trained("distmult"), trained("diagonal"));
    assert_ne!(trained("rotate"), trained("quate"));
}

#[test]
fn a_run_that_is_resumed_goes_on_with_its_angles() {
    let (whole, parts) = (with_operator("rotate"), with_operator("rotate"));
    whole.run(TRAIN).succeeds();
    parts
        .run(["train", "--progress", "none", "--set", "num_epochs=1"])
        .succeeds();
    parts.run(TRAIN).succeeds();
    assert_eq!(whole.committed("model"), parts.committed("model"));
}

#[test]
fn a_checkpoint_needs_no_plugin() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("mine.wasm", component("rotate"));
    set_operator(&place, "mine.wasm");
    place.run(TRAIN).succeeds();
    let first = place.run(EVAL).succeeds().stdout;
    fs::remove_file(place.path("mine.wasm")).unwrap();
    assert_eq!(place.run(EVAL).succeeds().stdout, first);
    place
        .run(["export", "model", "--out", "out", "--format", "npy"])
        .succeeds();
    let angles = "out/relations.0.operator.lhs.angle.npy";
    assert!(place.path(angles).is_file());
}

#[test]
fn an_operator_from_the_command_line_is_that_of_all_relations() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("mine.wasm", component("quate"));
    let plugin = ["--plugin", "mine.wasm"];
    let said = place.run(["check"].iter().chain(&plugin)).succeeds();
    assert!(!said.stdout.is_empty());
    place.run(TRAIN.iter().chain(&plugin)).succeeds();
    let manifest = place.read("model/manifest.json");
    assert!(
        manifest.contains("operator = \\\"mine.wasm\\\""),
        "{manifest}"
    );
    assert!(manifest.contains("quate"), "{manifest}");
    let twice = ["--plugin", "mine.wasm", "--plugin", "rotate"];
    place
        .run(TRAIN.iter().chain(&twice))
        .fails(2, &["operator of all relations"]);
}

#[test]
fn another_formula_is_another_model() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("mine.wasm", component("rotate"));
    set_operator(&place, "mine.wasm");
    place.run(TRAIN).succeeds();
    place.write("mine.wasm", component("quate"));
    let resumed = place.run(["train", "--progress", "none", "--set", "num_epochs=3"]);
    resumed.fails(5, &["formulas", "another formula"]);
    set_operator(&place, "diagonal");
    place
        .run(["eval", "--edges", "test"])
        .fails(5, &["operator"]);
}

#[test]
fn what_does_not_fit_is_said_before_training() {
    let unknown = with_operator("rotade");
    unknown
        .run(TRAIN)
        .fails(3, &["relations.0.operator", "did you mean `rotate`?"]);
    let odd = with_operator("quate");
    let set = ["--set", "dimension=18"];
    odd.run(TRAIN.iter().chain(&set))
        .fails(3, &["a multiple of 4"]);
    let loss = with_operator("softmax");
    loss.run(TRAIN).fails(3, &["relations.0.operator"]);
    let place = Workplace::with_dataset(CONFIG);
    place.write("mine.wasm", component("rotate"));
    place
        .run(["train", "--set", "loss_fn=mine.wasm"])
        .fails(6, &["traced operator"]);
    let formula = "x = '{\"name\":\"x\"}'";
    let broken = format!("{CONFIG}\n[formulas]\n{formula}");
    place.write("pbg.toml", broken.replace("\"translation\"", "\"x\""));
    place
        .run(TRAIN)
        .fails(3, &["formulas: invalid formula of x"]);
}

#[test]
fn standard_operators_keep_their_promises() {
    for name in ["distmult", "transe", "rotate", "quate"] {
        let said = Workplace::empty()
            .run(["plugin", "check", name])
            .succeeds()
            .stdout;
        for promise in ["finite", "exact", "gradient", "finite differences"] {
            assert!(said.contains(promise), "{name}: {said}");
        }
        assert!(!said.contains("BROKEN"), "{name}: {said}");
    }
}
