//! The lines printed before a run starts: dataset, model, memory and checkpoint.

use std::collections::BTreeSet;

use clap::builder::styling::Style;
use pbg_config::Config;
use pbg_core::strategy::Loss as _;
use pbg_core::text::escaped_lines;
use pbg_dataset::DatasetManifest;
use pbg_model::ResolvedConfig;
use pbg_train::Strategies;

use crate::failure::Result;
use crate::terminal::Terminal;
use crate::{format, model_summary};

/// Prints the introduction of a run.
///
/// # Errors
/// When the dataset lacks an edge set.
pub(crate) fn print(
    resolved: &ResolvedConfig,
    strategies: &Strategies,
    terminal: Terminal,
) -> Result<()> {
    let config = resolved.config();
    let needs = pbg_train::check(resolved, Some(strategies))?;
    let memory = format::bytes(pbg_model::memory::total(&needs.memory));
    let lines = [
        ("dataset", graph(config, resolved.dataset().manifest())),
        ("model", model(config, &strategies.loss.id().name)),
        (
            "memory",
            format!("at most {memory}; `pbg-host check` lists its parts"),
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
    let types = manifest.entities.iter();
    let types: Vec<_> = types
        .filter(|(name, _)| config.entities.contains_key(*name))
        .collect();
    let entities: u64 = types.iter().map(|(_, entities)| entities.total()).sum();
    let sets = BTreeSet::from_iter(&config.edge_sets).into_iter();
    let sets = sets.filter_map(|name| manifest.edge_sets.get(name));
    let edges: u64 = sets.map(|set| set.edges).sum();
    format!(
        "{}: {} entities of {}, {}, {} edges in {}",
        config.dataset,
        format::count(entities as f64),
        format::plural(types.len() as u64, "type"),
        format::plural(u64::from(manifest.relations.count), "relation"),
        format::count(edges as f64),
        config.edge_sets.join(", "),
    )
}

fn model(config: &Config, loss: &str) -> String {
    let schedule = model_summary::lr_schedule(config);
    format!(
        "dimension {}, operator {}, comparator {}, loss {}, {} + {} negatives, learning rate {}{}",
        config.dimension,
        model_summary::operators(config),
        model_summary::comparator(config),
        loss,
        config.num_batch_negs,
        config.num_uniform_negs,
        config.lr,
        schedule.map_or(String::new(), |schedule| format!(" ({schedule})")),
    )
}

#[cfg(test)]
mod tests {
    use pbg_core::model::Regularizer;

    use super::*;

    #[test]
    fn choices_are_written_as_in_the_configuration() {
        for regularizer in Regularizer::ALL {
            assert_eq!(model_summary::name(regularizer), regularizer.name());
        }
    }
}
