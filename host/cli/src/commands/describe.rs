//! `pbg-host describe`.

mod tables;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use pbg_dataset::Dataset;
use pbg_dataset::describe::{DescribeOptions, Description, SharedNames};

use crate::failure::Result;
use crate::options::{self, ConfigArgs};
use crate::terminal::{self, Terminal};
use crate::{format, load};

/// Describe a dataset: edges, entities, relations, degrees, duplicates, and overlaps between edge sets.
///
/// Counts the edges, entities, relations, duplicate edges and self-loops of every edge set. Compares the sets with each
/// other: edges that two sets share, and edges whose reverse is in a trained set, so that a model needs only to
/// remember them. Counts the entities and relations of held-out edges that no trained edge has, about which a model can
/// learn nothing. Shows the degrees of entities, the number of connected components, and names that occur in several
/// entity types.
///
/// Graphs may be larger than memory: edges are sorted in as many rounds as necessary, and counts that do not fit into
/// memory are left out with a note.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host describe
  pbg-host describe pbg.toml --relations 50
  pbg-host describe pbg.toml --memory 2G
  pbg-host describe pbg.toml --json")]
pub(crate) struct Args {
    /// Configuration that names the dataset, and its trained sets in `edge_sets`.
    #[command(flatten)]
    config: ConfigArgs,
    /// Number of relations to show, those with the most edges first. JSON contains all.
    #[arg(long, value_name = "N", default_value_t = 10)]
    relations: u32,
    /// Memory for counting, as in `512M` or `2G` [default: three quarters of the free memory].
    #[arg(long, value_name = "SIZE", value_parser = options::bytes)]
    memory: Option<u64>,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the dataset does not exist or is damaged, or there is too little memory.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let config = load::config(&args.config, terminal)?;
    let dataset = Dataset::open(Path::new(&config.dataset)).map_err(pbg_model::RunError::from)?;
    let options = DescribeOptions {
        trained: config.edge_sets.clone(),
        threads: args.threads.map(|n| n as usize),
        memory: args.memory.or_else(pbg_model::memory::default_name_bytes),
    };
    let template = "{human_pos} edges read, {elapsed}";
    let bar = terminal.bar(1, template);
    let described = dataset.describe(&options, &mut |edges| {
        bar.inc(edges);
        bar.tick();
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    let description = described.map_err(pbg_model::RunError::from)?;
    let is_lacking = |name: &&String| !description.trained.contains(name);
    for name in config.edge_sets.iter().filter(is_lacking) {
        terminal.warn(format_args!(
            "{} has no edge set {name}, which the configuration trains",
            config.dataset
        ));
    }
    terminal::print_result(args.json, &description, |out| {
        print(out, &description, args.relations as usize)
    })
}

fn print(out: &mut dyn Write, description: &Description, relations: usize) -> io::Result<()> {
    let trained = match &description.trained[..] {
        [] => "no edge set".to_owned(),
        names => names.join(", "),
    };
    writeln!(out, "{}, trained: {trained}", description.dataset.display())?;
    writeln!(out, "\n{}", tables::edge_sets(description))?;
    if let Some(table) = tables::held_out(description) {
        writeln!(out, "\n{table}")?;
    }
    writeln!(out, "\n{}", tables::entity_types(description))?;
    if let Some(table) = tables::relations(description, relations) {
        writeln!(out, "\n{table}")?;
    }
    writeln!(out)?;
    if let Some(components) = &description.components {
        let largest = components.largest as f64 / components.entities.max(1) as f64;
        writeln!(
            out,
            "components of the trained edges: {}, the largest with {} of {} entities ({:.1} %)",
            components.count,
            components.largest,
            components.entities,
            100.0 * largest
        )?;
    }
    if let Some(line) = shared_names(&description.shared_names) {
        writeln!(out, "{line}")?;
    }
    for what in &description.not_counted {
        writeln!(out, "not counted: {what}")?;
    }
    Ok(())
}

/// Describes in one line the names that occur in several entity types; `None` if there are none.
pub(super) fn shared_names(shared: &SharedNames) -> Option<String> {
    let types = |types: &[String]| match types {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => types.join(", "),
    };
    let example = |example: &pbg_dataset::describe::SharedName| {
        format!("`{}` is in {}", example.name, types(&example.types))
    };
    let examples: Vec<String> = shared.examples.iter().map(example).collect();
    let more = match shared.count > shared.examples.len() as u64 {
        true => ", ...",
        false => "",
    };
    (shared.count > 0).then(|| {
        format!(
            "{} in several entity types: {}{more}",
            format::plural(shared.count, "name"),
            examples.join(", ")
        )
    })
}
