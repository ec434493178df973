//! `pbg-host train`.

mod cluster;
mod introduction;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pbg_core::event::Event;
use pbg_files::remote;
use pbg_model::error::JoinError;
use pbg_model::{ErrorKind, ResolvedConfig, RunError};
use pbg_train::RunOutcome;

use crate::failure::{Failure, Result};
use crate::interrupt::StopUnit;
use crate::kind::FailureKind;
use crate::metrics_server::MetricsServer;
use crate::options::{AllowArgs, ConfigArgs};
use crate::plugins::{self, StrategyOverrides};
use crate::progress::{self, ProgressMode};
use crate::tensorboard::EventFile;
use crate::terminal::Terminal;
use crate::training_metrics::TrainingMetrics;
use crate::{interrupt, load};

/// Train a model, or resume training where an earlier run stopped.
///
/// Trains all epochs of the configuration and saves checkpoints meanwhile. If a checkpoint exists,
/// training resumes from it: after an interruption, a crash or a power failure, run the same command
/// again; to train longer, increase `num_epochs`.
///
/// Ctrl-C finishes the current bucket, saves, and exits. If the graph has a single partition, training
/// stops after the current batches instead, and the same command resumes there. A second Ctrl-C waits
/// at most 2 seconds for that, and a third exits at once; the work since the last checkpoint is then
/// lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host train
  pbg-host train pbg.toml --plugin inside_out.wasm
  pbg-host train pbg.toml --set num_epochs=10 --set lr=0.05
  pbg-host train model --set num_epochs=20
  pbg-host train pbg.toml --progress json > events.jsonl")]
pub(crate) struct Args {
    /// Arguments that name the configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Use this plugin instead of the configured strategy of its kind: a .wasm file, or the name of a
    /// standard plugin; can be repeated.
    #[arg(long = "plugin", value_name = "FILE|NAME")]
    plugins: Vec<String>,
    /// Allowed differences from the run that trained the checkpoint.
    #[command(flatten)]
    allow: AllowArgs,
    /// Rank of this trainer in a distributed run, from 0; rank 0 starts the server by which the
    /// trainers find each other [default: the rank in the environment with `env://`].
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// How to show progress.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: ProgressMode,
    /// Also write event files for TensorBoard into this folder.
    #[arg(long, value_name = "FOLDER")]
    tensorboard: Option<PathBuf>,
    /// Answer HTTP requests for /metrics at this address with figures of the run, in the format of OpenMetrics that
    /// Prometheus reads; port 0 chooses a free one.
    ///
    /// There is no password and no encryption, so an address of the machine itself is needed, such as 127.0.0.1:9600,
    /// unless `distributed.insecure = true`.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_listen: Option<SocketAddr>,
}

/// Runs the command.
///
/// # Errors
/// The failure or interruption that ended the run early.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let mut config = load::without_formulas(&args.config, terminal)?;
    let quiet = matches!(args.progress, ProgressMode::None);
    let faults = match remote::as_url(Path::new(&config.checkpoint_path)) {
        // Replays of a plugin's faults are for its author, who is here.
        Some(_) => PathBuf::from("faults"),
        None => Path::new(&config.checkpoint_path).join("faults"),
    };
    let mut reporter = progress::reporter(args.progress, terminal);
    let watch = interrupt::watch_training(StopUnit::of(&config), reporter.announcer())?;
    let stop = &watch.stop;
    let given = plugins::given_formulas(&mut config, &args.plugins, Some(stop), &terminal)?;
    let named = StrategyOverrides::named(&given.others);
    let filled = plugins::fill(&config, named, Some(faults), Some(stop), &terminal)?;
    filled.warnings.iter().for_each(|text| terminal.warn(text));
    let resolved = ResolvedConfig::new(config)?;
    resolved.check_checkpoint_path()?;
    print_advice(&resolved, terminal);
    if !quiet {
        introduction::print(&resolved, &filled.strategies, terminal)?;
    }
    let curves = args.tensorboard.as_deref();
    let mut curves = curves.map(EventFile::create).transpose()?;
    let board = reporter.status_board();
    let metrics = Arc::new(TrainingMetrics::new());
    let listen = args.metrics_listen;
    let insecure = resolved.config().distributed.insecure;
    let served =
        listen.map(|at| MetricsServer::start(at, insecure, Arc::clone(&metrics), terminal));
    let served = served.transpose()?;
    let tell = reporter.teller();
    let counted = Arc::clone(&metrics);
    let teller: Arc<dyn Fn(&Event) + Send + Sync> = Arc::new(move |event| {
        counted.event(event);
        tell(event);
    });
    let mut emit = |event| {
        for line in filled.log.drain() {
            reporter.event(&line);
        }
        reporter.event(&event);
        metrics.event(&event);
        if let Some(curves) = &mut curves {
            curves.event(&event);
        }
    };
    let meeting = cluster::connect(resolved.config(), args.rank, stop, terminal, &teller)?;
    let shown = meeting.as_ref().zip(board);
    let shown = shown.map(|(meeting, board)| meeting.show(resolved.config(), board));
    let shown = shown.transpose()?;
    let own = meeting.as_ref();
    let own = own.map(|meeting| meeting.own_server(&resolved, terminal));
    let own = own.transpose()?.flatten();
    let allowed = args.allow.allowed();
    let outcome = match &meeting {
        None => pbg_train::train(&resolved, filled.strategies, allowed, stop, &mut emit),
        Some(meeting) => {
            let cluster = meeting.cluster(resolved.config(), own.as_ref(), teller);
            pbg_distributed::train_distributed(
                &resolved,
                filled.strategies,
                &cluster,
                allowed,
                stop,
                &mut emit,
            )
        }
    };
    // The last log lines of a plugin may explain its failure.
    for line in filled.log.drain() {
        reporter.event(&line);
    }
    drop((shown, own, served));
    watch.wait_for_message();
    reporter.close();
    let checkpoint = &resolved.config().checkpoint_path;
    let outcome = outcome.inspect_err(|error| {
        // A ledger that did not answer cannot tell whether other trainers are left.
        let is_silent = matches!(error, RunError::Cluster(JoinError::Interrupted { .. }));
        if !is_silent {
            meeting.iter().for_each(cluster::ClusterConnection::abandon);
        }
        if error.kind() == ErrorKind::Interrupted {
            terminal.print_line(format_args!(
                "stopped ({error}): {checkpoint} contains all work up to its last commit; the same command \
                 resumes"
            ));
        }
    })?;
    curves.map_or(Ok(()), EventFile::close)?;
    if let Some(meeting) = &meeting {
        meeting.stop_idle_server(&outcome, terminal)?;
    }
    let several = meeting
        .as_ref()
        .is_some_and(cluster::ClusterConnection::is_shared);
    report_outcome(outcome, several, checkpoint, terminal)
}

/// Warns about settings that probably do not have the effect that the user expects.
fn print_advice(resolved: &ResolvedConfig, terminal: Terminal) {
    let mut advice = resolved.advice();
    if resolved.config().is_distributed() {
        advice.extend(pbg_distributed::distributed_warnings(resolved));
    }
    advice.iter().for_each(|text| terminal.warn(text));
}

/// Prints how training ended, with a single trainer or with `several`.
fn report_outcome(
    outcome: RunOutcome,
    several: bool,
    checkpoint: &str,
    terminal: Terminal,
) -> Result<()> {
    match outcome {
        RunOutcome::Finished { version } => {
            terminal.detail(format_args!("finished: checkpoint version {version}"));
            Ok(())
        }
        RunOutcome::Interrupted { .. } if several => {
            terminal.print_line(
                "left the run: the work of this trainer is settled; the same command joins again",
            );
            Err(Failure::message(FailureKind::Interrupted, "interrupted"))
        }
        RunOutcome::Interrupted { version } => {
            terminal.print_line(format_args!(
                "stopped; checkpoint version {version} in {checkpoint} contains everything trained so far; \
                 the same command resumes"
            ));
            Err(Failure::message(FailureKind::Interrupted, "interrupted"))
        }
    }
}
