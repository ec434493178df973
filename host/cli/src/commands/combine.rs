//! `pbg-host combine`.

use std::path::PathBuf;

use indicatif::ProgressBar;
use pbg_query::Combination;
use pbg_session::combine;

use crate::bars;
use crate::failure::Result;
use crate::terminal::{self, Terminal};

/// Combine several models into one, by averaging or by adding their scores.
///
/// `average` takes the mean of embeddings and parameters. Use it for versions of one run, as
/// `checkpoint_preservation_interval` keeps them: the mean of the last versions ranks better than each of them, about
/// as if the learning rate had decreased. Models of different seeds cannot be averaged, since their embeddings are not
/// aligned.
///
/// `concatenate` concatenates embeddings, so that the score of an edge is the sum of its scores in all models. Use it
/// for models that were trained separately with different seeds, which make different errors; dimensions, losses and
/// learning rates may differ. It needs the comparator `dot` or `squared_l2`, operators that are matrices or work
/// element by element, and no `bias`. The matrices of a result are as large as all models' together.
///
/// The result is an ordinary checkpoint, which all commands accept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host combine average model --last 8 --out model/mean
  pbg-host combine average model/epoch_20 model/epoch_30 --out mean
  pbg-host combine concatenate seed_1 seed_2 seed_3 --out sum
  pbg-host eval sum --edges test --filter train,valid,test")]
pub(crate) struct Args {
    /// Method of combination.
    #[arg(value_name = "average|concatenate")]
    how: CombinationArg,
    /// Folders of at least two checkpoints; with --last, the checkpoint folder of a run.
    #[arg(value_name = "CHECKPOINT", required = true)]
    checkpoints: Vec<PathBuf>,
    /// Combine the last N copies of checkpoints that the run has kept after epochs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    last: Option<u32>,
    /// Folder for the result; it must not contain a checkpoint.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Method of combining models.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CombinationArg {
    /// Mean of embeddings and parameters.
    Average,
    /// Concatenation of embeddings, which adds scores.
    Concatenate,
}

/// Runs the command.
///
/// # Errors
/// When a checkpoint cannot be read, the models cannot be combined, or the result cannot be written.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let combination = match args.how {
        CombinationArg::Average => Combination::Average,
        CombinationArg::Concatenate => Combination::Concatenate,
    };
    let models = combine::models(args.checkpoints.clone(), args.last)?;
    let bar = terminal.shown(ProgressBar::new(1));
    let combined = combine::combine(
        combination,
        &models,
        &args.out,
        &terminal,
        &mut |done, of| bars::advance(&bar, done, of),
    );
    bar.finish_and_clear();
    let dimension = combined?.config().dimension;
    let (out, count) = (args.out.display(), models.len());
    terminal::print(|to| match args.how {
        CombinationArg::Average => writeln!(to, "wrote {out}: the mean of {count} models"),
        CombinationArg::Concatenate => {
            writeln!(to, "wrote {out}: {count} models, dimension {dimension}")
        }
    })
}
