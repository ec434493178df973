//! `pbg-host combine`.

use std::path::PathBuf;

use indicatif::ProgressBar;
use pbg_session::combine;
use pbg_train::Combination;

use crate::failure::Result;
use crate::terminal::{self, Terminal};

/// Make one model of several: the mean of versions of a run, or one whose scores are the sums of theirs.
///
/// `average` takes the mean of embeddings and parameters. It is for versions of one run, as `checkpoint_preservation_interval`
/// keeps them: the mean of the last ones ranks better than any of them, about as if the learning rate had fallen. Models of
/// different seeds have no mean: their numbers mean different things.
///
/// `concatenate` sets embeddings side by side, so that the score of an edge is the sum of its scores. It is for models that
/// were trained apart, with seeds of their own, which err on different edges; dimensions, losses and learning rates may
/// differ. It needs `dot` or `squared_l2`, operators that work element by element, and no `bias`.
///
/// The result is a checkpoint like any other: every command takes it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host combine average model --last 8 --out model/mean
  pbg-host combine average model/epoch_20 model/epoch_30 --out mean
  pbg-host combine concatenate seed_1 seed_2 seed_3 --out sum
  pbg-host eval sum --edges test --filter train,valid,test")]
pub(crate) struct Args {
    /// What becomes of them.
    #[arg(value_name = "average|concatenate")]
    how: How,
    /// Folders of checkpoints, at least two; with --last one of a run.
    #[arg(value_name = "CHECKPOINT", required = true)]
    checkpoints: Vec<PathBuf>,
    /// Take the last N versions that the run has kept of ends of epochs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    last: Option<u32>,
    /// Folder for the result, which has no checkpoint yet.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// What becomes of several models.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum How {
    /// Their mean.
    Average,
    /// Embeddings side by side: scores add up.
    Concatenate,
}

/// Combines.
///
/// # Errors
/// When a checkpoint cannot be read, they do not fit each other, or the result cannot be written.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let combination = match args.how {
        How::Average => Combination::Average,
        How::Concatenate => Combination::Concatenate,
    };
    let models = combine::models(args.checkpoints.clone(), args.last)?;
    let bar = match terminal.interactive {
        true => ProgressBar::new(1),
        false => ProgressBar::hidden(),
    };
    let combined = combine::combine(
        combination,
        &models,
        &args.out,
        &terminal,
        &mut |done, of| {
            bar.set_length(of);
            bar.set_position(done);
        },
    );
    bar.finish_and_clear();
    let dimension = combined?.config().dimension;
    let (out, count) = (args.out.display(), models.len());
    terminal::print(|to| match args.how {
        How::Average => writeln!(to, "wrote {out}: the mean of {count} models"),
        How::Concatenate => writeln!(to, "wrote {out}: {count} models, dimension {dimension}"),
    })
}
