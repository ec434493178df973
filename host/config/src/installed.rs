//! Names of the available strategies, provided by the caller, which loads them.

use std::collections::BTreeSet;

/// Key that names the learning rate schedule.
pub(super) const LR_DECAY: &str = "lr_schedule.decay";

/// Names that a configuration may give to strategies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrategyNames {
    /// Bucket orders that come with the program, sorted.
    pub orders: Vec<String>,
    /// Relation samplers that come with the program, sorted.
    pub samplers: Vec<String>,
    /// Negative samplers that come with the program, sorted.
    pub negatives: Vec<String>,
    /// Losses that come with the program, sorted.
    pub losses: Vec<String>,
    /// Operators that come with the program, sorted.
    pub operators: Vec<String>,
    /// Comparators that come with the program as plugins, sorted.
    pub comparators: Vec<String>,
    /// Learning rate schedules that come with the program as plugins, sorted.
    pub schedules: Vec<String>,
    /// Components in the user's folders, whose kinds are not known yet.
    pub files: Vec<String>,
}

impl StrategyNames {
    /// Returns all names.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        let kinds = [
            &self.orders,
            &self.samplers,
            &self.negatives,
            &self.losses,
            &self.operators,
            &self.comparators,
            &self.schedules,
            &self.files,
        ];
        kinds.into_iter().flatten().cloned().collect()
    }

    /// Returns the standard strategies for a key of the configuration; empty for a key that does not name a strategy.
    pub(super) fn standard(&self, key: &str) -> &[String] {
        match key {
            "bucket_order" => &self.orders,
            "relation_sampler" => &self.samplers,
            "negative_sampler" => &self.negatives,
            "loss_fn" => &self.losses,
            "operator" => &self.operators,
            "comparator" => &self.comparators,
            LR_DECAY | "decay" => &self.schedules,
            _ => &[],
        }
    }

    /// Returns the kind and key of the standard strategy `name` if it belongs to a key other than `key`.
    pub(super) fn other_kind(
        &self,
        key: &str,
        name: &String,
    ) -> Option<(&'static str, &'static str)> {
        let kinds = [
            ("a bucket order", "bucket_order"),
            ("a relation sampler", "relation_sampler"),
            ("a negative sampler or selector", "negative_sampler"),
            ("a loss", "loss_fn"),
            ("an operator", "operator"),
            ("a comparator", "comparator"),
            ("a learning rate schedule", LR_DECAY),
        ];
        let mut others = kinds.into_iter().filter(|(_, of)| *of != key);
        others.find(|(_, of)| self.standard(of).contains(name))
    }

    /// Returns whether `name` is a valid value of `key` that is not a path.
    pub(super) fn has(&self, key: &str, name: &String) -> bool {
        self.standard(key).contains(name) || self.files.contains(name)
    }

    /// Returns the description of `key`, followed by its standard strategies.
    pub(super) fn describe(&self, key: &str, description: &str) -> String {
        match self.standard(key) {
            [] => description.to_owned(),
            names => format!("{description} Standard ones: `{}`.", names.join("`, `")),
        }
    }
}

/// Returns whether the name of a strategy is the path of a component.
pub fn is_plugin_path(name: &str) -> bool {
    name.contains(['/', std::path::MAIN_SEPARATOR]) || name.ends_with(".wasm")
}
