//! `pbg-host neighbors`.

mod related;

use std::path::{Path, PathBuf};

use pbg_store::checkpoint::ReadCheckpoint;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::{Comparing, IndexArgs, TrainedOptions};
use crate::terminal::{self, Terminal};
use crate::{load, notes};

/// List the entities nearest to an entity.
///
/// Compares embeddings with the comparator of the configuration, within the entity type of NAME.
/// One line per neighbour, nearest first: score, tab, name.
///
/// No relation takes part, unless `--relation` names one: then NAME is compared as predictions of that relation are, with
/// its operator applied, as the head with all tails and as the tail with all heads. So known edges are among what is listed
/// (`predict` leaves them out), and the question stands above the neighbours of each side.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "pbg-host neighbors [OPTIONS] [CONFIG|CHECKPOINT] NAME",
    after_help = "\
Examples:
  pbg-host neighbors pbg.toml dog.n.01
  pbg-host neighbors --checkpoint model dog.n.01
  pbg-host neighbors model dog.n.01 --comparator cos
  pbg-host index model && pbg-host neighbors model dog.n.01 --index
  pbg-host neighbors pbg.toml dog.n.01 --relation hypernym
  pbg-host neighbors model dog.n.01 --relation hypernym --asked tail --json
  pbg-host neighbors pbg.toml 'New York' -k 25 --entity-type city --json"
)]
pub(crate) struct Args {
    /// Configuration or folder of a checkpoint, which may be left out [default: that of --checkpoint, otherwise
    /// pbg.toml of the working folder], and the name of an entity, as in the edge lists.
    #[arg(value_names = ["CONFIG|CHECKPOINT", "NAME"], required = true, num_args = 1..=2)]
    names: Vec<PathBuf>,
    /// How many.
    #[arg(short = 'k', long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    neighbors: u32,
    /// Entity type, where several have an entity of this name.
    #[arg(long, value_name = "TYPE")]
    entity_type: Option<String>,
    /// What to compare embeddings with [default: the comparator of the configuration]. `cos` is for models by inner
    /// products, whose long embeddings are near to everything.
    #[arg(long, value_name = "NAME")]
    comparator: Option<Comparing>,
    /// Compare by this relation: what is nearest once its operator was applied.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["entity_type", "comparator"])]
    relation: Option<String>,
    /// Which side of the relation is asked for; NAME is on the other one [default: both].
    #[arg(long, value_name = "SIDE", requires = "relation")]
    asked: Option<Asked>,
    /// Whether by an index.
    #[command(flatten)]
    index: IndexArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Which model.
    #[command(flatten)]
    which: TrainedOptions,
}

/// A side of a relation.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Asked {
    /// What would make an edge to NAME.
    Head,
    /// What NAME would make an edge to.
    Tail,
}

/// Lists them.
///
/// # Errors
/// When the model cannot be opened or the name is unknown.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let (config, name) = match args.names.as_slice() {
        [config, name] => (Some(config.as_path()), name),
        [only] if is_a_model(only) => {
            let text = format!("{} is a model: no entity is named", only.display());
            let help = format!("`pbg-host neighbors {} NAME`", only.display());
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
        [name] => (None, name),
        _ => return Err(Failure::message(FailureKind::Usage, "name an entity")),
    };
    let name = name.to_str().ok_or_else(|| {
        let text = format!("the name {} is not valid UTF-8", name.display());
        Failure::message(FailureKind::Usage, text)
    })?;
    let resolved = load::trained(config, &args.which, terminal)?;
    if let Some(relation) = &args.relation {
        return related::run(args, (name, relation), &resolved, terminal);
    }
    let mut model = resolved.query()?;
    let (count, entity_type) = (args.neighbors as usize, args.entity_type.as_deref());
    let comparator = args.comparator.map(Into::into);
    let found = match args.index.chosen() {
        None => model.neighbors(name, count, entity_type, comparator)?,
        Some(with) => {
            let (found, how) =
                model.neighbors_by_index(name, count, entity_type, comparator, with)?;
            notes::index_use(&how, terminal);
            found
        }
    };
    notes::missing(model.missing(), &resolved, terminal);
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

/// Whether what stands alone is a configuration or a checkpoint, and no name that happens to be that of a file.
fn is_a_model(path: &Path) -> bool {
    let is_config = path.extension().is_some_and(|ending| ending == "toml") && path.is_file();
    is_config || (path.is_dir() && ReadCheckpoint::open(path).is_ok())
}
