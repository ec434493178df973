//! `cargo xtask`: set-up, build, demo, tests, benchmarks and documentation of pbg-host. See `cargo xtask --help`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a terminal program prints its messages"
)]

mod bench;
mod build;
mod demo;
mod docs;
mod gpu;
mod plugins;
mod repo;
mod setup;
mod step;
mod test;
mod wheel;
mod wordnet;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use repo::Repo;

/// Sets up, builds, demonstrates and tests pbg-host.
///
/// Every step is announced before it runs. Nothing is installed outside of this folder,
/// except the compilation target for plugins (by rustup, or as Debian packages where rustup cannot fetch it)
/// and, by `test` as root on Debian, the packages clang, lld and chromium.
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
    /// Installs missing build dependencies: libtorch (into .deps) and the compilation target for plugins.
    Setup,
    /// Sets up and builds target/release/pbg-host and the standard plugins in target/plugins.
    Build,
    /// Builds, then imports, trains, evaluates and queries the WordNet graph of examples/wordnet.
    ///
    /// Finally writes a page with answers of the model and the course of training. Each command is printed so that it
    /// can be typed. Results go to target/demo, which every demo creates again.
    Demo {
        /// Number of trainers that train the graph together; one of them is killed in the middle of the run.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
        machines: Option<u32>,
    },
    /// Builds, and packs the programs and the Python package into a wheel in target/wheel, for `pip install`.
    Wheel {
        /// Also install the wheel into a fresh virtual environment and run the tests of the package there.
        #[arg(long)]
        test: bool,
        /// Also run the tests with models of PyTorch-BigGraph itself, which is installed into .deps/pbg (some 5 GB).
        #[arg(long, requires = "test")]
        pbg: bool,
    },
    /// Builds a searchable site of the documentation in target/docs/site.
    Docs,
    /// Sets up, builds, checks format and lints, and runs all tests.
    Test,
    /// Tests crashes: kills training, import and export at file operations, fills the disk, and lets operations fail.
    ///
    /// `test` does this at a part of the operations; this command continues for the given time.
    Crash(LongTestArgs),
    /// Tests every reader with slightly damaged input: configurations, edge lists, datasets, checkpoints, components.
    Fuzz(LongTestArgs),
    /// Builds, and tests the GPU of this machine: its steps against those of the cores, whole runs, and speed.
    ///
    /// It takes some minutes. `--pack` makes an archive for a machine that has a GPU but no compiler.
    Gpu(gpu::GpuArgs),
    /// Benchmarks: speed compared with PyTorch-BigGraph, quality of configurations, growth of costs.
    #[command(subcommand)]
    Bench(Bench),
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

#[derive(Debug, clap::Args)]
struct LongTestArgs {
    /// Minutes for each kind of test.
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
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
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let repo = Repo::find(cli.deps)?;
    match cli.task {
        Task::Setup => setup::run(&repo).and_then(|()| setup::libtorch(&repo)),
        Task::Build => build::run(&repo),
        Task::Demo { machines } => demo::run(&repo, machines),
        Task::Wheel { test, pbg } => wheel::run(&repo, test, pbg),
        Task::Docs => docs::run(&repo),
        Task::Test => test::run(&repo),
        Task::Crash(LongTestArgs { minutes }) => test::long(&repo, "pbg-host", "crash", minutes),
        Task::Fuzz(LongTestArgs { minutes }) => test::long(&repo, "pbg-fuzz", "", minutes),
        Task::Gpu(args) => gpu::run(&repo, &args),
        Task::Bench(Bench::VsPbg(args)) => bench::vs_pbg(&repo, &args),
        Task::Bench(Bench::Quality(args)) => bench::quality::run(&repo, &args),
        Task::Bench(Bench::Scale(args)) => bench::scale::run(&repo, &args),
        Task::Wordnet { dict, out } => wordnet::run(&dict, &out),
    }
}
