//! `pbg-host orders`: the laboratory for bucket orders.

mod compare;
mod setting;
mod show;
mod table;
mod train;

use crate::failure::Result;
use crate::terminal::Terminal;

/// Compare bucket orders, look at one, or train under several.
///
/// A bucket order decides how much a run that is larger than memory reads and writes.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Compare(compare::Args),
    Show(show::Args),
    Train(train::Args),
}

/// Runs the command.
///
/// # Errors
/// Whatever made it fail.
pub(crate) fn run(command: Command, terminal: Terminal) -> Result<()> {
    match command {
        Command::Compare(args) => compare::run(&args, terminal),
        Command::Show(args) => show::run(&args, terminal),
        Command::Train(args) => train::run(&args, terminal),
    }
}
