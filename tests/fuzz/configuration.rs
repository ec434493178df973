//! Fuzzing of configurations: files and `--set`.

use pbg_config::Config;
use pbg_fuzz::text;

use crate::{fuzz, turn};

const ORDINARY: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
edge_sets = ["train", "more"]
num_epochs = 3
max_norm = 1.0
[entities.user]
num_partitions = 4
[entities."a.b"]
num_partitions = 1
featurized = true
[[relations]]
name = "likes"
lhs = "user"
rhs = "a.b"
operator = "diagonal"
[validation]
edges = "valid"
[plugins.params.beta]
assignment = "random"
[plugins.limits]
memory_mib = 32
[[plugins.grants]]
plugin = "from_file"
read = ["orders"]
"#;

#[test]
fn configurations() {
    let turn = turn();
    let default = pbg_config::default_toml(&pbg_config::StrategyNames::default());
    fuzz(turn, "configurations", 1500, 64 << 20, |dice, _| {
        let valid = *dice.pick(&[ORDINARY, &default]);
        let changed = text(dice, valid, &default);
        let number = dice.bits();
        let overrides = match number % 3 {
            0 => Vec::new(),
            _ => {
                let line = text(dice, "relations.0.operator=[1, 'a']", ORDINARY);
                pbg_config::split_override(&line).into_iter().collect()
            }
        };
        let parsed = Config::parse(&changed, "fuzz.toml", &overrides);
        if let Err(errors) = &parsed {
            assert!(!errors.problems().is_empty() && !errors.to_string().is_empty());
        }
        parsed.is_ok()
    });
}
