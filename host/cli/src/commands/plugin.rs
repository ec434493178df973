//! `pbg-host plugin`: commands that list, create, build, check, pull and push plugins.

mod bench;
mod build;
mod check;
mod influence;
mod inspect;
mod list;
mod loading;
mod new;
mod pull;
mod push;
mod registry;
mod replay;

use crate::failure::Result;
use crate::limits;
use crate::terminal::Terminal;
pub(crate) use loading::loss_with_defaults;

/// Create, build, check, list, pull and push plugins: training strategies as sandboxed components.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    New(new::Args),
    Build(build::Args),
    Check(check::Args),
    Bench(bench::Args),
    Inspect(inspect::Args),
    Replay(replay::Args),
    List(list::Args),
    Pull(pull::Args),
    Push(push::Args),
}

/// Runs the command.
///
/// # Errors
/// When a project cannot be created or built, a plugin cannot be loaded or breaks a promise, a registry refuses, or
/// standard output cannot be written.
pub(crate) fn run(command: &Command, terminal: Terminal) -> Result<()> {
    let result = match command {
        Command::New(args) => new::run(args, terminal),
        Command::Build(args) => build::run(args, terminal),
        Command::Check(args) => check::run(args, terminal),
        Command::Bench(args) => bench::run(args, terminal),
        Command::Inspect(args) => inspect::run(args, terminal),
        Command::Replay(args) => replay::run(args, terminal),
        Command::List(args) => list::run(args, terminal),
        Command::Pull(args) => pull::run(args, terminal),
        Command::Push(args) => push::run(args, terminal),
    };
    result.map_err(|failure| {
        let advice = limits::advice(&format!("{:#}", failure.error()));
        match advice {
            Some(advice) => failure.help(advice),
            None => failure,
        }
    })
}
