//! The commands, each with its options and its code.

pub mod check;
pub mod completions;
pub mod config;
pub mod eval;
pub mod export;
pub mod import;
pub mod neighbors;
pub mod plugin;
pub mod score;
pub mod train;

use crate::arguments::Command;
use crate::failure::Result;
use crate::terminal::Terminal;

/// Runs a command.
///
/// # Errors
/// Whatever made it fail.
pub fn run(command: Command, terminal: Terminal) -> Result<()> {
    match command {
        Command::Import(args) => import::run(&args, terminal),
        Command::Train(args) => train::run(&args, terminal),
        Command::Eval(args) => eval::run(&args, terminal),
        Command::Neighbors(args) => neighbors::run(&args, terminal),
        Command::Score(args) => score::run(&args, terminal),
        Command::Export(args) => export::run(&args, terminal),
        Command::Check(args) => check::run(&args, terminal),
        Command::Config(command) => config::run(&command),
        Command::Plugin(command) => plugin::run(&command, terminal),
        Command::Completions(args) => completions::run(&args),
    }
}
