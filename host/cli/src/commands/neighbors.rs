//! `pbg-host neighbors`.

use std::path::PathBuf;

use pbg_train::Resolved;

use crate::failure::Result;
use crate::load;
use crate::options::{ConfigArgs, Overrides};
use crate::terminal::{self, Terminal};

/// List the entities nearest to an entity.
///
/// Compares embeddings with the comparator of the configuration, within the entity type of NAME.
/// One line per neighbour, nearest first: score, tab, name.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host neighbors pbg.toml dog.n.01
  pbg-host neighbors pbg.toml 'New York' -k 25 --entity-type city --json")]
pub(crate) struct Args {
    /// Configuration.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Name of an entity, as in the edge lists.
    #[arg(value_name = "NAME")]
    name: String,
    /// How many.
    #[arg(short = 'k', long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    neighbors: u32,
    /// Entity type, where several have an entity of this name.
    #[arg(long, value_name = "TYPE")]
    entity_type: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Changes to the configuration.
    #[command(flatten)]
    overrides: Overrides,
}

/// Lists them.
///
/// # Errors
/// When the model cannot be opened or the name is unknown.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let which = ConfigArgs {
        config: Some(args.config.clone()),
        overrides: args.overrides.clone(),
    };
    let resolved = Resolved::new(load::config(&which, terminal)?)?;
    let mut model = resolved.query()?;
    let found = model.neighbors(
        &args.name,
        args.neighbors as usize,
        args.entity_type.as_deref(),
    )?;
    if args.json {
        return terminal::print_json(&found);
    }
    terminal::print(|out| {
        for neighbor in &found {
            writeln!(out, "{:.4}\t{}", neighbor.score, neighbor.name)?;
        }
        Ok(())
    })
}
