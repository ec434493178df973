//! Benchmarks, the site of the documentation, tests of a GPU, what users install, releases and the data of the WordNet example: the tasks of
//! `cargo xtask` that neither the demo nor the tests need. `cargo xtask` compiles and starts this program for them.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a terminal program prints its messages, and waits and measures"
)]

mod artifact;
mod bench;
mod dist;
mod docs;
mod gpu;
mod release;
mod wordnet;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use xtask::guard;
use xtask::repo::Repo;

/// Measures and documents pbg-host.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    /// Folder into which set-up installs libtorch and the Python packages of the tests [default: .deps].
    #[arg(long, global = true, value_name = "FOLDER")]
    deps: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Builds a searchable site of the documentation in target/docs/site.
    Docs,
    /// Builds, and tests the GPU of this machine: its steps against those of the cores, whole runs, and speed.
    ///
    /// It takes some minutes. `--pack` makes an archive for a machine that has a GPU but no compiler.
    Gpu(gpu::GpuArgs),
    /// Makes every table and figure of a study from nothing and compares them with the kept ones.
    #[command(subcommand)]
    Artifact(Artifact),
    /// Benchmarks: speed compared with PyTorch-BigGraph, quality of configurations, growth of costs.
    #[command(subcommand)]
    Bench(Bench),
    /// Builds what users install: wheels and archives for three systems, with checksums and a list of packages.
    ///
    /// They go to target/dist. Zig, which compiles C and links for other systems, is installed into .deps.
    Dist(dist::DistArgs),
    /// Prepares a release: dates the changelog, sets the version, and prints what remains to be done by hand.
    ///
    /// Nothing is committed or sent.
    Release {
        /// Version, such as 1.2.3.
        version: release::ReleaseVersion,
    },
    /// Makes the edge sets of examples/wordnet from the database of the Debian package wordnet-base.
    Wordnet {
        /// Folder with data.noun, index.noun and so on.
        #[arg(long, default_value = "/usr/share/wordnet")]
        dict: PathBuf,
        /// Folder into which train.tsv.gz, valid.tsv.gz and test.tsv.gz are written.
        #[arg(long, default_value = "examples/wordnet")]
        out: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum Artifact {
    /// The study of bucket orders: tables of docs/orders.md and docs/order-lab.md, and examples/order-study.
    ///
    /// Swaps, bytes and plans are compared exactly, ranks and measured stalls within a tolerance, and seconds are shown.
    /// The differences are printed; the command fails if one is too large.
    Orders(artifact::OrdersArgs),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Compares the speed with PyTorch-BigGraph from PyPI, which is installed into .deps/pbg.
    VsPbg(bench::VsPbgArgs),
    /// Measures the shipped configurations on two graphs on which none was tuned, and prints the last figures as well.
    ///
    /// One graph is synthetic with a structure to learn, the other is WordNet. Rows have filtered ranks of 3,000 test
    /// edges among all entities, and the processor time of training.
    Quality(bench::quality::QualityArgs),
    /// Measures import, an epoch, ranking, neighbours and export of graphs of several sizes in the shape of Freebase's.
    ///
    /// Prints the costs of each step, what `check` announced, and how costs grow with the number of edges.
    Scale(bench::scale::ScaleArgs),
    /// Counts the instructions of training steps, an import, an epoch and an evaluation with callgrind, and compares
    /// them with `benches/guard.json`.
    ///
    /// More than 3 % more or fewer are a failure. `test` does the same. Counts are those of processors with AVX2, on
    /// all of which they are the same.
    Guard {
        /// Write the counts to `benches/guard.json` instead.
        #[arg(long)]
        record: bool,
    },
}

fn main() -> ExitCode {
    xtask::print_error(run(Cli::parse()))
}

fn run(cli: Cli) -> Result<()> {
    let repo = Repo::find(cli.deps)?;
    match cli.task {
        Task::Docs => docs::run(&repo),
        Task::Gpu(args) => gpu::run(&repo, &args),
        Task::Artifact(Artifact::Orders(args)) => artifact::run(&repo, &args),
        Task::Bench(Bench::VsPbg(args)) => bench::vs_pbg(&repo, &args),
        Task::Bench(Bench::Quality(args)) => bench::quality::run(&repo, &args),
        Task::Bench(Bench::Scale(args)) => bench::scale::run(&repo, &args),
        Task::Bench(Bench::Guard { record }) => guard::run(&repo, record),
        Task::Dist(args) => dist::run(&repo, &args, &release::current_version(&repo)?.to_string()),
        Task::Release { version } => release::run(&repo, version),
        Task::Wordnet { dict, out } => wordnet::run(&dict, &out),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn xtask_describes_the_tasks_as_this_program_does() {
        let all = xtask::command();
        for task in Cli::command().get_subcommands() {
            let listed = all.find_subcommand(task.get_name());
            let listed = listed.unwrap_or_else(|| panic!("xtask lacks {}", task.get_name()));
            let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
            assert_eq!(about(listed), about(task));
            assert!(listed.is_disable_help_flag_set());
        }
    }
}
