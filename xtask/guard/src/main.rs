//! Fixed work of one thread, whose instructions `cargo xtask bench guard` counts with callgrind: training steps, and an
//! import, an epoch and an evaluation of a small graph.
//!
//! Nothing depends on the machine: sizes, seeds, number of threads and size of slices are fixed.

#![expect(
    clippy::print_stdout,
    reason = "a terminal program prints its messages"
)]

mod graph;
mod slices;
mod steps;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Do the work of one case, or prepare it.
#[derive(Debug, Parser)]
#[command(name = "xtask-guard")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Print the names of all cases, about in the order of their duration.
    List,
    /// Write the files that the cases of the graph read.
    Prepare {
        /// An empty folder.
        folder: PathBuf,
    },
    /// Do the work of a case.
    Run {
        /// Name of the case.
        case: String,
        /// The prepared folder.
        folder: PathBuf,
    },
}

fn main() -> Result<()> {
    match Cli::parse().task {
        Task::List => {
            for name in graph::CASES.into_iter().chain(steps::names()) {
                println!("{name}");
            }
            Ok(())
        }
        Task::Prepare { folder } => graph::prepare(&folder),
        Task::Run { case, folder } => match graph::CASES.contains(&case.as_str()) {
            true => graph::run(&case, &folder),
            false => steps::run(&case),
        },
    }
}
