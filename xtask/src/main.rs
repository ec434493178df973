//! `cargo xtask`: everything around the program that is not the program. `cargo xtask --help` explains.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program talks to the person who typed the command"
)]

mod step;
mod wordnet;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Sets up, builds, shows and tests pbg-host.
///
/// Every step is announced before it is done. Nothing is installed outside of this folder,
/// except the compilation target for plugins (by rustup, or as Debian packages where rustup cannot fetch it).
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Makes the edge sets of examples/wordnet from the database of the Debian package wordnet-base.
    Wordnet {
        /// The folder with data.noun, index.noun and so on.
        #[arg(long, default_value = "/usr/share/wordnet")]
        dict: PathBuf,
        /// Where train.tsv.gz, valid.tsv.gz and test.tsv.gz go.
        #[arg(long, default_value = "examples/wordnet")]
        out: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Wordnet { dict, out } => wordnet::run(&dict, &out),
    }
}
