//! `cargo xtask`: everything around the program that is not the program. `cargo xtask --help` explains.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program talks to the person who typed the command"
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

/// Sets up, builds, shows and tests pbg-host.
///
/// Every step is announced before it is done. Nothing is installed outside of this folder,
/// except the compilation target for plugins (by rustup, or as Debian packages where rustup cannot fetch it)
/// and, by `test` as root on Debian, the packages clang, lld and chromium.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    /// Where set-up installs libtorch and the Python packages of the tests [default: .deps].
    #[arg(long, global = true, value_name = "FOLDER")]
    deps: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Installs what building needs and is missing: libtorch into .deps, the compilation target for plugins.
    Setup,
    /// Sets up and builds target/release/pbg-host and the standard plugins in target/plugins.
    Build,
    /// Builds, then imports, trains, evaluates and queries the WordNet graph of examples/wordnet.
    ///
    /// Ends with a page of what the model knows and how it was trained. Each command is shown as one would type it. Results go to target/demo, which every demo makes anew.
    Demo {
        /// Trainers that train the graph together; one of them is killed in the middle.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
        machines: Option<u32>,
    },
    /// Builds, and packs the programs and the Python package into a wheel in target/wheel, for `pip install`.
    Wheel {
        /// Also install it into a fresh virtual environment and run the tests of the package there.
        #[arg(long)]
        test: bool,
        /// And those with models of PyTorch-BigGraph itself, which is installed into .deps/pbg (some 5 GB).
        #[arg(long, requires = "test")]
        pbg: bool,
    },
    /// Makes the documentation a site that can be searched, in target/docs/site.
    Docs,
    /// Sets up, builds, and checks format, lints and all tests.
    Test,
    /// Kills training, import and export at every operation on files, fills the disk, and lets operations fail.
    ///
    /// The tests do so at a part of the operations; here they go on for as long as they are given.
    Crash(Long),
    /// Feeds every reader what is nearly right: configurations, edge lists, datasets, checkpoints, components.
    Fuzz(Long),
    /// Builds, and asks the GPU of this machine: are steps those of the cores, what do whole runs reach, how fast are they?
    ///
    /// It takes some minutes. `--pack` makes an archive for a machine that has a GPU and no compiler.
    Gpu(gpu::Args),
    /// Compares speeds with those of other programs, measured in turn in one run.
    #[command(subcommand)]
    Bench(Bench),
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

#[derive(Debug, clap::Args)]
struct Long {
    /// How long each kind of test goes on.
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// With PyTorch-BigGraph from PyPI, which is installed into .deps/pbg.
    VsPbg(bench::Args),
    /// What the shipped configurations reach on two graphs that none was tuned on, beside what they reached last.
    ///
    /// One is made up with something to learn, one is WordNet. Rows are filtered ranks of 3,000 test edges among all
    /// entities, and the processor time of training.
    Quality(bench::quality::Args),
    /// Import, an epoch, ranking, neighbours and export of graphs of several sizes in the shape of Freebase's.
    ///
    /// Prints what each step takes beside what `check` announced, and how costs grow with the number of edges.
    Scale(bench::scale::Args),
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
        Task::Crash(Long { minutes }) => test::long(&repo, "pbg-host", "crash", minutes),
        Task::Fuzz(Long { minutes }) => test::long(&repo, "pbg-fuzz", "", minutes),
        Task::Gpu(args) => gpu::run(&repo, &args),
        Task::Bench(Bench::VsPbg(args)) => bench::vs_pbg(&repo, &args),
        Task::Bench(Bench::Quality(args)) => bench::quality::run(&repo, &args),
        Task::Bench(Bench::Scale(args)) => bench::scale::run(&repo, &args),
        Task::Wordnet { dict, out } => wordnet::run(&dict, &out),
    }
}
