//! The keys that may change when a run resumes, and a fingerprint of all other keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::difference::{ConfigDifference, compare, leaves, shown};
use super::formula_differences::write_paths;
use super::formulas::canonical_formula;
use super::installed::{LR_DECAY, is_plugin_path};
use super::key_path::KeyPath;
use super::{Config, DEFAULT_NEGATIVES};

/// Keys that may change when a run resumes: paths, durations, intervals, and keys of monitoring. Every other key
/// decides the values that training produces.
pub(super) const MAY_CHANGE: &[&str] = &[
    "dataset",
    "checkpoint_path",
    "init_path",
    "entities.*.init",
    "entities.*.init_names",
    "num_epochs",
    "checkpoint_interval",
    "checkpoint_preservation_interval",
    "workers",
    "buffer_partitions",
    "eval_num_batch_negs",
    "eval_num_uniform_negs",
    "num_machines",
    "num_partition_servers",
    "distributed_init_method",
    "distributed_tree_init_order",
    "distributed",
    "execution.device",
    "execution.prefetch",
    "execution.partitions_ahead",
    "execution.buckets_ahead",
    "execution.batches_ahead",
    "execution.read_mbps",
    "execution.write_mbps",
    "validation.early_stop",
    "plugins.limits",
    "plugins.on_fault",
    "plugins.grants",
    "plugins.pins",
];

/// Keys that name the strategies of training and set their parameters.
const STRATEGIES: [&str; 6] = [
    "bucket_order",
    "relation_sampler",
    "negative_sampler",
    "loss_fn",
    "plugins.params",
    "margin",
];

/// Keys that define the meaning of a trained model's numbers: read with another value, the same checkpoint is another
/// model. [`MODEL_OF_RELATIONS`] lists the corresponding keys of each entry of `relations`.
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

/// Keys of the model that decide its shape; initial embeddings must have the same values.
const SHAPE: [&str; 3] = ["dimension", "dynamic_relations", "entities"];

/// Keys of [`MODEL`] that only say how the model is trained.
const TRAINING_OF_MODEL: [&str; 1] = ["entities.*.frozen"];

/// First line of the hashed text; must change whenever the format of the text changes.
const FORM: &str = "pbg-host training configuration 3\n";

/// What a file of a plugin is hashed as, wherever it is.
const ANY_FILE: &str = "*.wasm";

/// Keys of the schedule's course.
const LR_COURSE: [&str; 3] = [
    LR_DECAY,
    "lr_schedule.decay_epochs",
    "lr_schedule.final_fraction",
];

impl Config {
    /// Returns the configuration as TOML, without the keys that are unset; [`Config::parse`] reads it back.
    ///
    /// # Errors
    /// When a value cannot be written as TOML; [`Config::check`] reports such values.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// Returns the SHA-256, in hexadecimal, of the keys that must not change when a run resumes. A default that is
    /// written out counts as the default.
    #[must_use]
    pub fn training_hash(&self) -> String {
        let mut text = FORM.to_owned();
        let mut decisive = self.training_keys();
        self.leave_out_later_keys(&mut decisive);
        canonical(&decisive, &mut text);
        hex_digest(&text)
    }

    /// Returns the keys that [`Config::training_hash`] leaves out, with their values as TOML; `unset` without a value.
    #[must_use]
    pub fn keys_outside_training_hash(&self) -> BTreeMap<String, String> {
        // This cannot fail, as in `training_keys`.
        let mut all = serde_json::to_value(self).unwrap_or_default();
        // The hash has other names for those of files.
        remove(&mut all, "formulas");
        let mut outside = leaves(&all);
        for key in leaves(&self.training_keys()).keys() {
            outside.remove(key);
        }
        outside
    }

    /// Returns the differing keys among those that must not change when a run resumes. Empty exactly when the hashes
    /// are equal.
    #[must_use]
    pub fn training_differences(&self, other: &Self) -> Vec<ConfigDifference> {
        self.differences_between(other, None)
    }

    /// Returns [`Config::training_differences`] without the keys of strategies and their parameters. `other_schedule`
    /// says whether the plugin of the learning rate schedule is another one, which its path does not say.
    #[must_use]
    pub fn differences_except_strategies(
        &self,
        other: &Self,
        other_schedule: bool,
    ) -> Vec<ConfigDifference> {
        let mut differences = self.training_differences(other);
        let is_plugin = |config: &Self| config.lr_schedule.plugin().is_some();
        // The other keys of the schedule follow from its course, or have another meaning with another course.
        let is_other = other_schedule || differences.iter().any(|found| found.key == LR_DECAY);
        let schedule: &[&str] = match is_other && (is_plugin(self) || is_plugin(other)) {
            true => &LR_COURSE,
            false => &[],
        };
        let names = || STRATEGIES.into_iter().chain(schedule.iter().copied());
        differences.retain(|difference| !names().any(|key| difference.is_about(key)));
        differences
    }

    /// Returns the differing keys among those that define the meaning of embeddings and parameters, each as in
    /// [`Config::training_differences`].
    #[must_use]
    pub fn model_differences(&self, other: &Self) -> Vec<ConfigDifference> {
        self.differences_of(&MODEL, other)
    }

    /// Like [`Config::model_differences`], restricted to the keys that must agree for embeddings and parameters of one
    /// run to initialise another.
    #[must_use]
    pub fn shape_differences(&self, other: &Self) -> Vec<ConfigDifference> {
        self.differences_of(&SHAPE, other)
    }

    fn differences_of(&self, keys: &[&str], other: &Self) -> Vec<ConfigDifference> {
        self.differences_between(other, Some(keys))
    }

    /// Returns the differing keys among the decisive ones: those among `keys`, and those of relations that belong to the
    /// model, or all.
    fn differences_between(&self, other: &Self, keys: Option<&[&str]>) -> Vec<ConfigDifference> {
        let part = |config: &Self| {
            let mut decisive = config.training_keys();
            remove(&mut decisive, "formulas");
            keys.map_or(decisive.clone(), |keys| only(&decisive, keys))
        };
        let mut differences = Vec::new();
        let (here, there) = (part(self), part(other));
        compare(&here, &there, &KeyPath::default(), &mut differences);
        self.remove_derived_differences(other, &mut differences);
        self.name_files(other, &mut differences);
        // Files with other formulas are told as formulas.
        let as_formulas = self.keys_of_formula_files(other);
        differences.retain(|found| !as_formulas.contains(&found.key));
        let (here, there) = (self.formula_files(), other.formula_files());
        for found in &mut differences {
            write_paths(&here, &mut found.here);
            write_paths(&there, &mut found.other);
        }
        if keys.is_none_or(|keys| keys.contains(&"formulas")) {
            differences.extend(self.formula_differences(other));
        }
        differences
    }

    /// Shows the names of differing strategies as the configurations have them.
    fn name_files(&self, other: &Self, differences: &mut [ConfigDifference]) {
        let names = |config: &Self| {
            [
                ("bucket_order", config.bucket_order.clone()),
                ("relation_sampler", config.relation_sampler.clone()),
                ("negative_sampler", config.negative_sampler.clone()),
                ("loss_fn", config.loss_fn.clone()),
                (LR_DECAY, config.lr_schedule.decay.clone()),
            ]
        };
        for ((key, here), (_, there)) in names(self).into_iter().zip(names(other)) {
            for difference in differences.iter_mut().filter(|found| found.key == key) {
                (difference.here, difference.other) =
                    (shown(&here.clone().into()), shown(&there.clone().into()));
            }
        }
    }

    /// Removes keys that neither configuration sets and that differ only because their defaults follow another key, if
    /// that key is among the differences too.
    fn remove_derived_differences(&self, other: &Self, differences: &mut Vec<ConfigDifference>) {
        let mut follow = Vec::new();
        if self.global_emb.is_none() && other.global_emb.is_none() {
            follow.push(("global_emb".to_owned(), "dynamic_relations"));
        }
        if self.relation_lr.is_none() && other.relation_lr.is_none() {
            follow.push(("relation_lr".to_owned(), "lr"));
        }
        let is_unset = |config: &Self| config.lr_schedule.decay_epochs.is_none();
        if is_unset(self) && is_unset(other) {
            follow.push(("lr_schedule.decay_epochs".to_owned(), "lr_schedule.decay"));
        }
        for (name, entity) in &self.entities {
            let also = other.entities.get(name);
            if entity.dimension.is_none() && also.is_some_and(|also| also.dimension.is_none()) {
                let key = KeyPath::from(["entities", name.as_str(), "dimension"]);
                follow.push((key.to_string(), "dimension"));
            }
        }
        let differ: Vec<String> = differences.iter().map(|found| found.key.clone()).collect();
        let follows = |key: &str| {
            let mut known = follow.iter();
            known.any(|(of, cause)| of == key && differ.iter().any(|differs| differs == cause))
        };
        differences.retain(|found| !follows(&found.key));
    }

    /// Removes keys that are newer than [`FORM`] where their values mean what the program did before it had them, so
    /// that older checkpoints keep their hash.
    fn leave_out_later_keys(&self, decisive: &mut Json) {
        if self.storage.is_default() {
            remove(decisive, "storage");
        }
        if self.optimizer.is_default() {
            remove(decisive, "optimizer");
        }
        if self.relation_prediction == 0.0 {
            remove(decisive, "relation_prediction");
        }
        if self.negative_sampler == DEFAULT_NEGATIVES {
            remove(decisive, "negative_sampler");
        }
        if self.operator_init_scale.is_none() {
            remove(decisive, "operator_init_scale");
        }
        if self.lr_schedule.is_constant() {
            remove(decisive, "lr_schedule");
        }
        if !self.entities.values().any(|entity| entity.frozen) {
            remove(decisive, "entities.*.frozen");
        }
    }

    /// Returns the keys that must not change when a run resumes, with defaults that depend on other keys filled in.
    fn training_keys(&self) -> Json {
        let mut filled = self.clone();
        filled.global_emb = Some(self.has_global_emb());
        filled.relation_lr = Some(self.parameter_lr());
        filled.fix_lr_schedule();
        for formula in filled.formulas.values_mut() {
            *formula = canonical_formula(formula);
        }
        filled.name_formulas_by_content();
        for entity in filled.entities.values_mut() {
            entity.dimension = Some(entity.dimension.unwrap_or(self.dimension));
        }
        // A checkpoint has the bytes of these plugins, by their checksums, and compares them. Their files may move.
        for strategy in [
            &mut filled.bucket_order,
            &mut filled.relation_sampler,
            &mut filled.negative_sampler,
            &mut filled.loss_fn,
            &mut filled.lr_schedule.decay,
        ] {
            if is_plugin_path(strategy) {
                ANY_FILE.clone_into(strategy);
            }
        }
        // This cannot fail: keys are strings, and non-finite numbers become null.
        let mut json = serde_json::to_value(&filled).unwrap_or_default();
        for key in MAY_CHANGE {
            remove(&mut json, key);
        }
        // Validation does not change training unless learning rates depend on its ranks.
        if self.validation.lr_decay.is_none() {
            remove(&mut json, "validation");
        }
        json
    }
}

/// Returns the SHA-256 of a text in hexadecimal.
pub(super) fn hex_digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Returns the entries of `keys`, and the keys of [`MODEL_OF_RELATIONS`] of every relation.
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
    let mut kept = kept.into();
    TRAINING_OF_MODEL
        .iter()
        .for_each(|key| remove(&mut kept, key));
    kept
}

/// Removes a key; `*` stands for every key of a table.
fn remove(json: &mut Json, path: &str) {
    let Json::Object(entries) = json else { return };
    match path.split_once('.') {
        None => drop(entries.remove(path)),
        Some(("*", rest)) => entries.values_mut().for_each(|child| remove(child, rest)),
        Some((first, rest)) => {
            if let Some(child) = entries.get_mut(first) {
                remove(child, rest);
            }
        }
    }
}

/// Writes JSON with sorted keys, since the order of keys in `serde_json` depends on its features.
fn canonical(json: &Json, out: &mut String) {
    match json {
        Json::Object(entries) => {
            out.push('{');
            let sorted: BTreeMap<_, _> = entries.iter().collect();
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
mod tests;
