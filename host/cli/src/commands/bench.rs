//! `pbg-host bench`.

mod cluster;
mod eval;
mod import;
mod kernels;
mod libtorch;
mod scale_up;
mod storage;
mod train;

use crate::failure::Result;
use crate::terminal::Terminal;

/// Measure how fast this machine trains, stores, imports and ranks, compared with the attainable maximum.
///
/// Speeds are per second of CPU time, so that other work on the machine matters little. `cluster` and `scale-up`
/// measure waiting times and need an idle machine.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Kernels(kernels::Args),
    Train(train::Args),
    ScaleUp(scale_up::Args),
    Storage(storage::Args),
    Import(import::Args),
    Eval(eval::Args),
    Cluster(cluster::Args),
}

/// Runs the command.
///
/// # Errors
/// When something cannot be measured.
pub(crate) fn run(command: &Command, terminal: Terminal) -> Result<()> {
    match command {
        Command::Kernels(args) => kernels::run(args, terminal),
        Command::Train(args) => train::run(args, terminal),
        Command::ScaleUp(args) => scale_up::run(args, terminal),
        Command::Storage(args) => storage::run(args),
        Command::Import(args) => import::run(args),
        Command::Eval(args) => eval::run(args, terminal),
        Command::Cluster(args) => cluster::run(args, terminal),
    }
}
