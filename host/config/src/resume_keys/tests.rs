//! Tests of the keys that may change when a run resumes, and of the fingerprint.

use super::*;

const TEXT: &str = r#"
    dataset = "data"
    checkpoint_path = "model"
    dimension = 8
    entities.user.num_partitions = 1
    relations = [{ name = "follows", lhs = "user", rhs = "user" }]
"#;

fn with(key: &str, value: &str) -> Config {
    Config::parse(TEXT, "pbg.toml", &[(key.to_owned(), value.to_owned())])
        .unwrap_or_else(|e| panic!("{e}"))
}

fn base() -> Config {
    with("dataset", "data")
}

#[test]
fn keys_that_may_change_do_not_matter() {
    for (key, value) in [
        ("dataset", "other"),
        ("checkpoint_path", "other"),
        ("init_path", "other"),
        ("num_epochs", "9"),
        ("checkpoint_interval", "9"),
        ("checkpoint_preservation_interval", "9"),
        ("workers", "9"),
        ("buffer_partitions", "9"),
        ("eval_num_batch_negs", "9"),
        ("eval_num_uniform_negs", "9"),
        ("execution.device", "cuda:0"),
        ("execution.prefetch", "false"),
        ("execution.partitions_ahead", "1"),
        ("execution.buckets_ahead", "3"),
        ("execution.batches_ahead", "3"),
        ("execution.read_mbps", "100"),
        ("execution.write_mbps", "100"),
        ("plugins.limits", "{ deadline_ms = 9, memory_mib = 9 }"),
        ("plugins.on_fault", "fallback"),
        ("plugins.grants", "[{ plugin = \"a\", read = [\"b\"] }]"),
        (
            "plugins.pins",
            "[{ plugin = \"a\", sha256 = \"00000000000000000000000000000000000000000000000000000000000000aF\" }]",
        ),
    ] {
        assert!(MAY_CHANGE.contains(&key));
        assert_ne!(with(key, value), base());
        assert_eq!(
            with(key, value).training_hash(),
            base().training_hash(),
            "{key}"
        );
    }
}

/// Together with the hash, the keys outside it cover the configuration: a key that either misses could change unnoticed.
#[test]
fn every_key_is_in_the_hash_or_outside_it() {
    let outside = |config: &Config| config.keys_outside_training_hash();
    for (key, value) in [
        ("init_path", "other"),
        ("workers", "9"),
        ("execution.device", "cuda:0"),
        ("plugins.limits", "{ deadline_ms = 9, memory_mib = 9 }"),
        ("entities.user.init", "vectors.npy"),
        ("distributed.lease", "9"),
        ("validation.edges", "valid"),
    ] {
        let changed = with(key, value);
        assert_eq!(changed.training_hash(), base().training_hash(), "{key}");
        assert_ne!(outside(&changed), outside(&base()), "{key}");
    }
    for (key, value) in [("lr", "0.5"), ("loss_fn", "logistic")] {
        assert_eq!(outside(&with(key, value)), outside(&base()), "{key}");
    }
    assert_eq!(outside(&base())["execution.prefetch"], "true");
    assert_eq!(outside(&base())["workers"], "unset");
}

/// A checkpoint compares the bytes of plugins, so their files may be anywhere.
#[test]
fn files_of_plugins_may_move() {
    for key in [
        "bucket_order",
        "relation_sampler",
        "negative_sampler",
        "loss_fn",
        "lr_schedule.decay",
    ] {
        let (here, there) = (with(key, "here.wasm"), with(key, "shelf/there.wasm"));
        assert_eq!(here.training_hash(), there.training_hash(), "{key}");
        assert_eq!(here.training_differences(&there), [""; 0]);
        assert_ne!(here.training_hash(), base().training_hash(), "{key}");
        let differences = here.training_differences(&base());
        let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
        let named = shown
            .iter()
            .any(|text| text.starts_with(&format!("{key}: \"here.wasm\", not ")));
        assert!(named, "{shown:?}");
    }
}

#[test]
fn vectors_are_read_once_and_frozen_embeddings_mean_the_same() {
    for key in ["init", "init_names"] {
        let changed = Config::parse(
            TEXT,
            "pbg.toml",
            &[
                ("entities.user.init".to_owned(), "v.npy".to_owned()),
                (format!("entities.user.{key}"), "other".to_owned()),
            ],
        );
        assert_eq!(changed.unwrap().training_hash(), base().training_hash());
    }
    let frozen = with("entities.user.frozen", "true");
    assert_eq!(frozen.model_differences(&base()), [""; 0]);
    assert_eq!(frozen.shape_differences(&base()), [""; 0]);
    let not = with("entities.user.frozen", "false");
    assert_eq!(not.training_hash(), base().training_hash());
}

#[test]
fn every_other_key_matters() {
    for (key, value, expected) in [
        (
            "edge_sets",
            "a,b",
            r#"edge_sets: ["a", "b"], not ["train"]"#,
        ),
        ("dimension", "9", "dimension: 9, not 8"),
        ("lr", "0.1", "lr: 0.1, not 0.01"),
        ("max_norm", "1", "max_norm: 1, not unset"),
        ("comparator", "dot", r#"comparator: "dot", not "cos""#),
        ("seed", "1", "seed: 1, not 0"),
        (
            "regularizer",
            "N3_embeddings",
            r#"regularizer: "N3_embeddings", not "N3""#,
        ),
        ("storage", "bf16", r#"storage: "bf16", not "f32""#),
        (
            "optimizer",
            "adagrad",
            r#"optimizer: "adagrad", not "row_adagrad""#,
        ),
        (
            "relations.0.operator",
            "diagonal",
            r#"relations.0.operator: "diagonal", not "none""#,
        ),
        (
            "entities.user.frozen",
            "true",
            "entities.user.frozen: true, not false",
        ),
        (
            "entities.user.num_partitions",
            "2",
            "entities.user.num_partitions: 2, not 1",
        ),
        (
            "plugins.params.x.y",
            "1",
            "plugins.params.x: { y = 1 }, not unset",
        ),
    ] {
        let changed = with(key, value);
        assert_ne!(changed.training_hash(), base().training_hash(), "{key}");
        let differences = changed.training_differences(&base());
        assert!(differences.iter().any(|found| *found == expected), "{key}");
    }
}

/// Defaults that follow another key differ with it, but are not reported as changes of their own.
#[test]
fn one_changed_key_is_one_difference() {
    for (key, value, expected) in [
        ("dimension", "9", "dimension: 9, not 8"),
        ("lr", "0.5", "lr: 0.5, not 0.01"),
    ] {
        let changed = with(key, value);
        assert_eq!(changed.training_differences(&base()), [expected]);
    }
    let written_out = with("entities.user.dimension", "8");
    assert_eq!(
        with("dimension", "9").training_differences(&written_out),
        ["dimension: 9, not 8", "entities.user.dimension: 9, not 8"]
    );
}

#[test]
fn predicting_relations_matters() {
    let dynamic = |weight: &str| {
        let set = [
            ("dynamic_relations", "true"),
            ("comparator", "dot"),
            ("relations.0.operator", "diagonal"),
            ("relation_prediction", weight),
        ];
        let set = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Config::parse(TEXT, "pbg.toml", &set).unwrap_or_else(|e| panic!("{e}"))
    };
    let [without, with] = ["0", "0.5"].map(dynamic);
    assert_ne!(without.training_hash(), with.training_hash());
    let differences = with.training_differences(&without);
    assert_eq!(differences, ["relation_prediction: 0.5, not 0"]);
}

/// With a decay until `num_epochs`, another number of epochs is another schedule.
#[test]
fn the_schedule_of_learning_rates_matters() {
    let scheduled = |set: &[(&str, &str)]| {
        let set = set
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let set: Vec<_> = set.collect();
        Config::parse(TEXT, "pbg.toml", &set).unwrap_or_else(|e| panic!("{e}"))
    };
    let decay = ("lr_schedule.decay", "cosine");
    let (cosine, ten) = (
        scheduled(&[decay]),
        scheduled(&[decay, ("num_epochs", "10")]),
    );
    let fixed = |epochs| {
        let end = ("lr_schedule.decay_epochs", "10");
        scheduled(&[decay, ("num_epochs", epochs), end])
    };
    let warm = scheduled(&[("lr_schedule.warmup_epochs", "0.5")]);
    let plugin = ("lr_schedule.decay", "steps.wasm");
    let (steps, unused) = (
        scheduled(&[plugin]),
        scheduled(&[plugin, ("lr_schedule.final_fraction", "0.5")]),
    );
    let without_effect = scheduled(&[("lr_schedule.decay_epochs", "10")]);
    for (changed, former, expected) in [
        (
            &cosine,
            &base(),
            &[r#"lr_schedule.decay: "cosine", not "constant""#][..],
        ),
        (&warm, &base(), &["lr_schedule.warmup_epochs: 0.5, not 0"]),
        (&ten, &cosine, &["lr_schedule.decay_epochs: 10, not 1"]),
        (&fixed("20"), &ten, &[]),
        (&fixed("20"), &fixed("30"), &[]),
        (&without_effect, &base(), &[]),
        (&unused, &steps, &[]),
        (
            &steps,
            &base(),
            &[r#"lr_schedule.decay: "steps.wasm", not "constant""#],
        ),
    ] {
        assert_eq!(changed.training_differences(former), expected);
        let same = changed.training_hash() == former.training_hash();
        assert_eq!(same, expected.is_empty());
    }
    // Which plugin is used may be changed with an option, as that of other strategies.
    assert_eq!(steps.differences_except_strategies(&base(), false), [""; 0]);
    assert_eq!(base().differences_except_strategies(&steps, false), [""; 0]);
    assert_eq!(
        cosine.differences_except_strategies(&base(), false).len(),
        1
    );
    // A plugin that has moved is the same one, unless its bytes say otherwise.
    let moved = ("lr_schedule.decay", "shelf/moved.wasm");
    let moved = scheduled(&[moved, ("lr_schedule.decay_epochs", "100")]);
    for (other, count) in [(false, 1), (true, 0)] {
        let found = moved.differences_except_strategies(&steps, other);
        assert_eq!(found.len(), count, "{found:?}");
    }
    // Its end, and the last rate of another course, change with it.
    let ends = scheduled(&[plugin, ("lr_schedule.decay_epochs", "100")]);
    assert_eq!(ends.differences_except_strategies(&base(), false), [""; 0]);
    let linear = scheduled(&[
        ("lr_schedule.decay", "linear"),
        ("lr_schedule.final_fraction", "0.1"),
    ]);
    assert_eq!(steps.differences_except_strategies(&linear, false), [""; 0]);
    assert_eq!(ends.differences_except_strategies(&steps, false).len(), 1);
}

#[test]
fn how_operators_begin_matters() {
    let begun = |set: &[(&str, &str)]| {
        let set = [&[("relations.0.operator", "diagonal")], set].concat();
        let set = set
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let set: Vec<_> = set.collect();
        Config::parse(TEXT, "pbg.toml", &set).unwrap_or_else(|e| panic!("{e}"))
    };
    let (identity, random) = (begun(&[]), begun(&[("operator_init_scale", "0.5")]));
    assert_ne!(identity.training_hash(), random.training_hash());
    let differences = random.training_differences(&identity);
    assert_eq!(differences, ["operator_init_scale: 0.5, not unset"]);
    assert_eq!(random.model_differences(&identity), [""; 0]);
}

#[test]
fn strategies_are_told_apart_from_the_rest() {
    for (key, value) in [
        ("bucket_order", "random"),
        ("relation_sampler", "uniform"),
        ("negative_sampler", "degree"),
        ("loss_fn", "softmax"),
        ("plugins.params.x.y", "1"),
    ] {
        let changed = with(key, value);
        assert_ne!(changed.training_differences(&base()), [""; 0], "{key}");
        assert_eq!(
            changed.differences_except_strategies(&base(), false),
            [""; 0]
        );
    }
    let other = with("seed", "5");
    assert_eq!(other.differences_except_strategies(&base(), false).len(), 1);
}

#[test]
fn what_embeddings_mean_is_told_apart_from_how_they_were_trained() {
    for (key, value) in [
        ("lr", "0.5"),
        ("seed", "5"),
        ("loss_fn", "softmax"),
        ("batch_size", "50"),
        ("relations.0.weight", "2"),
        ("edge_sets", "a,b"),
    ] {
        assert_eq!(
            with(key, value).model_differences(&base()),
            [""; 0],
            "{key}"
        );
    }
    for (key, value, expected) in [
        ("comparator", "dot", r#"comparator: "dot", not "cos""#),
        ("max_norm", "1", "max_norm: 1, not unset"),
        (
            "relations.0.operator",
            "diagonal",
            r#"relations.0.operator: "diagonal", not "none""#,
        ),
        (
            "entities.user.dimension",
            "9",
            "entities.user.dimension: 9, not 8",
        ),
    ] {
        assert_eq!(with(key, value).model_differences(&base()), [expected]);
    }
    assert_eq!(
        with("comparator", "dot").shape_differences(&base()),
        [""; 0]
    );
    assert_eq!(
        with("dimension", "9").shape_differences(&base()),
        ["dimension: 9, not 8"]
    );
}

#[test]
fn a_default_that_is_written_out_is_the_default() {
    for (key, value) in [
        ("global_emb", "true"),
        ("relation_lr", "0.01"),
        ("entities.user.dimension", "8"),
        ("relations.0.weight", "1"),
    ] {
        assert_eq!(
            with(key, value).training_hash(),
            base().training_hash(),
            "{key}"
        );
    }
}

/// Checkpoints contain the hash: if this value changes, [`FORM`](super::FORM) must change too, and old checkpoints
/// can no longer be resumed.
#[test]
fn the_hash_is_the_same_everywhere() {
    assert_eq!(
        base().training_hash(),
        "bf242c26970c8faee610f811af3bcb3516da1bb68be308a72f134695a9acbdd8"
    );
}

/// Returns a configuration whose comparator `key` has this formula.
fn compared(key: &str, formula: &str) -> Config {
    let formula = format!("'{formula}'");
    let set = [("comparator", key), (&format!("formulas.{key}"), &formula)];
    let set = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Config::parse(TEXT, "pbg.toml", &set).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn formulas_are_compared_by_what_they_mean() {
    let written = r#"{"name":"own","components":1,"nodes":[{"component":0},{"component":1},{"binary":["mul",0,1]},{"constant":0.5},{"binary":["mul",2,3]},{"sum":4}],"score":5}"#;
    let by_hand = r#"{ "score": 5, "components": 1, "nodes": [ {"component": 0}, {"component": 1}, {"binary": ["mul", 0, 1]}, {"constant": 0.50}, {"binary": ["mul", 2, 3]}, {"sum": 4} ] }"#;
    let (one, other) = (compared("own", written), compared("own", by_hand));
    assert_eq!(one.training_hash(), other.training_hash());
    assert_eq!(one.training_differences(&other), [""; 0]);
    let halved = compared("own", &written.replace("0.5", "0.25"));
    assert_eq!(
        halved.model_differences(&one),
        ["formulas.own: differs, though both are written as text"]
    );
}

/// Formula of an operator that multiplies embeddings by a number.
fn scaling(factor: &str, plugin: &str) -> String {
    format!(
        r#"{{"plugin":"{plugin}","params":{{"path":"/home/me"}},"name":"scales","components":1,"parameters":[{{"name":"s","initial":"one"}}],
        "nodes":[{{"component":0}},{{"parameter":0}},{{"binary":["mul",0,1]}},{{"constant":{factor}}},{{"binary":["mul",2,3]}}],"outputs":[4]}}"#
    )
}

/// Returns a configuration whose operator has this name, with these formulas.
fn operated(name: &str, formulas: &[(&str, &str)]) -> Config {
    let mut config = base();
    name.clone_into(&mut config.relations[0].operator);
    let formulas = formulas.iter();
    let formulas = formulas.map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    config.formulas = formulas.collect();
    config
}

/// Only where a formula comes from is told: its text may be long, and its parameters may be paths.
#[test]
fn texts_of_formulas_are_told_to_nobody() {
    let text = scaling("0.5", "scales 0.1.0");
    let other = scaling("0.25", "scales 0.2.0");
    let none = operated("none", &[]);
    for (here, there, expected) in [
        (
            operated("scales", &[("scales", &text)]),
            none.clone(),
            &[
                r#"relations.0.operator: "scales", not "none""#,
                "formulas.scales: is only here, from the plugin scales 0.1.0",
            ][..],
        ),
        (
            none.clone(),
            operated("none", &[("scales", &text)]),
            &["formulas.scales: is only there, from the plugin scales 0.1.0"],
        ),
        (
            operated("scales", &[("scales", &text)]),
            operated("scales", &[("scales", &other)]),
            &[
                "formulas.scales: differs, here from the plugin scales 0.1.0, there from the plugin scales 0.2.0",
            ],
        ),
        (
            operated("mine.wasm", &[("mine.wasm", &text)]),
            none,
            &[r#"relations.0.operator: "mine.wasm", not "none""#],
        ),
    ] {
        assert_eq!(here.training_differences(&there), expected);
        assert_eq!(here.model_differences(&there), expected);
    }
}

/// Formulas are compared by what they compute, so files of their plugins may be anywhere.
#[test]
fn files_of_formulas_may_move() {
    let text = scaling("0.5", "scales 0.1.0");
    let here = operated("mine.wasm", &[("mine.wasm", &text)]);
    let unused = ("old/mine.wasm", &*text);
    let there = operated("sub/its.wasm", &[("sub/its.wasm", &text), unused]);
    assert_eq!(here.training_hash(), there.training_hash());
    assert_eq!(here.training_differences(&there), [""; 0]);
    assert_eq!(here.model_differences(&there), [""; 0]);
    let outside = |config: &Config| config.keys_outside_training_hash();
    assert_eq!(outside(&here), outside(&there));
    let other = scaling("0.25", "scales 0.1.0");
    let other = operated("sub/its.wasm", &[("sub/its.wasm", &other)]);
    assert_ne!(here.training_hash(), other.training_hash());
    let differs = "formulas.\"mine.wasm\": differs, here from the plugin scales 0.1.0 in mine.wasm, \
                   there from the plugin scales 0.1.0 in sub/its.wasm";
    assert_eq!(here.training_differences(&other), [differs]);
    assert_eq!(here.shape_differences(&other), [""; 0]);
}

#[test]
fn a_formula_has_the_name_of_its_key() {
    let formula = r#"{"name":"inner","components":1,"nodes":[{"component":0},{"component":1},{"binary":["mul",0,1]},{"sum":2}],"score":3}"#;
    let named = compared("own", formula);
    assert_eq!(named.comparator().unwrap().name(), "own");
    assert_eq!(named.formula_plugins(), ["own"]);
}
