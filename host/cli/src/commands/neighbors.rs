//! `pbg-host neighbors`.

mod by_relation;

use std::path::{Path, PathBuf};

use pbg_checkpoint::ReadCheckpoint;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::{ComparatorArg, IndexArgs, TrainedOptions};
use crate::terminal::{self, Terminal};
use crate::{load, model_notes};

/// List the entities nearest to an entity.
///
/// Compares embeddings with the comparator of the configuration, within the entity type of NAME. Where the sides matter to
/// the comparator, as to a formula of boxes, NAME is on the right and the candidates are on the left.
/// Prints one line per neighbour, nearest first: score, tab, name.
///
/// With `--relation`, NAME is compared as in predictions of that relation, with its operator applied: as the head with
/// all tails, and as the tail with all heads. The neighbours then include known edges (`predict` leaves them out), and
/// the question is printed above the neighbours of each side.
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
    /// Optional configuration file or folder of a checkpoint [default: the configuration of --checkpoint, otherwise
    /// pbg.toml in the working folder], and the name of an entity, as in the edge lists.
    #[arg(value_names = ["CONFIG|CHECKPOINT", "NAME"], required = true, num_args = 1..=2)]
    names: Vec<PathBuf>,
    /// Number of neighbours.
    #[arg(short = 'k', long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    neighbors: u32,
    /// Entity type, if several types have an entity of this name.
    #[arg(long, value_name = "TYPE")]
    entity_type: Option<String>,
    /// Comparator of embeddings [default: the comparator of the configuration]. Use `cos` for models with inner
    /// products, in which long embeddings are near to everything.
    #[arg(long, value_name = "NAME")]
    comparator: Option<ComparatorArg>,
    /// Compare by this relation: list the nearest entities after its operator is applied.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["entity_type", "comparator"])]
    relation: Option<String>,
    /// Side of the relation to list; NAME is on the other side [default: both].
    #[arg(long, value_name = "SIDE", requires = "relation")]
    asked: Option<SideArg>,
    /// Options for the use of an index.
    #[command(flatten)]
    index: IndexArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Options that name the model.
    #[command(flatten)]
    options: TrainedOptions,
}

/// Side of a relation.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SideArg {
    /// Entities with an edge to NAME.
    Head,
    /// Entities to which NAME has an edge.
    Tail,
}

/// Runs the command.
///
/// # Errors
/// When the model cannot be opened or the name is unknown.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let (config, name) = match args.names.as_slice() {
        [config, name] => (Some(config.as_path()), name),
        [only] if is_a_model(only) => {
            let text = format!(
                "{} is a model, and the name of an entity is missing",
                only.display()
            );
            let help = format!("`pbg-host neighbors {} NAME`", only.display());
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
        [name] => (None, name),
        _ => return Err(Failure::message(FailureKind::Usage, "no entity is given")),
    };
    let name = name.to_str().ok_or_else(|| {
        let text = format!("the name {} is not valid UTF-8", name.display());
        Failure::message(FailureKind::Usage, text)
    })?;
    let resolved = load::trained_at(config, &args.options, terminal)?;
    if let Some(relation) = &args.relation {
        return by_relation::run(args, name, relation, &resolved, terminal);
    }
    let mut model = pbg_query::QueryModel::open(&resolved)?;
    let (count, entity_type) = (args.neighbors as usize, args.entity_type.as_deref());
    let comparator = args.comparator.map(Into::into);
    let found = match args.index.index_options() {
        None => model.neighbors(name, count, entity_type, comparator)?,
        Some(with) => {
            let (found, how) =
                model.neighbors_by_index(name, count, entity_type, comparator, with)?;
            model_notes::index_use(&how, terminal);
            found
        }
    };
    model_notes::warn_about_missing_rows(model.missing(), &resolved, terminal);
    terminal::print_result(args.json, &found, |out| {
        let found = &mut found.iter();
        found.try_for_each(|near| writeln!(out, "{:.4}\t{}", near.score, near.name))
    })
}

/// Returns whether a single argument is a configuration or a checkpoint, and not an entity whose name is also that of a
/// file.
fn is_a_model(path: &Path) -> bool {
    let is_config = path.extension().is_some_and(|ending| ending == "toml") && path.is_file();
    is_config || (pbg_session::load::is_folder(path) && ReadCheckpoint::open(path).is_ok())
}
