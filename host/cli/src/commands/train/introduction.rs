//! The lines printed before a run starts: dataset, model, memory and checkpoint.

use std::collections::BTreeSet;

use clap::builder::styling::Style;
use pbg_config::Config;
use pbg_core::strategy::Loss;
use pbg_core::text::escaped_lines;
use pbg_dataset::DatasetManifest;
use pbg_model::ResolvedConfig;

use crate::failure::Result;
use crate::format;
use crate::terminal::Terminal;

/// Prints the introduction of a run.
///
/// # Errors
/// When the dataset lacks an edge set.
pub(crate) fn print(resolved: &ResolvedConfig, loss: &dyn Loss, terminal: Terminal) -> Result<()> {
    let config = resolved.config();
    let memory: u64 = pbg_train::check(resolved, Some(loss))?
        .memory
        .iter()
        .map(|(_, bytes)| bytes)
        .sum();
    let lines = [
        ("dataset", graph(config, resolved.dataset().manifest())),
        ("model", model(config, &loss.id().name)),
        (
            "memory",
            format!(
                "at most {}; `pbg-host check` lists its parts",
                format::bytes(memory)
            ),
        ),
        ("checkpoint", config.checkpoint_path.clone()),
    ];
    for (label, text) in lines {
        let label = terminal.paint(Style::new().bold(), format_args!("{label:<10}"));
        terminal.print_raw_line(format_args!("{label} {}", escaped_lines(&text)));
    }
    Ok(())
}

fn graph(config: &Config, manifest: &DatasetManifest) -> String {
    let used = |name: &&String| config.entities.contains_key(*name);
    let types = manifest.entities.keys().filter(used).count() as u64;
    let entities: u64 = manifest
        .entities
        .iter()
        .filter(|(name, _)| used(name))
        .map(|(_, t)| t.total())
        .sum();
    let sets = config.edge_sets.iter().collect::<BTreeSet<_>>();
    let edges: u64 = sets
        .iter()
        .filter_map(|name| manifest.edge_sets.get(*name))
        .map(|s| s.edges)
        .sum();
    format!(
        "{}: {} entities of {}, {}, {} edges in {}",
        config.dataset,
        format::count(entities as f64),
        format::plural(types, "type"),
        format::plural(u64::from(manifest.relations.count), "relation"),
        format::count(edges as f64),
        config.edge_sets.join(", "),
    )
}

fn model(config: &Config, loss: &str) -> String {
    let operators: BTreeSet<String> = config
        .relations
        .iter()
        .map(|r| operator(config, &r.operator))
        .collect();
    let operators: Vec<String> = operators.into_iter().collect();
    format!(
        "dimension {}, operator {}, comparator {}, loss {}, {} + {} negatives, learning rate {}",
        config.dimension,
        operators.join(", "),
        word(&config.comparator),
        loss,
        config.num_batch_negs,
        config.num_uniform_negs,
        config.lr,
    )
}

/// Returns the name of an operator; for a component file, the name of its plugin.
fn operator(config: &Config, name: &str) -> String {
    let operator = config.operator(name);
    operator.map_or(name.to_owned(), |operator| operator.name().to_owned())
}

/// Returns the name of a choice in the configuration.
fn word(choice: &impl serde::Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::model::Comparator;

    use super::*;

    #[test]
    fn choices_are_written_as_in_the_configuration() {
        assert_eq!(word(&Comparator::SquaredL2), "squared_l2");
    }
}
