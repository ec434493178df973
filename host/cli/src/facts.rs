//! What pages and tables say of the model that a configuration describes.

use std::collections::BTreeSet;

use pbg_config::Config;
use serde::Serialize;
use serde_json::Value;

/// Names and values, in the order in which they are shown.
pub(crate) fn of_model(config: &Config) -> Vec<(String, String)> {
    let mut facts = Facts::default();
    facts.add("dataset", &config.dataset);
    facts.add("dimension", config.dimension);
    let operators = config.relations.iter().map(|r| r.operator.clone());
    facts.add("operator", names(operators));
    facts.add("comparator", name(config.comparator));
    facts.add("loss", &config.loss_fn);
    facts.add("optimizer", name(config.optimizer));
    facts.add("lr", config.lr);
    if let Some(lr) = config.relation_lr {
        facts.add("lr of relations", lr);
    }
    if config.relation_prediction > 0.0 {
        facts.add("relation prediction", config.relation_prediction);
    }
    facts.add("storage", name(config.storage));
    for (plugin, values) in &config.plugins.params {
        let values: Vec<_> = values.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        facts.add(&format!("parameters of {plugin}"), values.join(", "));
    }
    facts.add("epochs", config.num_epochs);
    facts.add("partitions in the buffer", config.buffer_partitions);
    facts.0
}

#[derive(Default)]
struct Facts(Vec<(String, String)>);

impl Facts {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }
}

/// What a value is called in a configuration.
fn name(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        other => other.map(|value| value.to_string()).unwrap_or_default(),
    }
}

/// What there is in a list, each once.
fn names(all: impl Iterator<Item = String>) -> String {
    let all: BTreeSet<String> = all.collect();
    Vec::from_iter(all).join(", ")
}
