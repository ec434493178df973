//! What a configuration file may say, and what a wrong one is told.

use pbg_core::config::{Comparator, Config, ConfigErrors, Operator};

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

fn complaints(overrides: &[(&str, &str)]) -> String {
    parse_with(SMALL, overrides).unwrap_err().to_string()
}

/// `SMALL` with lines above its tables.
fn with(lines: &str) -> Result<Config, ConfigErrors> {
    parse_with(&format!("{lines}\n{SMALL}"), &[])
}

#[test]
fn a_small_file_takes_the_defaults() {
    let config = set(&[]);
    assert_eq!(config.comparator, Comparator::Cos);
    assert_eq!(config.relations[0].operator, Operator::None);
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
            "line 3: checkpoint_path: expected a text in quotes, found 7",
            "line 4: dimension: must be at least 1, is 0",
            "line 5: lr: must be a finite number, is NaN",
            "line 6: learning_rate: unknown key",
            "line 7: comparator: must be one of dot, cos, l2, squared_l2, is \"cosine\"; did you mean `cos`?",
            "line 9: entities.user.num_partitions: must be at least 1, is 0",
            "line 13: relations.0.rhs: \"usr\" is no entity type of `entities`; did you mean `user`?",
            "line 14: relations.0.operater: unknown key; did you mean `operator`?",
            "--set: batch_size: expected an integer, found the text \"many\"",
        ]
    );
    assert!(
        errors
            .to_string()
            .starts_with("pbg.toml: 9 problems\n  line 3: ")
    );
}
