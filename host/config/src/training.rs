//! Which keys a run may change when it resumes, and a fingerprint of the others.

use std::fmt::Write as _;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::Config;
use super::difference::{Difference, compare};
use super::key_path::KeyPath;

/// Keys that a resumed run may change: where things are, how long and how often, and what is only
/// watched. Every other key decides the values that training produces.
pub(super) const MAY_CHANGE: &[&str] = &[
    "dataset",
    "checkpoint_path",
    "init_path",
    "num_epochs",
    "checkpoint_interval",
    "checkpoint_preservation_interval",
    "workers",
    "buffer_partitions",
    "eval_num_batch_negs",
    "eval_num_uniform_negs",
    "num_machines",
    "distributed_init_method",
    "distributed_tree_init_order",
    "distributed",
    "execution.device",
    "execution.prefetch",
    "execution.partitions_ahead",
    "execution.buckets_ahead",
    "validation.early_stop",
    "plugins.limits",
    "plugins.on_fault",
    "plugins.grants",
    "plugins.pins",
];

/// Keys that say which strategies train, and with which parameters.
const STRATEGIES: [&str; 5] = [
    "bucket_order",
    "relation_sampler",
    "loss_fn",
    "plugins.params",
    "margin",
];

/// Keys that say what the numbers of a trained model mean: read with another value, the same
/// checkpoint is another model. [`MODEL_OF_RELATIONS`] are those of each entry of `relations`.
pub(super) const MODEL: [&str; 8] = [
    "dimension",
    "comparator",
    "bias",
    "global_emb",
    "max_norm",
    "dynamic_relations",
    "entities",
    "formulas",
];

/// The keys of an entry of `relations` that belong to the model.
pub(super) const MODEL_OF_RELATIONS: [&str; 4] = ["name", "lhs", "rhs", "operator"];

/// The keys of the model that decide its shape: what initial embeddings must share.
const SHAPE: [&str; 3] = ["dimension", "dynamic_relations", "entities"];

/// What the fingerprint is of; a new form of it needs a new name.
const FORM: &str = "pbg-host training configuration 3\n";

impl Config {
    /// The configuration in TOML, without the keys that are unset; [`Config::parse`] reads it back.
    ///
    /// # Errors
    /// When a value has no form in TOML; [`Config::check`] finds those.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// SHA-256, in hexadecimal, of the keys that a resumed run must not change. A default that is
    /// written out counts as the default.
    #[must_use]
    pub fn training_hash(&self) -> String {
        let mut text = FORM.to_owned();
        canonical(&self.decisive(), &mut text);
        Sha256::digest(text.as_bytes())
            .iter()
            .fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            })
    }

    /// The keys that differ, of those that a resumed run must not change. Empty exactly when the hashes are equal.
    #[must_use]
    pub fn training_differences(&self, other: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        compare(
            &self.decisive(),
            &other.decisive(),
            &KeyPath::default(),
            &mut differences,
        );
        differences
    }

    /// Those of [`Config::training_differences`] that are not about which strategies train.
    #[must_use]
    pub fn differences_beside_strategies(&self, other: &Self) -> Vec<Difference> {
        let mut differences = self.training_differences(other);
        differences.retain(|difference| !STRATEGIES.iter().any(|key| difference.is_about(key)));
        differences
    }

    /// The keys that differ, of those that say what embeddings and parameters mean, each as in
    /// [`Config::training_differences`].
    #[must_use]
    pub fn model_differences(&self, other: &Self) -> Vec<Difference> {
        self.differences_of(&MODEL, other)
    }

    /// As [`Config::model_differences`], of the keys alone that embeddings and parameters must share
    /// to become the initial ones of another run.
    #[must_use]
    pub fn shape_differences(&self, other: &Self) -> Vec<Difference> {
        self.differences_of(&SHAPE, other)
    }

    fn differences_of(&self, keys: &[&str], other: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        compare(
            &only(&self.decisive(), keys),
            &only(&other.decisive(), keys),
            &KeyPath::default(),
            &mut differences,
        );
        differences
    }

    /// The keys that a resumed run must not change, with defaults that depend on other keys filled in.
    fn decisive(&self) -> Json {
        let mut filled = self.clone();
        filled.global_emb = Some(self.has_global_emb());
        filled.relation_lr = Some(self.parameter_lr());
        for entity in filled.entities.values_mut() {
            entity.dimension = Some(entity.dimension.unwrap_or(self.dimension));
        }
        // Keys are texts and numbers that are not finite become null, so this cannot fail.
        let mut json = serde_json::to_value(&filled).unwrap_or_default();
        for key in MAY_CHANGE {
            remove(&mut json, key);
        }
        // Ranks are only watched unless learning rates depend on them.
        if self.validation.lr_decay.is_none() {
            remove(&mut json, "validation");
        }
        json
    }
}

/// The entries of `keys`, and of every relation what belongs to the model.
fn only(json: &Json, keys: &[&str]) -> Json {
    let entries = json.as_object().into_iter().flatten();
    let mut kept: serde_json::Map<_, _> = entries
        .filter(|(key, _)| keys.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let relations = json["relations"].as_array().into_iter().flatten();
    let of_model = |relation: &Json| -> Json {
        let value = |key| (key, relation[key].clone());
        MODEL_OF_RELATIONS.map(value).into_iter().collect()
    };
    kept.insert("relations".to_owned(), relations.map(of_model).collect());
    kept.into()
}

fn remove(json: &mut Json, path: &str) {
    let Json::Object(entries) = json else { return };
    match path.split_once('.') {
        None => drop(entries.remove(path)),
        Some((first, rest)) => {
            if let Some(child) = entries.get_mut(first) {
                remove(child, rest);
            }
        }
    }
}

/// JSON with sorted keys: the order of `serde_json` depends on its features.
fn canonical(json: &Json, out: &mut String) {
    match json {
        Json::Object(entries) => {
            out.push('{');
            let sorted: std::collections::BTreeMap<_, _> = entries.iter().collect();
            for (key, value) in sorted {
                let _ = write!(out, "{}:", Json::from(key.as_str()));
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}

#[cfg(test)]
mod tests {
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
                "relations.0.operator",
                "diagonal",
                r#"relations.0.operator: "diagonal", not "none""#,
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

    #[test]
    fn strategies_are_told_apart_from_the_rest() {
        for (key, value) in [
            ("bucket_order", "random"),
            ("relation_sampler", "uniform"),
            ("loss_fn", "softmax"),
            ("plugins.params.x.y", "1"),
        ] {
            let changed = with(key, value);
            assert_ne!(changed.training_differences(&base()), [""; 0], "{key}");
            assert_eq!(changed.differences_beside_strategies(&base()), [""; 0]);
        }
        let other = with("seed", "5");
        assert_eq!(other.differences_beside_strategies(&base()).len(), 1);
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
        assert_eq!(with("dimension", "9").shape_differences(&base()).len(), 2);
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

    /// Checkpoints carry the hash: when this value changes, so must [`FORM`], and old checkpoints
    /// no longer resume.
    #[test]
    fn the_hash_is_the_same_everywhere() {
        assert_eq!(
            base().training_hash(),
            "bf242c26970c8faee610f811af3bcb3516da1bb68be308a72f134695a9acbdd8"
        );
    }
}
