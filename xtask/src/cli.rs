//! Command line of `cargo xtask`.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::repo::Repo;
use crate::test::Scope;
use crate::{build, demo, setup, test, wheel};

/// Package of the tasks that neither the demo nor the tests need.
const WORKBENCH: &str = "xtask-workbench";

/// Sets up, builds, demonstrates and tests pbg-host.
///
/// Every step is announced before it runs. Nothing is installed outside of this folder,
/// except the compilation target for plugins (by rustup, or as Debian packages where rustup cannot fetch it)
/// and, by `test` as root on Debian, the packages clang, lld, chromium and valgrind.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    /// Folder into which set-up installs libtorch and the Python packages of the tests [default: .deps].
    #[arg(long, global = true, value_name = "FOLDER")]
    deps: Option<OsString>,
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
    /// Builds, and packs the program and the Python package into a wheel in target/wheel, for `pip install`.
    Wheel {
        /// Also install the wheel into a fresh virtual environment and run the tests of the package there.
        #[arg(long)]
        test: bool,
        /// Also run the tests with models of PyTorch-BigGraph itself, which is installed into .deps/pbg (some 5 GB).
        #[arg(long, requires = "test")]
        pbg: bool,
    },
    /// Builds a searchable site of the documentation in target/docs/site.
    #[command(disable_help_flag = true)]
    Docs(WorkbenchArgs),
    /// Sets up, builds, checks format and lints, and runs all tests.
    Test {
        /// Run in full what the tests otherwise run in part, lint tests and benches as well, and
        /// check packages for known vulnerabilities with cargo-deny, which is compiled into .deps.
        #[arg(long)]
        long: bool,
    },
    /// Tests crashes: kills training, import and export at file operations, fills the disk, and lets operations fail.
    ///
    /// `test` does this at a part of the operations; this command continues for the given time.
    Crash(LongTestArgs),
    /// Tests every reader with slightly damaged input: configurations, edge lists, datasets, checkpoints, components.
    Fuzz(LongTestArgs),
    /// Simulates distributed runs on a virtual clock, with faults drawn by seeds, and checks what must hold.
    ///
    /// `test` does this for 300 seeds; this command continues on all cores for the given time.
    Sim {
        /// Hours.
        #[arg(long, value_name = "N", default_value_t = 1.0)]
        hours: f64,
        /// First seed.
        #[arg(long, value_name = "N", default_value_t = 1_000)]
        seed: u64,
        /// Instead, builds copies of the program with a bug put in on purpose each, and counts the seeds until it is
        /// found. TEXT selects those whose name contains it.
        #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["hours", "seed"])]
        mutations: Option<String>,
    },
    /// Builds, and tests the GPU of this machine: its steps against those of the cores, whole runs, and speed.
    #[command(disable_help_flag = true)]
    Gpu(WorkbenchArgs),
    /// Makes every table and figure of a study from nothing and compares them with the kept ones.
    #[command(disable_help_flag = true)]
    Artifact(WorkbenchArgs),
    /// Benchmarks: speed compared with PyTorch-BigGraph, quality of configurations, growth of costs.
    #[command(disable_help_flag = true)]
    Bench(WorkbenchArgs),
    /// Builds what users install: wheels and archives for three systems, with checksums and a list of packages.
    #[command(disable_help_flag = true)]
    Dist(WorkbenchArgs),
    /// Prepares a release: dates the changelog, sets the version, and prints what remains to be done by hand.
    #[command(disable_help_flag = true)]
    Release(WorkbenchArgs),
    /// Makes the edge sets of examples/wordnet from the database of the Debian package wordnet-base.
    #[command(disable_help_flag = true)]
    Wordnet(WorkbenchArgs),
}

#[derive(Debug, clap::Args)]
struct LongTestArgs {
    /// Minutes for each kind of test.
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
}

/// Arguments of a task of the workbench, which also explains them.
#[derive(Debug, clap::Args)]
struct WorkbenchArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Returns the description of the command line.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the task that the command line of this process names, and prints the error if it fails.
#[must_use]
pub fn main() -> ExitCode {
    print_error(run(env::args_os().skip(1).collect()))
}

/// Prints the error of a task, if any, and returns the exit code.
#[must_use]
pub fn print_error(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<()> {
    if asks_workbench_for_help(&arguments) {
        return workbench(&Repo::find(None)?, arguments);
    }
    let cli = Cli::parse();
    let repo = Repo::find(cli.deps.as_ref().map(Into::into))?;
    match cli.task {
        Task::Setup => setup::run(&repo).and_then(|()| setup::libtorch(&repo)),
        Task::Build => build::run(&repo),
        Task::Demo { machines } => demo::run(&repo, machines),
        Task::Wheel { test, pbg } => wheel::run(&repo, test, pbg),
        Task::Test { long: false } => test::run(&repo, Scope::Usual),
        Task::Test { long: true } => test::run(&repo, Scope::Long),
        Task::Crash(LongTestArgs { minutes }) => {
            test::for_minutes(&repo, "pbg-host", "crash", minutes)
        }
        Task::Fuzz(LongTestArgs { minutes }) => test::for_minutes(&repo, "pbg-fuzz", "", minutes),
        Task::Sim {
            mutations: Some(text),
            ..
        } => test::find_mutations(&repo, &text),
        Task::Sim { hours, seed, .. } => test::simulate(&repo, hours, seed),
        Task::Docs(_)
        | Task::Artifact(_)
        | Task::Gpu(_)
        | Task::Bench(_)
        | Task::Dist(_)
        | Task::Release(_)
        | Task::Wordnet(_) => workbench(&repo, arguments),
    }
}

/// Returns whether the arguments are `help TASK` with a task of the workbench.
fn asks_workbench_for_help(arguments: &[OsString]) -> bool {
    let [help, task, ..] = arguments else {
        return false;
    };
    let task = command().find_subcommand(task).cloned();
    help == "help" && task.is_some_and(|task| task.is_disable_help_flag_set())
}

/// Replaces this process by the workbench with the same arguments, in the same folder.
fn workbench(repo: &Repo, arguments: Vec<OsString>) -> Result<()> {
    let mut cargo = repo.plain_cargo("run");
    cargo.current_dir(env::current_dir().context("the current folder is gone")?);
    cargo.args(["--release", "--package", WORKBENCH, "--manifest-path"]);
    cargo.arg(repo.root.join("Cargo.toml"));
    let error = cargo.arg("--").args(arguments).exec();
    Err(error).context("cannot start cargo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn arguments_of_the_workbench_are_its_own() {
        for arguments in [
            &["xtask", "bench", "--help"][..],
            &["xtask", "bench", "quality", "--only", "wordnet"],
            &["xtask", "gpu", "--pack", "gpu.tar.xz", "-h"],
            &["xtask", "--deps", "elsewhere", "wordnet", "--dict=x"],
            &["xtask", "docs"],
        ] {
            Cli::try_parse_from(arguments).unwrap();
        }
        Cli::try_parse_from(["xtask", "build", "--only"]).unwrap_err();
        let asks = |arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
            asks_workbench_for_help(&arguments)
        };
        assert!(asks(&["help", "bench"]) && asks(&["help", "bench", "quality"]));
        assert!(!asks(&["help", "demo"]) && !asks(&["bench", "--help"]) && !asks(&["help"]));
    }
}
