//! Summary of the model that a configuration describes, for pages and tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pbg_config::Config;
use pbg_core::lr_schedule::{LrDecay, LrSchedule};
use serde::Serialize;
use serde_json::Value;

/// Returns names and values in the order of display. `loss` is the loss used in training if `--plugin` replaced the
/// configured one.
#[must_use]
pub fn model_summary(config: &Config, loss: Option<&str>) -> Vec<(String, String)> {
    let mut facts = SummaryBuilder::default();
    facts.add(
        "dataset",
        normalized_path(Path::new(&config.dataset)).display(),
    );
    facts.add("dimension", config.dimension);
    let operators = config.relations.iter().map(|r| r.operator.clone());
    facts.add("operator", names(operators));
    if let Some(scale) = config.operator_init_scale {
        facts.add("operators start", format!("at random, {scale}"));
    }
    facts.add("comparator", &config.comparator);
    facts.add("loss", loss.unwrap_or(&config.loss_fn));
    facts.add("optimizer", name(config.optimizer));
    facts.add("lr", config.lr);
    if let Some(lr) = config.relation_lr {
        facts.add("lr of relations", lr);
    }
    if let Some(schedule) = lr_schedule(config) {
        facts.add("lr schedule", schedule);
    }
    if config.regularization_coef > 0.0 {
        let (kind, weight) = (name(config.regularizer), config.regularization_coef);
        facts.add("regularizer", format!("{weight} x {kind}"));
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
struct SummaryBuilder(Vec<(String, String)>);

impl SummaryBuilder {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }
}

/// Describes the schedule of the learning rates; `None` if they are the same in all passes.
#[must_use]
pub fn lr_schedule(config: &Config) -> Option<String> {
    let LrSchedule {
        warmup_epochs,
        decay,
        decay_epochs,
        final_fraction,
    } = config.lr_schedule()?;
    let mut parts = Vec::new();
    if warmup_epochs > 0.0 {
        parts.push(format!("warm-up until epoch {warmup_epochs}"));
    }
    match decay {
        LrDecay::Constant => {}
        LrDecay::Linear | LrDecay::Cosine => parts.push(format!(
            "{} decay to {final_fraction} of it by epoch {decay_epochs}",
            decay.name()
        )),
        LrDecay::Plugin => {
            let file = Path::new(&config.lr_schedule.decay).file_name();
            let name = file.unwrap_or_default().to_string_lossy();
            parts.push(format!("schedule {name} until epoch {decay_epochs}"));
        }
    }
    Some(parts.join(", "))
}

/// Returns the name of a value in a configuration.
#[must_use]
pub fn name(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        other => other.map(|value| value.to_string()).unwrap_or_default(),
    }
}

/// Joins the distinct names, sorted.
#[must_use]
pub fn names(all: impl Iterator<Item = String>) -> String {
    let all: BTreeSet<String> = all.collect();
    Vec::from_iter(all).join(", ")
}

/// Removes `..` from the middle of a path if the result is the same folder. After a symbolic link it may not be.
fn normalized_path(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in path.components() {
        match (part, short.components().next_back()) {
            (Component::ParentDir, Some(Component::Normal(_))) => {
                short.pop();
            }
            (Component::CurDir, _) => {}
            (part, _) => short.push(part),
        }
    }
    let same = |a: &Path, b: &Path| Some(fs::canonicalize(a).ok()? == fs::canonicalize(b).ok()?);
    match same(path, &short) {
        Some(true) => short,
        _ => path.to_owned(),
    }
}
