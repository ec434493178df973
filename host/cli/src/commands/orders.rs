//! `pbg-host orders`: the laboratory for bucket orders.

mod compare;
mod outputs;
mod plan_source;
mod show;
mod table;
mod train;

use crate::failure::Result;
use crate::terminal::Terminal;

/// Compare bucket orders, show one, or train with several.
///
/// The bucket order decides how much a run on a graph larger than memory reads and writes.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Compare(compare::Args),
    Show(show::Args),
    Train(train::Args),
}

/// Runs the command.
///
/// # Errors
/// The failure of the command.
pub(crate) fn run(command: Command, terminal: Terminal) -> Result<()> {
    match command {
        Command::Compare(args) => compare::run(&args, terminal),
        Command::Show(args) => show::run(&args, terminal),
        Command::Train(args) => train::run(&args, terminal),
    }
}
