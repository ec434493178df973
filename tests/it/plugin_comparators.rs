//! Comparators from plugins: trained, resumed, queried, and refused if the comparator is another one.

use std::fs;

use serde_json::Value;

use crate::support::graph::{CONFIG, name};
use crate::support::{Workplace, finish, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];
const EVAL: [&str; 4] = ["eval", "model", "--edges", "test"];

/// Imports a small graph whose embeddings are compared by `comparator`.
fn with_comparator(comparator: &str) -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    place.write("pbg.toml", config(comparator));
    place
}

/// Returns the configuration of the small graph with this comparator.
fn config(comparator: &str) -> String {
    let named = format!("comparator = {comparator:?}");
    let config = CONFIG.replace("comparator = \"dot\"", &named);
    assert!(config.contains(&named), "the small graph has a comparator");
    config
}

/// Returns the component of the standard comparator.
fn component() -> &'static [u8] {
    let mut standard = pbg_wasm::standard_plugins().iter();
    let found = standard.find(|plugin| plugin.kind == pbg_wasm::PluginSlot::Comparator);
    found.unwrap().bytes
}

/// Returns the files with the embeddings of a checkpoint.
fn embeddings(place: &Workplace) -> Vec<(String, Vec<u8>)> {
    let files = place.committed("model").into_iter();
    files
        .filter(|(name, _)| name.starts_with("embeddings"))
        .collect()
}

#[test]
fn a_plugin_trains_to_the_bytes_of_its_formula() {
    let place = with_comparator("hyperbolic");
    place.run(TRAIN).succeeds();
    let manifest: Value = serde_json::from_str(&place.read("model/manifest.json")).unwrap();
    let stored = manifest["run"]["config"].as_str().unwrap();
    let stored = pbg_config::Config::parse(stored, "the checkpoint", &[]).unwrap();
    let formula = &stored.formulas["hyperbolic"];
    let text = format!("{}\n[formulas]\nown = '''{formula}'''\n", config("own"));
    let own = Workplace::with_dataset(&text);
    own.run(TRAIN).succeeds();
    assert_eq!(embeddings(&place), embeddings(&own));
    let euclidean = with_comparator("squared_l2");
    euclidean.run(TRAIN).succeeds();
    assert_ne!(embeddings(&place), embeddings(&euclidean));
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let [whole, parts] = [(); 2].map(|()| with_comparator("hyperbolic"));
    whole.run(TRAIN).succeeds();
    parts.run(with(&TRAIN, &["num_epochs=1"])).succeeds();
    parts.run(TRAIN).succeeds();
    assert_eq!(whole.committed("model"), parts.committed("model"));
}

#[test]
fn a_checkpoint_needs_no_plugin() {
    let place = with_comparator("mine.wasm");
    place.write("mine.wasm", component());
    place.run(TRAIN).succeeds();
    let first = place.run(EVAL).succeeds().stdout;
    fs::remove_file(place.path("mine.wasm")).unwrap();
    assert_eq!(place.run(EVAL).succeeds().stdout, first);
    let by_file = ["eval", "pbg.toml", "--edges", "test"];
    assert_eq!(place.run(by_file).succeeds().stdout, first);
    let asked = [
        "predict",
        "model",
        "--head",
        &name(0, 3),
        "--relation",
        "next",
    ];
    place.run(asked).succeeds();
    place.run(["neighbors", "model", &name(1, 4)]).succeeds();
}

#[test]
fn a_file_with_the_name_of_a_comparator_of_the_program_is_used() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("shelf/l1.wasm", component());
    let mut command = place.command(TRAIN.iter().chain(&["--plugin", "l1"]));
    finish(command.env("PBG_PLUGIN_PATH", "shelf")).succeeds();
    let manifest = place.read("model/manifest.json");
    assert!(
        manifest.contains("comparator = \\\"shelf/l1.wasm\\\""),
        "{manifest}"
    );
    place.run(EVAL).succeeds();
}

#[test]
fn a_comparator_from_the_command_line_is_that_of_the_model() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("mine.wasm", component());
    let plugin = ["--plugin", "mine.wasm", "--plugin", "rotate"];
    let said = place.run(["check"].iter().chain(&plugin)).succeeds().stdout;
    assert!(said.contains("comparator hyperbolic: "), "{said}");
    place.run(TRAIN.iter().chain(&plugin)).succeeds();
    let manifest = place.read("model/manifest.json");
    for part in [
        "comparator = \\\"mine.wasm\\\"",
        "operator = \\\"rotate\\\"",
    ] {
        assert!(manifest.contains(part), "{manifest}");
    }
    let twice = ["--plugin", "mine.wasm", "--plugin", "hyperbolic"];
    place
        .run(TRAIN.iter().chain(&twice))
        .fails(2, &["only one comparator"]);
}

#[test]
fn another_formula_is_another_model() {
    let place = with_comparator("hyperbolic");
    place.run(TRAIN).succeeds();
    place.run(EVAL).succeeds();
    // Parameters of the plugin decide the formula.
    let curved = "plugins.params.hyperbolic.curvature=2";
    place.run(with(&TRAIN, &["num_epochs=3", curved])).fails(
        5,
        &["formulas.hyperbolic: differs, though both are from the plugin hyperbolic"],
    );
    place
        .run(with(&TRAIN, &["num_epochs=3", "comparator=l2"]))
        .fails(5, &["comparator: \"l2\", not \"hyperbolic\""]);
}

/// A model is asked with the formula of its checkpoint, which the configuration cannot change.
#[test]
fn other_parameters_than_those_of_the_model_are_refused() {
    let place = with_comparator("hyperbolic");
    let ask = ["eval", "pbg.toml", "--edges", "test"];
    let curvature = |value: &str| format!("plugins.params.hyperbolic.curvature={value}");
    let curved = |value: &str| place.run(with(&ask, &[&curvature(value)]));
    place.run(with(&TRAIN, &[&curvature("2.0")])).succeeds();
    let said = [
        "plugins.params.hyperbolic: has no effect, since formulas.hyperbolic is the formula as text, which was built \
         with other parameters",
        "`--set formulas.hyperbolic=none`",
    ];
    curved("3.0").fails(3, &said);
    // Those of its training, or none, are no change.
    curved("2.0").succeeds();
    place.run(ask).succeeds();
    let config = place.read("pbg.toml");
    let edited = "\n[plugins.params]\nhyperbolic = { curvature = 3.0 }\n";
    place.write("pbg.toml", format!("{config}{edited}"));
    place.run(ask).fails(3, &said);
    let spelled = "plugins . \"params\".hyperbolic={ curvature = 3.0 }";
    place
        .run(with(&["eval", "model", "--edges", "test"], &[spelled]))
        .fails(3, &said);
}

#[test]
fn what_does_not_fit_is_said_before_training() {
    with_comparator("hyperbolik")
        .run(TRAIN)
        .fails(3, &["comparator", "did you mean `hyperbolic`?"]);
    with_comparator("rotate").run(TRAIN).fails(
        3,
        &[
            "comparator",
            "\"rotate\" is an operator, which `operator` takes",
        ],
    );
    let place = with_comparator("mine.wasm");
    place.run(TRAIN).fails(6, &["mine.wasm", "no such file"]);
    place.write("mine.wasm", component());
    place
        .run(["train", "--set", "loss_fn=mine.wasm"])
        .fails(6, &["comparator"]);
    place
        .run(with(&TRAIN, &["plugins.params.hyperbolic.curvature=-1"]))
        .fails(3, &["curvature"]);
    let pin = format!(
        "{}\n[[plugins.pins]]\nplugin = \"hyperbolic\"\nsha256 = \"{}\"\n",
        config("mine.wasm"),
        "0".repeat(64)
    );
    place.write("pbg.toml", pin);
    place.run(TRAIN).fails(6, &["mine.wasm", "pinned"]);
}

#[test]
fn the_standard_comparator_keeps_its_promises() {
    let place = Workplace::empty();
    for set in ["squared=true", "squared=false", "curvature=0.1"] {
        let check = ["plugin", "check", "hyperbolic", "--set", set];
        let said = place.run(check).succeeds().stdout;
        for promise in ["finite", "exact", "gradient", "embeddings"] {
            assert!(said.contains(promise), "{set}: {said}");
        }
        assert!(said.contains("price"), "{set}: {said}");
        assert!(!said.contains("BROKEN"), "{set}: {said}");
    }
    let said = place.run(["plugin", "bench", "hyperbolic", "--seconds", "0.05"]);
    let said = said.succeeds().stdout;
    for call in ["scores, 100", "with gradient, 400"] {
        assert!(said.contains(call), "{said}");
    }
}

/// What training refuses, `check` refuses too.
#[test]
fn rounded_products_are_refused_before_training() {
    let place = Workplace::with_dataset(CONFIG);
    for comparator in ["l1", "hyperbolic", "squared_l2"] {
        let chosen = format!("comparator={comparator}");
        let set = [&chosen[..], "execution.precision=bf16"];
        let named = format!("must be `fp32` with the comparator `{comparator}`");
        for command in [&["check"][..], &TRAIN] {
            let refused = place.run(with(command, &set));
            refused.fails(3, &["execution.precision", &named]);
        }
    }
    assert!(!place.path("model").exists());
}
