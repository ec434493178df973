//! Summary of the model that a configuration describes, for pages and tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pbg_config::{Config, is_plugin_path};
use pbg_core::lr_schedule::{LrDecay, LrSchedule};
use pbg_core::model::{Comparator, Operator};
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
    facts.add("operator", operators(config));
    if let Some(scale) = config.operator_init_scale {
        facts.add("operators start", format!("at random, {scale}"));
    }
    facts.add("comparator", comparator(config));
    let configured = plugin_name(&config.loss_fn);
    facts.add("loss", loss.unwrap_or(&configured));
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

/// Returns the names of the operators of all relations.
#[must_use]
pub fn operators(config: &Config) -> String {
    names(config.relations.iter().map(|relation| {
        let formula = config.operator(&relation.operator);
        of_formula(
            &relation.operator,
            formula.ok().as_ref().map(Operator::name),
        )
    }))
}

/// Returns the name of the comparator.
#[must_use]
pub fn comparator(config: &Config) -> String {
    let formula = config.comparator();
    of_formula(
        &config.comparator,
        formula.ok().as_ref().map(Comparator::name),
    )
}

/// Returns the name of a formula that the configuration calls `name`; for the file of a component, that of its plugin.
fn of_formula(name: &str, plugin: Option<&str>) -> String {
    match plugin {
        Some(plugin) if is_plugin_path(name) => plugin.to_owned(),
        _ => plugin_name(name),
    }
}

/// Returns the name by which a configuration refers to a plugin without its folder: that of its file, without `.wasm`.
fn plugin_name(name: &str) -> String {
    let stem = Path::new(name).file_stem().filter(|_| is_plugin_path(name));
    stem.map_or_else(
        || name.to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
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
            let name = plugin_name(&config.lr_schedule.decay);
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
fn names(all: impl Iterator<Item = String>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A page names plugins as people do, whether a configuration names them or their files.
    #[test]
    fn plugins_have_names_and_no_paths() {
        let text = "dataset = 'data'\ncheckpoint_path = 'model'\ndimension = 8\n\
                    loss_fn = 'home/me/plugins/wide.wasm'\ncomparator = 'plugins/boxes.wasm'\n\
                    [entities.a]\nnum_partitions = 1\n\
                    [[relations]]\nname = 'r'\nlhs = 'a'\nrhs = 'a'\noperator = 'none'\n";
        let mut config = Config::parse(text, "pbg.toml", &[]).unwrap();
        let formula = r#"{"name": "box distance", "components": 1, "score": 3,
            "nodes": [{"component": 0}, {"component": 1}, {"binary": ["mul", 0, 1]}, {"sum": 2}]}"#;
        let value = |config: &Config, name: &str| {
            let facts = model_summary(config, None);
            facts.into_iter().find(|(of, _)| of == name).unwrap().1
        };
        assert_eq!(value(&config, "loss"), "wide");
        assert_eq!(value(&config, "comparator"), "boxes");
        let formulas = &mut config.formulas;
        formulas.insert("plugins/boxes.wasm".to_owned(), formula.to_owned());
        assert_eq!(value(&config, "comparator"), "box distance");
        config.comparator = "boxes".to_owned();
        config
            .formulas
            .insert("boxes".to_owned(), formula.to_owned());
        assert_eq!(value(&config, "comparator"), "boxes");
    }
}
