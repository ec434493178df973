//! Operators from plugins: trained, resumed, queried, and refused if the operator is another one.

use std::fs;

use crate::support::graph::CONFIG;
use crate::support::{Workplace, with};

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
    assert_ne!(trained("rotate"), trained("householder"));
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
    let by_file = ["eval", "pbg.toml", "--edges", "test"];
    assert_eq!(place.run(by_file).succeeds().stdout, first);
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

/// What `--plugin` replaces is not used, so it need not be there.
#[test]
fn a_plugin_that_is_replaced_need_not_exist() {
    let place = Workplace::with_dataset(CONFIG);
    set_operator(&place, "gone/operator.wasm");
    let config = place.read("pbg.toml");
    let comparator = "comparator = \"dot\"";
    assert!(config.contains(comparator));
    place.write(
        "pbg.toml",
        config.replace(comparator, "comparator = \"gone/comparator.wasm\""),
    );
    let both = ["--plugin", "rotate", "--plugin", "hyperbolic"];
    for command in [&["check"][..], &TRAIN] {
        place.run(command.iter().chain(&both)).succeeds();
        place
            .run(command.iter().chain(&both[..2]))
            .fails(6, &["plugin gone/comparator.wasm: no such file"]);
    }
    place
        .run(TRAIN)
        .fails(6, &["plugin gone/operator.wasm: no such file"]);
    // Nor is it needed to ask the model.
    place.run(EVAL).succeeds();
}

/// A formula that is text takes no parameters. That of an earlier version does not say with which it was built.
#[test]
fn parameters_of_a_formula_of_unknown_origin_are_a_warning() {
    let place = Workplace::with_dataset(CONFIG);
    let (key, text) = OF_BOTH_SIDES[0];
    let text = text.replace(", \"lhs_outputs\": [3]", "");
    let formulas = format!("\n[formulas]\n{key} = '''{text}'''\n");
    let with_formula = |more: &str| {
        set_operator(&place, key);
        let config = place.read("pbg.toml");
        place.write("pbg.toml", format!("{config}{formulas}{more}"));
    };
    let warning = "plugins.params.paired: has no effect unless formulas.paired was built with it";
    let warned = |command: &[&str]| place.run(command).succeeds().stderr.contains(warning);
    with_formula("");
    assert!(!warned(&["check"]));
    with_formula("\n[plugins.params.paired]\nscale = 2.0\n");
    assert!(warned(&["check"]) && warned(&TRAIN));
    // What the checkpoint says of its plugins has had its effect.
    assert!(!warned(&EVAL) && !warned(&["eval", "pbg.toml", "--edges", "test"]));
    let other = with(&EVAL, &["plugins.params.paired.scale=3.0"]);
    assert!(warned(&other));
}

/// A checkpoint has the formula of a plugin beside the parameters with which it was built.
#[test]
fn other_parameters_need_another_formula() {
    let place = with_operator("householder");
    let config = place.read("pbg.toml");
    place.write(
        "pbg.toml",
        format!("{config}\n[plugins.params.householder]\nreflections = 3\n"),
    );
    place.run(TRAIN).succeeds();
    let reflections = |count: u32| format!("plugins.params.householder.reflections={count}");
    let again = |set: &[&str], more: &[&str]| {
        let train = ["train", "model", "--progress", "none"];
        place.run([&with(&train, set), more].concat())
    };
    again(&["num_epochs=3", &reflections(4)], &[]).fails(
        3,
        &[
            "plugins.params.householder: has no effect",
            "built with other parameters",
            "`--set formulas.householder=none`",
        ],
    );
    again(&["num_epochs=3", &reflections(3)], &[]).succeeds();
    // Without the formula the plugin builds it again, and so does one that is given.
    let built = |folder: &str| {
        let manifest = place.read(&format!("{folder}/manifest.json"));
        let plain = manifest.replace('\\', "");
        plain.contains(r#""params":{"reflections":4}"#)
    };
    let reflections = reflections(4);
    let set = ["formulas.householder=none", &*reflections];
    again(&[&set[..], &["checkpoint_path=new"]].concat(), &[]).succeeds();
    assert!(built("new") && !built("model"));
    again(
        &["checkpoint_path=given", &reflections],
        &["--plugin", "householder"],
    )
    .succeeds();
    assert!(built("given"));
}

/// Formulas are compared by what they compute, so a run may go on from another folder, or with a file that has moved.
#[test]
fn a_run_resumes_with_operators_whose_files_have_moved() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("mine.wasm", component("rotate"));
    set_operator(&place, "mine.wasm");
    place.run(with(&TRAIN, &["num_epochs=1"])).succeeds();
    fs::create_dir(place.path("shelf")).unwrap();
    fs::rename(place.path("mine.wasm"), place.path("shelf/its.wasm")).unwrap();
    set_operator(&place, "shelf/its.wasm");
    place.run(with(&TRAIN, &["num_epochs=2"])).succeeds();
    place.run(["eval", "--edges", "test"]).succeeds();
    place.write("shelf/its.wasm", component("quate"));
    place.run(with(&TRAIN, &["num_epochs=3"])).fails(
        5,
        &["formulas.\"shelf/its.wasm\": differs, here from the plugin quate 0.1.0 in shelf/its.wasm"],
    );
}

#[test]
fn another_formula_is_another_model() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("mine.wasm", component("rotate"));
    set_operator(&place, "mine.wasm");
    place.run(TRAIN).succeeds();
    place.write("mine.wasm", component("quate"));
    let resumed = place.run(["train", "--progress", "none", "--set", "num_epochs=3"]);
    // The message says where either comes from.
    let said = "differences: formulas.\"mine.wasm\": differs, here from the plugin quate 0.1.0 in mine.wasm, \
                there from the plugin rotate 0.1.0 in mine.wasm. Set";
    resumed.fails(5, &[said]);
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
    let words = [
        "relations.0.operator",
        "`quate` cuts embeddings into 4 components, so the dimension must be a multiple of 4",
        "has 18",
    ];
    odd.run(TRAIN.iter().chain(&set)).fails(3, &words);
    odd.run(["check"].iter().chain(&set)).fails(3, &words);
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

/// Operators of both sides: PairRE's, TransH's, one of 8 components, and the standard plugin with projections.
const OF_BOTH_SIDES: [(&str, &str); 4] = [
    (
        "paired",
        r#"{"name": "paired", "components": 1,
        "parameters": [{"name": "head", "initial": "one"}, {"name": "tail", "initial": "one"}],
        "nodes": [{"component": 0}, {"parameter": 0}, {"parameter": 1}, {"binary": ["mul", 0, 1]}, {"binary": ["mul", 0, 2]}],
        "outputs": [4], "lhs_outputs": [3]}"#,
    ),
    (
        "transh",
        r#"{"name": "transh", "components": 1,
        "parameters": [{"name": "normal", "initial": {"normal": 1.0}}, {"name": "translation", "initial": "zero"}],
        "nodes": [{"component": 0}, {"parameter": 0}, {"parameter": 1},
            {"binary": ["mul", 0, 1]}, {"sum": 3}, {"binary": ["mul", 1, 1]}, {"sum": 5}, {"binary": ["div", 4, 6]},
            {"binary": ["mul", 7, 1]}, {"binary": ["sub", 0, 8]}, {"binary": ["sub", 9, 2]}],
        "outputs": [10], "lhs_outputs": [9]}"#,
    ),
    (
        "octets",
        r#"{"name": "octets", "components": 8,
        "parameters": [{"name": "scale", "initial": "one"}],
        "nodes": [{"component": 0}, {"component": 1}, {"component": 2}, {"component": 3}, {"component": 4},
            {"component": 5}, {"component": 6}, {"component": 7}, {"parameter": 0}, {"binary": ["mul", 0, 8]}],
        "outputs": [7, 0, 1, 2, 3, 4, 5, 6], "lhs_outputs": [9, 1, 2, 3, 4, 5, 6, 7]}"#,
    ),
    ("householder", ""),
];

/// Imports a small graph whose relations have this operator of both sides.
fn of_both_sides(name: &str, formula: &str, dynamic: bool) -> Workplace {
    let more = match formula {
        "" => "\n[plugins.params.householder]\nprojections = 1\nspace = \"fours\"\n".to_owned(),
        formula => format!("\n[formulas]\n{name} = \'\'\'{formula}\'\'\'\n"),
    };
    let mut text = CONFIG.replace("\"translation\"", &format!("{name:?}")) + &more;
    if !dynamic {
        text = text.replace("dynamic_relations = true", "dynamic_relations = false");
        text = text.replace("name = \"any\"", "name = \"*\"");
    }
    Workplace::with_dataset(&text)
}

#[test]
fn operators_of_both_sides_are_trained_resumed_and_asked() {
    for (name, formula) in OF_BOTH_SIDES {
        let [whole, parts] = [(); 2].map(|()| of_both_sides(name, formula, false));
        whole.run(TRAIN).succeeds();
        parts
            .run(TRAIN.iter().chain(&["--set", "num_epochs=1"]))
            .succeeds();
        parts.run(TRAIN).succeeds();
        assert_eq!(whole.committed("model"), parts.committed("model"), "{name}");
        whole.run(EVAL).succeeds();
        whole
            .run(["export", "model", "--out", "out", "--format", "npy"])
            .succeeds();
        of_both_sides(name, formula, true)
            .run(TRAIN)
            .fails(3, &["dynamic_relations", "static relations"]);
    }
}

#[test]
fn standard_operators_keep_their_promises() {
    for name in ["distmult", "transe", "rotate", "quate", "householder"] {
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
