//! `pbg-host train`.

mod introduction;
mod together;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pbg_core::event::Event;
use pbg_train::{ClusterError, ErrorKind, Outcome, Resolved, RunError};

use crate::failure::{Failure, Result};
use crate::interrupt::Unit;
use crate::kind::FailureKind;
use crate::options::{AllowArgs, ConfigArgs};
use crate::plugins::{self, Given};
use crate::progress::{self, Mode};
use crate::tensorboard::EventFile;
use crate::terminal::Terminal;
use crate::{interrupt, load};

/// Train, or go on where an earlier run stopped.
///
/// Trains every epoch that the configuration asks for and saves a checkpoint on the way. If there is
/// a checkpoint already, training goes on from it: after an interruption, a crash or a power cut the
/// same command resumes, and raising `num_epochs` trains on.
///
/// Ctrl-C finishes the current bucket, saves, and ends; where the graph has one partition, it ends
/// behind the current batches, and the same command goes on from there. A second Ctrl-C waits 2
/// seconds at most for that, and a third not at all: what was trained since the last checkpoint is
/// lost then.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host train
  pbg-host train pbg.toml --plugin inside_out.wasm
  pbg-host train pbg.toml --set num_epochs=10 --set lr=0.05
  pbg-host train model --set num_epochs=20
  pbg-host train pbg.toml --progress json > events.jsonl")]
pub(crate) struct Args {
    /// Which configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Component that takes the place of a standard strategy: a .wasm file, or the name of a
    /// standard plugin; can be repeated. Which slot it fills is written in it.
    #[arg(long = "plugin", value_name = "FILE|NAME")]
    plugins: Vec<String>,
    /// What may differ from what trained the checkpoint.
    #[command(flatten)]
    allow: AllowArgs,
    /// Which of several trainers this is, from 0; rank 0 starts the server by which they find each
    /// other. [default: with `env://`, that of the environment]
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// How to show what happens.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: Mode,
    /// Also write event files for TensorBoard into this folder.
    #[arg(long, value_name = "FOLDER")]
    tensorboard: Option<PathBuf>,
}

/// Trains.
///
/// # Errors
/// Whatever ends the run before its end, an interruption included.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let mut config = load::config(&args.config, terminal)?;
    let quiet = matches!(args.progress, Mode::None);
    let faults = Path::new(&config.checkpoint_path).join("faults");
    let mut reporter = progress::reporter(args.progress, terminal);
    let watch = interrupt::watch_training(Unit::of(&config), reporter.announcer())?;
    let stop = &watch.stop;
    let given = plugins::given_operators(&mut config, &args.plugins, Some(stop), &terminal)?;
    let named = Given::named(&given);
    let filled = plugins::fill(&config, named, Some(faults), Some(stop), &terminal)?;
    filled.warnings.iter().for_each(|text| terminal.warn(text));
    let resolved = Resolved::new(config)?;
    resolved.check_checkpoint_path()?;
    advise(&resolved, terminal);
    if !quiet {
        introduction::print(&resolved, &filled.strategies.loss, terminal)?;
    }
    let curves = args.tensorboard.as_deref();
    let mut curves = curves.map(EventFile::create).transpose()?;
    let board = reporter.board();
    let teller: Arc<dyn Fn(&Event) + Send + Sync> = Arc::from(reporter.teller());
    let mut emit = |event| {
        for line in filled.log.drain() {
            reporter.event(&line);
        }
        reporter.event(&event);
        if let Some(curves) = &mut curves {
            curves.event(&event);
        }
    };
    let meeting = together::meet(resolved.config(), args.rank, stop, terminal, &teller)?;
    let shown = meeting.as_ref().zip(board);
    let shown = shown.map(|(meeting, board)| meeting.show(resolved.config(), board));
    let shown = shown.transpose()?;
    let allowed = args.allow.allowed();
    let outcome = match &meeting {
        None => resolved.train(filled.strategies, allowed, stop, &mut emit),
        Some(meeting) => {
            let cluster = meeting.cluster(resolved.config(), teller);
            resolved.train_together(filled.strategies, &cluster, allowed, stop, &mut emit)
        }
    };
    // What a plugin said last explains its failure.
    for line in filled.log.drain() {
        reporter.event(&line);
    }
    drop(shown);
    watch.wait_for_promise();
    reporter.close();
    let checkpoint = &resolved.config().checkpoint_path;
    let outcome = outcome.inspect_err(|error| {
        // A ledger that did not answer cannot say either whether anybody is left.
        let is_silent = matches!(error, RunError::Cluster(ClusterError::Interrupted { .. }));
        if !is_silent {
            meeting.iter().for_each(together::Meeting::abandon);
        }
        if error.kind() == ErrorKind::Interrupted {
            terminal.say(format_args!(
                "stopped ({error}): {checkpoint} holds everything up to its last commit, and the same \
                 command resumes"
            ));
        }
    })?;
    curves.map_or(Ok(()), EventFile::close)?;
    if let Some(meeting) = &meeting {
        meeting.end(&outcome, terminal)?;
    }
    tell(outcome, meeting.is_some(), checkpoint, terminal)
}

/// Says what of the configuration may not be as its user thinks.
fn advise(resolved: &Resolved, terminal: Terminal) {
    let mut advice = resolved.advice();
    if resolved.config().distributed_init_method.is_some() {
        advice.extend(resolved.advice_for_several());
    }
    advice.iter().for_each(|text| terminal.warn(text));
}

/// Says how training ended, alone or as one of `several` trainers.
fn tell(outcome: Outcome, several: bool, checkpoint: &str, terminal: Terminal) -> Result<()> {
    match outcome {
        Outcome::Finished { version } => {
            terminal.detail(format_args!("finished: checkpoint version {version}"));
            Ok(())
        }
        Outcome::Interrupted { .. } if several => {
            terminal.say(
                "left the run: what this trainer has trained is settled, and the same command takes part again",
            );
            Err(Failure::message(FailureKind::Interrupted, "interrupted"))
        }
        Outcome::Interrupted { version } => {
            terminal.say(format_args!(
                "stopped; checkpoint version {version} in {checkpoint} holds everything trained so far: \
                 the same command resumes"
            ));
            Err(Failure::message(FailureKind::Interrupted, "interrupted"))
        }
    }
}
