//! `pbg-host plugin replay`.

use std::path::PathBuf;

use pbg_core::limits::PluginLimits;
use pbg_wasm::{Grant, Limits, Replay};

use crate::failure::{Failure, Result};
use crate::front;
use crate::kind::FailureKind;
use crate::limits::LimitArgs;
use crate::plugins::{search_path, uncached};
use crate::terminal::{self, Terminal};

/// Ask a plugin again what it was asked when it failed.
///
/// A plugin that fails while training leaves the arguments of the failing call in the folder
/// `faults` of the checkpoint. The exit code is 6 if it fails again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin replay model/faults/my_order-plan-1.json
  pbg-host plugin replay model/faults/my_order-plan-1.json --plugin target/plugins/my_order.wasm")]
pub(crate) struct Args {
    /// File in the folder `faults` of a checkpoint.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Ask this plugin instead of the one that failed: one that was mended.
    #[arg(long, value_name = "FILE|NAME")]
    plugin: Option<String>,
    /// Folder that the plugin may read; can be repeated.
    #[arg(long = "read", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Limits of the plugin, where they are to be others than those it had.
    #[command(flatten)]
    limits: LimitArgs,
}

/// Asks.
///
/// # Errors
/// When the file cannot be read, the plugin is another one, or it fails again.
pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let (file, other, folders) = (&args.file, args.plugin.as_deref(), &args.folders);
    let replay = Replay::read(file).map_err(|error| Failure::new(FailureKind::Usage, error))?;
    let name = &replay.plugin.name;
    let grant = Grant {
        plugin: name.clone(),
        read: folders.clone(),
    };
    let mut limits = PluginLimits::from(&replay.limits);
    args.limits.apply(&mut limits)?;
    let sandbox = uncached(Limits::from(&limits), &terminal)?
        .with_log(front::said(terminal))
        .with_grants(vec![grant]);
    let plugin = sandbox.open(search_path().resolve(other.unwrap_or(&replay.source))?)?;
    if other.is_none() && plugin.id() != replay.plugin {
        let text = format!("{} is no longer the {name} that failed", replay.source);
        let help = "`--plugin FILE` asks another one the same";
        return Err(Failure::message(FailureKind::Plugin, text).help(help));
    }
    let answer = replay
        .ask(plugin, pbg_train::traced)?
        .map_err(|error| Failure::new(FailureKind::Plugin, error))?;
    terminal::print(|out| writeln!(out, "it does not fail here; it answers {answer}"))
}
