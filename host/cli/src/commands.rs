//! The commands, each with its options and its code.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod combine;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod describe;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod map;
pub(crate) mod neighbors;
pub(crate) mod orders;
pub(crate) mod partition_server;
pub(crate) mod plugin;
pub(crate) mod predict;
pub(crate) mod report;
pub(crate) mod score;
pub(crate) mod serve;
pub(crate) mod train;

use clap::Subcommand;

use crate::failure::Result;
use crate::terminal::Terminal;

/// Command of the program. Its help text is the doc comment of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Import(import::Args),
    Train(train::Args),
    Eval(eval::Args),
    Predict(predict::Args),
    Neighbors(neighbors::Args),
    Index(index::Args),
    Map(map::Args),
    Score(score::Args),
    Calibrate(calibrate::Args),
    Serve(serve::Args),
    Export(export::Args),
    Combine(combine::Args),
    Check(check::Args),
    Describe(describe::Args),
    #[command(subcommand)]
    Config(config::Command),
    #[command(subcommand)]
    Plugin(plugin::Command),
    #[command(subcommand)]
    Bench(bench::Command),
    Generate(generate::Args),
    Report(report::Args),
    #[command(subcommand)]
    Orders(orders::Command),
    #[command(subcommand)]
    Cluster(cluster::Command),
    PartitionServer(partition_server::Args),
    Completions(completions::Args),
}

/// Runs a command; `tree` is the argument tree of the program, for completions.
///
/// # Errors
/// The failure of the command.
pub(crate) fn run(command: Command, tree: clap::Command, terminal: Terminal) -> Result<()> {
    match command {
        Command::Bench(command) => bench::run(&command, terminal),
        Command::Generate(args) => generate::run(&args, terminal),
        Command::Import(args) => import::run(&args, terminal),
        Command::Train(args) => train::run(&args, terminal),
        Command::Eval(args) => eval::run(&args, terminal),
        Command::Predict(args) => predict::run(&args, terminal),
        Command::Neighbors(args) => neighbors::run(&args, terminal),
        Command::Index(args) => index::run(&args, terminal),
        Command::Map(args) => map::run(&args, terminal),
        Command::Score(args) => score::run(&args, terminal),
        Command::Serve(args) => serve::run(&args, terminal),
        Command::Calibrate(args) => calibrate::run(&args, terminal),
        Command::Export(args) => export::run(&args, terminal),
        Command::Combine(args) => combine::run(&args, terminal),
        Command::Check(args) => check::run(&args, terminal),
        Command::Describe(args) => describe::run(&args, terminal),
        Command::Config(command) => config::run(&command),
        Command::Plugin(command) => plugin::run(&command, terminal),
        Command::Report(args) => report::run(&args, terminal),
        Command::Orders(command) => orders::run(command, terminal),
        Command::Cluster(command) => cluster::run(&command, terminal),
        Command::PartitionServer(args) => partition_server::run(&args, terminal),
        Command::Completions(args) => completions::run(&args, tree),
    }
}
