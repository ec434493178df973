//! `pbg-host plugin replay`.

use std::path::PathBuf;

use pbg_core::limits::PluginLimits;
use pbg_train::formula_fault::FormulaFault;
use pbg_wasm::{CallReplay, FolderGrant, Limits};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::limits::LimitArgs;
use crate::plugins::{search_path, uncached};
use crate::terminal::{self, Terminal};
use crate::terminal_front_end;

/// Repeat the call in which a plugin failed, or evaluate a formula that was not finite.
///
/// When a plugin fails during training, the arguments of the failing call are saved in the folder
/// `faults` of the checkpoint. The exit code is 6 if the plugin fails again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin replay model/faults/my_order-plan-1.json
  pbg-host plugin replay model/faults/my_order-plan-1.json --plugin target/plugins/my_order.wasm")]
pub(crate) struct Args {
    /// File in the folder `faults` of a checkpoint.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Call this plugin, for example a corrected one, instead of the plugin that failed.
    #[arg(long, value_name = "FILE|NAME")]
    plugin: Option<String>,
    /// Folder that the plugin may read; can be repeated.
    #[arg(long = "read", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Changes of the limits that the plugin had when it failed.
    #[command(flatten)]
    limits: LimitArgs,
}

/// Runs the command.
///
/// # Errors
/// When the file cannot be read, the plugin has changed, or it fails again.
pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let (file, other, folders) = (&args.file, args.plugin.as_deref(), &args.folders);
    let of_formula =
        FormulaFault::read(file).map_err(|error| Failure::new(FailureKind::Usage, error))?;
    if let Some(fault) = of_formula {
        return replay_formula(&fault, other);
    }
    let replay = CallReplay::read(file).map_err(|error| Failure::new(FailureKind::Usage, error))?;
    let name = &replay.plugin.name;
    let grant = FolderGrant {
        plugin: name.clone(),
        read: folders.clone(),
    };
    let mut limits = PluginLimits::from(&replay.limits);
    args.limits.apply(&mut limits)?;
    let sandbox = uncached(Limits::from(&limits), &terminal)?
        .with_log(terminal_front_end::log_sink(terminal))
        .with_grants(vec![grant]);
    let plugin = sandbox.open(search_path().resolve(other.unwrap_or(&replay.source))?)?;
    if other.is_none() && plugin.id() != replay.plugin {
        let text = format!("{} is no longer the {name} that failed", replay.source);
        let help = "`--plugin FILE` repeats the call with another plugin";
        return Err(Failure::message(FailureKind::Plugin, text).help(help));
    }
    let answer = replay
        .ask(plugin, pbg_train::traced)?
        .map_err(|error| Failure::new(FailureKind::Plugin, error))?;
    terminal::print(|out| writeln!(out, "the plugin does not fail here; it returns {answer}"))
}

/// Evaluates a formula that was not finite, with the numbers for which it was not.
fn replay_formula(fault: &FormulaFault, other: Option<&str>) -> Result<()> {
    if other.is_some() {
        let text = "--plugin: the file has a formula, and not a call of a plugin";
        let help = "build the plugin again, and train with it";
        return Err(Failure::message(FailureKind::Usage, text).help(help));
    }
    let failed = |what| Failure::message(FailureKind::Usage, format!("the file {what}"));
    match fault.evaluate().map_err(failed)? {
        Some(found) => Err(Failure::message(FailureKind::NotFinite, found.to_string())),
        None => terminal::print(|out| writeln!(out, "the formula is finite for these numbers")),
    }
}
