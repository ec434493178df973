//! Tests of parsing: valid configurations, and the messages about invalid ones.

use pbg_config::{Config, ConfigErrors, StrategyNames, split_override};
use pbg_core::model::Comparator;

const SMALL: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
[entities.user]
num_partitions = 1
[[relations]]
name = "follows"
lhs = "user"
rhs = "user"
"#;

fn parse_with(text: &str, overrides: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let overrides: Vec<_> = overrides
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    Config::parse(text, "pbg.toml", &overrides)
}

fn set(overrides: &[(&str, &str)]) -> Config {
    parse_with(SMALL, overrides).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the problems of `SMALL` with `overrides`, one per line.
fn complaints(overrides: &[(&str, &str)]) -> String {
    parse_with(SMALL, overrides)
        .map(|config| panic!("{overrides:?} is accepted: {config:?}"))
        .unwrap_or_else(|e: ConfigErrors| e.to_string())
}

#[test]
fn a_small_file_takes_the_defaults() {
    let config = set(&[]);
    assert_eq!(config.comparator().unwrap(), Comparator::Cos);
    assert_eq!(config.relations[0].operator, "none");
    assert_eq!(
        (config.lr, config.batch_size, config.eval_fraction),
        (0.01, 1000, 0.05)
    );
    assert!(config.has_global_emb());
    assert_eq!(config.parameter_lr(), 0.01);
}

#[test]
fn the_configurations_that_come_along_are_valid() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let config = Config::parse(&text, &path.display().to_string(), &[]);
        assert_eq!(
            config.unwrap_or_else(|e| panic!("{e}")).warnings(),
            Vec::<String>::new()
        );
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
fn every_problem_is_reported_at_once_with_its_line() {
    let text = r#"
dataset = "data"
checkpoint_path = 7
dimension = 0
lr = nan
learning_rate = 0.1
comparator = "cosine"
[entities.user]
num_partitions = 0
[[relations]]
name = "follows"
lhs = "user"
rhs = "usr"
operater = "diagonal"
"#;
    let errors = parse_with(text, &[("batch_size", "many")]).unwrap_err();
    let shown: Vec<_> = errors.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "line 3: checkpoint_path: expected a string in quotes, found 7",
            "line 4: dimension: must be at least 1, is 0",
            "line 5: lr: must be a finite number, is NaN",
            "line 6: learning_rate: unknown key",
            "line 7: comparator: must be one of dot, cos, l2, squared_l2, l1, complex_l1, the path of a component (*.wasm) or the name of a formula in `formulas`, is \"cosine\"; did you mean `cos`?",
            "line 9: entities.user.num_partitions: must be at least 1, is 0",
            "line 13: relations.0.rhs: \"usr\" is not an entity type of `entities`; did you mean `user`?",
            "line 14: relations.0.operater: unknown key; did you mean `operator`?",
            "--set: batch_size: expected an integer, found the string \"many\"",
        ]
    );
    assert!(
        errors
            .to_string()
            .starts_with("pbg.toml: 9 problems\n  line 3: ")
    );
}

#[test]
fn every_rule_between_keys_is_checked() {
    let user2 = ("entities.item", "{ num_partitions = 4 }");
    let cases: &[(&[(&str, &str)], &str)] = &[
        (
            &[("relations.0.lhs", "usr")],
            "relations.0.lhs: \"usr\" is not an entity type of `entities`; did you mean `user`?",
        ),
        (
            &[
                ("dynamic_relations", "true"),
                ("relations.1", "{ name = 'b', lhs = 'user', rhs = 'user' }"),
            ],
            "dynamic_relations: needs exactly one entry",
        ),
        (
            &[("dynamic_relations", "true"), ("global_emb", "true")],
            "global_emb: must not be true with `dynamic_relations`",
        ),
        (
            &[("dynamic_relations", "true"), ("relations.0.name", "*")],
            "relations.0.name: `*` stands for",
        ),
        (
            &[
                ("relations.0.name", "*"),
                ("relations.1", "{ name = '*', lhs = 'user', rhs = 'user' }"),
            ],
            "relations.1.name: \"*\" is also the name of relations.0",
        ),
        (
            &[("disable_lhs_negs", "true"), ("disable_rhs_negs", "true")],
            "disable_rhs_negs: both sides are disabled",
        ),
        (
            &[("num_batch_negs", "0"), ("num_uniform_negs", "0")],
            "num_uniform_negs: and `num_batch_negs` are both 0",
        ),
        (
            &[("eval_num_batch_negs", "0"), ("eval_num_uniform_negs", "0")],
            "eval_num_uniform_negs: and `eval_num_batch_negs` are both 0",
        ),
        (
            &[("batch_size", "999")],
            "batch_size: must be a multiple of `num_batch_negs`, which is 50; is 999, the nearest multiple is 950",
        ),
        (
            &[
                user2,
                ("relations.0.rhs", "item"),
                ("entities.item.dimension", "6"),
            ],
            "relations.0: both sides must have the same dimension; `user` has 8, `item` has 6",
        ),
        (
            &[
                ("relations.0.operator", "complex_diagonal"),
                ("dimension", "7"),
            ],
            "relations.0.operator: complex_diagonal pairs coordinates, so the dimension must be even; `user` has 7",
        ),
        (
            &[
                ("relations.0.operator", "complex_diagonal"),
                ("dimension", "7"),
                ("bias", "true"),
            ],
            "the bias coordinate counts",
        ),
        (
            &[("bias", "true"), ("dimension", "1")],
            "bias: uses the first coordinate",
        ),
        (
            &[
                ("relations.0.operator", "affine"),
                ("regularization_coef", "1e-3"),
            ],
            "relations.0.operator: the regularizer N3 is not defined",
        ),
        (
            &[
                ("entities.user.featurized", "true"),
                ("entities.user.num_partitions", "2"),
            ],
            "entities.user.num_partitions: must be 1 for featurized types",
        ),
        (
            &[
                ("entities.user.featurized", "true"),
                ("execution.device", "cuda:0"),
            ],
            "execution.device: is cuda:0, but the featurized type `user` can be trained on the CPU only",
        ),
        (
            &[("execution.precision", "bf16"), ("comparator", "l1")],
            "execution.precision: must be `fp32` with the comparator `l1`: bf16 rounds the factors of matrix products",
        ),
        (
            &[
                ("execution.precision", "bf16"),
                ("comparator", "squared_l2"),
            ],
            "execution.precision: must be `fp32` with the comparator `squared_l2`: bf16 would lose small distances",
        ),
        (
            &[("execution.device", "cuda:0"), ("comparator", "l1")],
            "execution.device: is cuda:0, but comparators that are computed pair by pair, as `l1` is, run on the CPU only",
        ),
        (
            &[
                ("execution.device", "cuda:0"),
                ("entities.user.frozen", "true"),
                ("entities.user.init", "'v.npy'"),
            ],
            "execution.device: is cuda:0, which trains the embeddings of all types, but `user` is frozen",
        ),
        (
            &[("execution.device", "GPU")],
            "execution.device: must be `cpu`, or `cuda:` followed by the number of a GPU, is \"GPU\"; did you mean `cuda:0`?",
        ),
        (
            &[
                ("entities.user.featurized", "true"),
                ("relations.0.all_negs", "true"),
            ],
            "relations.0.all_negs: `user` is featurized",
        ),
        (
            &[
                ("entities.user.featurized", "true"),
                ("num_batch_negs", "0"),
            ],
            "num_batch_negs: must be positive: `user` is featurized",
        ),
        (
            &[
                user2,
                ("relations.0.rhs", "item"),
                ("entities.user.num_partitions", "2"),
                ("relations.1", "{ name = 'b', lhs = 'item', rhs = 'user' }"),
            ],
            "entities.user.num_partitions: is 2, but `item`, which is also on the lhs",
        ),
        (
            &[("entities.'a/b'", "{ num_partitions = 1 }")],
            "entities.\"a/b\": the name becomes a file name",
        ),
        (
            &[("entities.'..'", "{ num_partitions = 1 }")],
            "entities.\"..\": the name becomes a file name",
        ),
        (
            &[("edge_sets", "train,../x")],
            "edge_sets.1: becomes a file name",
        ),
        (
            &[
                ("lr_schedule.decay", "cosine"),
                ("lr_schedule.decay_epochs", "3"),
                ("lr_schedule.warmup_epochs", "3"),
            ],
            "lr_schedule.decay_epochs: must be more than `lr_schedule.warmup_epochs`, which is 3",
        ),
        (
            &[("lr_schedule.warmup", "1")],
            "lr_schedule.warmup: unknown key; did you mean `warmup_epochs`?",
        ),
        (
            &[("relations.0.name", "\"a\\nb\"")],
            "relations.0.name: must not contain control characters",
        ),
    ];
    for (overrides, expected) in cases {
        let shown = complaints(overrides);
        assert!(shown.contains(expected), "{shown}\nlacks\n{expected}");
    }
}

#[test]
fn what_the_rules_allow() {
    set(&[("relations.0.name", "/people/person/nationality")]);
    set(&[
        ("relations.0.all_negs", "true"),
        ("num_batch_negs", "0"),
        ("num_uniform_negs", "0"),
    ]);
    set(&[("num_batch_negs", "0"), ("batch_size", "999")]);
    set(&[
        ("eval_fraction", "0"),
        ("eval_num_batch_negs", "0"),
        ("eval_num_uniform_negs", "0"),
    ]);
    set(&[
        ("entities.item", "{ num_partitions = 4 }"),
        ("relations.0.rhs", "item"),
    ]);
    set(&[("bucket_order", "orders/mine.wasm")]);
    set(&[("relation_sampler", "samplers/mine.wasm")]);
    set(&[
        ("regularization_coef", "0"),
        ("relations.0.operator", "linear"),
    ]);
    set(&[
        ("num_epochs", "0"),
        ("lr", "0"),
        ("checkpoint_interval", "0"),
    ]);
}

#[test]
fn ranges_of_single_keys_are_checked() {
    let cases = [
        ("dimension", "65537", "must be at most 65536, is 65537"),
        (
            "dimension",
            "99999999999999999999999999999999999999999999",
            "must be at most 65536",
        ),
        (
            "entities.user.num_partitions",
            "0",
            "must be at least 1, is 0",
        ),
        ("buffer_partitions", "1", "must be at least 2, is 1"),
        (
            "checkpoint_preservation_interval",
            "0",
            "must be at least 1, is 0",
        ),
        ("eval_fraction", "1", "must be less than 1, is 1"),
        ("eval_fraction", "-0.1", "must be at least 0, is -0.1"),
        (
            "regularization_coef",
            "-1e-3",
            "must be at least 0, is -0.001",
        ),
        ("init_scale", "0", "must be greater than 0, is 0"),
        (
            "init_scale",
            "1e-60",
            "must be greater than 0, is 1e-60, which rounds to 0",
        ),
        ("operator_init_scale", "0", "must be greater than 0, is 0"),
        ("max_norm", "inf", "must be a finite number, is inf"),
        ("max_norm", "1e39", "must be at most 3.4028235e38, is 1e39"),
        ("lr", "-.5", "must be at least 0, is -0.5"),
        (
            "lr_schedule.final_fraction",
            "1.5",
            "must be at most 1, is 1.5",
        ),
        (
            "lr_schedule.warmup_epochs",
            "-1",
            "must be at least 0, is -1",
        ),
        ("seed", "-1", "must be at least 0, is -1"),
        (
            "seed",
            "9223372036854775808",
            "must be at most 9223372036854775807",
        ),
        ("batch_size", "2147483649", "must be at most 2147483648"),
        ("batch_size", "1000.0", "expected an integer, found 1000.0"),
        (
            "bias",
            "yes",
            "expected true or false, found the string \"yes\"",
        ),
        ("dataset", "", "must not be empty"),
        ("edge_sets", "", "must have at least one entry"),
        ("edge_sets", "[1]", "expected a string in quotes, found 1"),
        ("entities", "{}", "must have at least one entry"),
        ("entities", "3", "expected a table, found 3"),
        ("relations", "[]", "must have at least one entry"),
        ("plugins.params.x.y", "2020-01-01", "expected a number"),
        ("plugins.params.x.y", "[nan]", "must be a finite number"),
        ("plugins.limits.memory_mib", "4097", "must be at most 4096"),
    ];
    for (key, value, expected) in cases {
        let shown = complaints(&[(key, value)]);
        assert!(
            shown.starts_with("pbg.toml: --set: ") && shown.contains(key),
            "{shown}"
        );
        assert!(shown.contains(expected), "{shown}\nlacks\n{expected}");
    }
}

#[test]
fn unknown_keys_come_with_advice() {
    for (key, advice) in [
        ("num_epoch", "unknown key; did you mean `num_epochs`?"),
        ("entity_path", "it is a key of PBG; use `dataset`"),
        ("edgePaths", "it is a key of PBG; use `edge_sets`"),
        ("num_gpus", "use `execution.device`"),
        (
            "operator",
            "`operator` is a key of the entries of `relations`",
        ),
        ("relations.0.lr", "`lr` is a key of the top level"),
        ("plugins.limit", "did you mean `limits`?"),
    ] {
        let shown = complaints(&[(key, "1")]);
        assert!(
            shown.contains(key) && shown.contains(advice),
            "{shown}\nlacks\n{advice}"
        );
    }
}

#[test]
fn a_misspelt_required_key_is_one_problem() {
    let errors = parse_with(&SMALL.replace("dimension =", "dimensions ="), &[]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "pbg.toml: line 4: dimensions: unknown key; did you mean `dimension`?"
    );
}

#[test]
fn missing_keys_are_explained() {
    let shown = parse_with("", &[]).unwrap_err().to_string();
    for expected in [
        "dataset: missing: folder of the dataset",
        "relations: missing",
        "dimension: missing",
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    let shown = parse_with(&SMALL.replace("num_partitions = 1", ""), &[])
        .unwrap_err()
        .to_string();
    assert!(
        shown.starts_with("pbg.toml: line 5: entities.user.num_partitions: missing"),
        "{shown}"
    );
}

#[test]
fn syntax_errors_have_a_line() {
    let errors = parse_with("dimension = 8\nlr = = 1\n", &[]).unwrap_err();
    assert_eq!(errors.problems()[0].line(), Some(2));
    assert!(errors.to_string().contains("not valid TOML"));
    assert!(
        parse_with("dimension = 8\ndimension = 9\n", &[])
            .unwrap_err()
            .to_string()
            .contains("line 2")
    );
}

#[test]
fn overrides_are_read_as_the_key_wants_them() {
    let config = set(&[
        ("dataset", "123"),
        ("checkpoint_path", "'quoted'"),
        ("edge_sets", "train, extra"),
        ("lr", "1"),
        ("relation_lr", ".5"),
        ("max_norm", "1"),
        ("max_norm", "none"),
        ("init_path", "old"),
        ("comparator", "squared_l2"),
        ("relations.0.all_negs", "true"),
        ("relations.0.operator", "diagonal"),
        ("relations.1.name", "likes"),
        ("relations.1.lhs", "user"),
        ("relations.1.rhs", "item"),
        ("entities.item.num_partitions", "4"),
        ("entities.\"a.b\".num_partitions", "1"),
        ("plugins.params.affinity.tries", "3"),
        ("plugins.params.affinity.name", "some text"),
        ("plugins.limits.deadline_ms", "50"),
    ]);
    assert_eq!(
        (config.dataset.as_str(), config.checkpoint_path.as_str()),
        ("123", "quoted")
    );
    assert_eq!(config.edge_sets, ["train", "extra"]);
    assert_eq!(
        (config.lr, config.relation_lr, config.max_norm),
        (1.0, Some(0.5), None)
    );
    assert_eq!(
        (config.init_path.as_deref(), config.comparator),
        (Some("old"), "squared_l2".to_owned())
    );
    assert!(config.relations[0].all_negs && config.relations[0].operator == "diagonal");
    assert_eq!(
        (
            config.relations[1].rhs.as_str(),
            config.entities["item"].num_partitions
        ),
        ("item", 4)
    );
    assert_eq!(config.entities["a.b"].num_partitions, 1);
    let params = &config.plugins.params["affinity"];
    assert_eq!(
        (params["tries"].clone(), params["name"].clone()),
        (3.into(), "some text".into())
    );
    assert_eq!(config.plugins.limits.deadline_ms, 50);
    assert_eq!(set(&[("edge_sets", "['a', 'b']")]).edge_sets, ["a", "b"]);
}

#[test]
fn overrides_that_lead_nowhere_are_errors() {
    for (key, expected) in [
        ("lr.x", "`lr` is 1, which has no keys"),
        ("relations.x.name", "`relations` is a list of 1"),
        ("relations.7.name", "0 to 1 (a new entry), not `7`"),
        ("relations.-1.name", "not `-1`"),
        ("a..b", "is not a key"),
        ("", "is not a key"),
    ] {
        let shown = complaints(&[("lr", "1"), (key, "1")]);
        assert!(shown.contains(expected), "{shown}\nlacks\n{expected}");
    }
    assert_eq!(
        split_override("a=b=c"),
        Ok(("a".to_owned(), "b=c".to_owned()))
    );
    assert_eq!(split_override("a="), Ok(("a".to_owned(), String::new())));
    assert!(split_override("ab").is_err() && split_override("=b").is_err());
}

#[test]
fn strategies_are_installed_or_paths() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let installed = StrategyNames {
        orders: names(&["inside_out", "random"]),
        samplers: names(&["proportional"]),
        negatives: names(&["uniform_negatives", "degree"]),
        losses: names(&["ranking", "softmax"]),
        operators: names(&["rotate"]),
        comparators: names(&["hyperbolic"]),
        schedules: names(&["step_decay"]),
        files: names(&["mine"]),
    };
    let parse = |key: &str, value: &str| {
        let set = [(key.to_owned(), value.to_owned())];
        Config::parse_with(SMALL, "pbg.toml", &set, &installed)
    };
    for (key, value, expected) in [
        (
            "loss_fn",
            "Softmax",
            "must be one of ranking, softmax or the path of a component (*.wasm), is \"Softmax\"; \
             did you mean `softmax`?",
        ),
        ("bucket_order", "INSIDE_OUT", "did you mean `inside_out`?"),
        (
            "bucket_order",
            "softmax",
            "must be one of inside_out, random or the path of a component (*.wasm), and \"softmax\" is a loss, which \
             `loss_fn` takes",
        ),
        (
            "relations.0.operator",
            "softmax",
            "and \"softmax\" is a loss, which `loss_fn` takes",
        ),
        (
            "loss_fn",
            "rotate",
            "and \"rotate\" is an operator, which `operator` takes",
        ),
        (
            "comparator",
            "rotate",
            "must be one of dot, cos, l2, squared_l2, l1, complex_l1, hyperbolic, the path of a component (*.wasm) or \
             the name of a formula in `formulas`, and \"rotate\" is an operator, which `operator` takes",
        ),
        ("comparator", "hyperbolik", "did you mean `hyperbolic`?"),
        (
            "relations.0.operator",
            "hyperbolic",
            "and \"hyperbolic\" is a comparator, which `comparator` takes",
        ),
        (
            "lr_schedule.decay",
            "cosin",
            "must be one of constant, linear, cosine, step_decay or the path of a component (*.wasm), is \"cosin\"; did \
             you mean `cosine`?",
        ),
        (
            "loss_fn",
            "step_decay",
            "and \"step_decay\" is a learning rate schedule, which `lr_schedule.decay` takes",
        ),
        (
            "relation_sampler",
            "proportonal",
            "did you mean `proportional`?",
        ),
    ] {
        let shown = parse(key, value).unwrap_err().to_string();
        assert!(shown.contains(expected), "{shown}\nlacks\n{expected}");
    }
    let dynamic = |sampler: &str| {
        let set = [("dynamic_relations", "true"), ("relation_sampler", sampler)];
        let set = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Config::parse_with(SMALL, "pbg.toml", &set, &installed)
    };
    for sampler in ["uniform", "mine.wasm"] {
        let shown = dynamic(sampler).unwrap_err().to_string();
        assert!(
            shown.contains("relation_sampler: is used for static relations only"),
            "{shown}"
        );
    }
    dynamic("proportional").unwrap();
    let negatives = |changes: &[(&str, &str)]| {
        let set = [("negative_sampler", "degree")].iter().chain(changes);
        let set: Vec<_> = set
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Config::parse_with(SMALL, "pbg.toml", &set, &installed)
    };
    negatives(&[]).unwrap();
    for (changes, expected) in [
        (
            &[("negatives_from", "bucket")],
            "negative_sampler: draws from the partition of the replaced side",
        ),
        (
            &[("num_uniform_negs", "0")],
            "negative_sampler: is not used, since `num_uniform_negs` is 0",
        ),
    ] {
        let shown = negatives(changes).unwrap_err().to_string();
        assert!(shown.contains(expected), "{shown}\nlacks\n{expected}");
    }
    for name in ["random", "mine", "folder/other.wasm"] {
        assert_eq!(parse("bucket_order", name).unwrap().bucket_order, name);
    }
    for (name, plugin) in [
        ("cosine", None),
        ("step_decay", Some("step_decay")),
        ("mine.wasm", Some("mine.wasm")),
    ] {
        let config = parse("lr_schedule.decay", name).unwrap();
        assert_eq!(config.lr_schedule.plugin(), plugin);
    }
}

#[test]
fn rules_about_keys_that_are_wrong_themselves_stay_silent() {
    let shown = complaints(&[("num_batch_negs", "x"), ("batch_size", "999")]);
    assert!(!shown.contains("multiple"), "{shown}");
    let shown = complaints(&[("entities", "3"), ("dimension", "0")]);
    assert!(!shown.contains("entity type"), "{shown}");
}

#[test]
fn odd_but_allowed_is_a_warning() {
    let config = set(&[
        ("edge_sets", "train,train"),
        ("entities.unused.num_partitions", "1"),
    ]);
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("entities.unused: "));
    assert!(warnings[1].starts_with("edge_sets: "));
}

#[test]
fn a_configuration_in_memory_is_checked_alike() {
    let mut config = set(&[]);
    config.check().unwrap();
    config.lr = f32::NAN;
    config.max_norm = Some(f32::INFINITY);
    config.batch_size = 7;
    config.entities.get_mut("user").unwrap().num_partitions = 0;
    let shown = config.check().unwrap_err().to_string();
    for key in [
        "lr: must be a finite",
        "max_norm: ",
        "batch_size: ",
        "entities.user.num_partitions: ",
    ] {
        assert!(shown.contains(key), "{shown}");
    }
    config.seed = u64::MAX;
    config.check().unwrap_err();
}

#[test]
fn keys_of_a_decay_that_there_is_not_are_a_warning() {
    let warned = |overrides: &[(&str, &str)]| set(overrides).warnings();
    let linear = ("lr_schedule.decay", "linear");
    let plugin = ("lr_schedule.decay", "step_decay");
    let cases: [(&[(&str, &str)], &str); 5] = [
        (
            &[("lr_schedule.warmup_epochs", "1.5")],
            "lr_schedule.warmup_epochs: is 1.5, and num_epochs 1, so that training ends before learning rates have risen",
        ),
        (
            &[plugin, ("lr_schedule.final_fraction", "0.1")],
            "lr_schedule.final_fraction: has no effect on the schedule `step_decay`",
        ),
        (
            &[("lr_schedule.final_fraction", "0.1")],
            "lr_schedule.final_fraction: has no effect without a decay",
        ),
        (
            &[("lr_schedule.decay_epochs", "9")],
            "lr_schedule.decay_epochs: has no effect without a decay",
        ),
        (
            &[linear, ("lr_schedule.warmup_epochs", "2")],
            "lr_schedule.warmup_epochs: is 2, and num_epochs 1, so that training ends before",
        ),
    ];
    for (overrides, expected) in cases {
        let warnings = warned(overrides);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with(expected), "{warnings:?}");
    }
    for fine in [
        &[linear, ("lr_schedule.final_fraction", "0.1")][..],
        &[("lr_schedule.warmup_epochs", "1")],
    ] {
        assert_eq!(warned(fine), Vec::<String>::new());
    }
}
