//! The command `test`: all checks that a change must pass, with the time of each step.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::Result;

use self::scratch::TestScratch;
use crate::repo::Repo;
use crate::step::{self, Times};
use crate::threads::join;
use crate::{build, guard, plugins, setup, wheel};

mod packages;
pub(crate) mod scratch;

const SEE_ABOVE: &str = "see the messages above";
/// Package of the tests that run the program.
const PROGRAM: &str = "pbg-host";

/// Extent of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// What every change must pass.
    Usual,
    /// Tests in full, lints also of tests and benches, and known vulnerabilities of packages.
    Long,
}

/// Runs all checks. Every step uses the release profile, so each dependency is compiled once.
///
/// Tests train real models, which would take minutes in an unoptimised build. Compiling wasmtime and Arrow in
/// a second profile would cost minutes as well.
pub(crate) fn run(repo: &Repo, scope: Scope) -> Result<()> {
    let mut times = Times::default();
    let result = steps(repo, scope, &mut times);
    times.print();
    result
}

fn steps(repo: &Repo, scope: Scope, times: &mut Times) -> Result<()> {
    times.step("setting up", || {
        setup::run(repo)?;
        setup::libtorch(repo)
    })?;
    let missing = thread::scope(|threads| {
        // Set-up waits for the network, so it runs in parallel with compiling.
        let set_up = threads.spawn(|| {
            let missing = setup::for_tests(repo)?;
            wheel::environment(repo)?;
            Ok(missing)
        });
        let checked = compile(repo, times).and_then(|()| lint(repo, scope, times));
        let waited = times.step("waiting for the set-up of tests", || join(set_up));
        checked.and(waited)
    })?;
    let (python, examples) = times.step(
        "making the wheel, and running the examples in the documentation",
        || wheel_and_examples(repo),
    )?;
    let counts = times.step("counting instructions", || guard::test(repo));
    let tests = times.step("running the tests", || all(repo, scope, &python));
    // Repeat the notices at the end, where users see them.
    missing.iter().for_each(setup::MissingTool::print_notice);
    tests.and(examples).and(counts)
}

/// Installs the wheel while the examples in the documentation run, since each leaves a core idle most of the time.
/// Returns the Python with the wheel, and the result of the examples.
fn wheel_and_examples(repo: &Repo) -> Result<(PathBuf, Result<()>)> {
    thread::scope(|threads| {
        let examples = threads.spawn(|| {
            let mut cargo = repo.cargo("test");
            cargo.args(["--release", "--workspace", "--doc"]);
            step::output(&mut cargo, SEE_ABOVE)
        });
        let python = wheel::pack(repo).and_then(|wheel| wheel::install(repo, &wheel));
        step::announce("output of the examples in the documentation");
        let examples = join(examples).map(|said| println!("{said}"));
        if let (Err(_), Err(error)) = (&python, &examples) {
            // The first error ends the program with its message; this one would be lost.
            println!("{error:#}");
        }
        Ok((python?, examples))
    })
}

fn compile(repo: &Repo, times: &mut Times) -> Result<()> {
    times.step("checking the format", || {
        let mut cargo = repo.plain_cargo("fmt");
        step::run(
            cargo.args(["--all", "--check"]),
            "`cargo fmt --all`, after `rustup component add rustfmt` if there is no such command",
        )
    })?;
    times.step("building the standard plugins", || plugins::build(repo))?;
    times.step("building the program and its tests", || {
        // The tests start the program, and the wheel contains it; `cargo test` alone builds only the programs of its own
        // package.
        let mut cargo = repo.cargo("build");
        step::run(
            cargo.args(["--release", "--workspace", "--lib", "--bins", "--tests"]),
            SEE_ABOVE,
        )
    })
}

fn lint(repo: &Repo, scope: Scope, times: &mut Times) -> Result<()> {
    times.step("linting", || {
        let mut cargo = repo.cargo("clippy");
        cargo.args(["--release", "--workspace"]);
        cargo.args(match scope {
            Scope::Usual => &["--lib", "--bins"][..],
            Scope::Long => &["--all-targets"],
        });
        step::run(cargo.args(["--", "-Dwarnings"]), SEE_ABOVE)
    })?;
    times.step("checking licences and sources of packages", || {
        packages::check(repo, scope)
    })
}

/// Runs the tests with the program and, in parallel, all others, whose output is printed afterwards.
fn all(repo: &Repo, scope: Scope, python: &Path) -> Result<()> {
    let scratch = TestScratch::make();
    thread::scope(|threads| {
        let crates = threads.spawn(|| {
            let mut cargo = tests(repo, scope);
            scratch.set_tmpdir(&mut cargo);
            step::output(cargo.args(["--workspace", "--exclude", PROGRAM]), SEE_ABOVE)
        });
        let package = threads.spawn(|| wheel::test(repo, python, &scratch));
        let mut cargo = tests(repo, scope);
        scratch.set_tmpdir(&mut cargo);
        // These tests spend half of their time waiting for programs, locks and leases.
        let threads = 2 * thread::available_parallelism().map_or(1, NonZero::get);
        cargo.env("RUST_TEST_THREADS", threads.to_string());
        let mut result = step::run(cargo.args(["--package", PROGRAM]), SEE_ABOVE);
        for (what, thread) in [("crates", crates), ("Python package", package)] {
            step::announce(&format!("output of the tests of the {what}"));
            match join(thread) {
                Ok(said) => println!("{said}"),
                // The first error ends the program with its message; this one would be lost.
                Err(error) if result.is_err() => println!("{error:#}"),
                Err(error) => result = Err(error),
            }
        }
        result
    })
}

/// Returns `cargo test` with the environment variables that tests need. `PBG_TEST_LONG` asks for all that they can do.
fn tests(repo: &Repo, scope: Scope) -> Command {
    let mut cargo = repo.cargo("test");
    // Report all failures, not only the first one.
    cargo.args(["--release", "--tests", "--no-fail-fast"]);
    cargo.env("PBG_TEST_PYTHON", setup::test_python(repo));
    cargo.env("PBG_TEST_JAVASCRIPT", setup::test_javascript(repo));
    cargo.env("PBG_TEST_NATS", setup::NATS.path(repo));
    cargo.env("PBG_TEST_OBJECT_STORE", setup::OBJECT_STORE.path(repo));
    if scope == Scope::Long {
        cargo.env("PBG_TEST_LONG", "1");
    }
    cargo
}

/// Runs the tests of `package` whose names contain `filter` for `minutes` each.
pub(crate) fn for_minutes(repo: &Repo, package: &str, filter: &str, minutes: u64) -> Result<()> {
    build::run(repo)?;
    step::announce(&format!("testing for {minutes} minutes"));
    let mut cargo = tests(repo, Scope::Usual);
    cargo.env("PBG_TEST_MINUTES", minutes.to_string());
    cargo.args(["--package", package, "--", filter]);
    step::run(cargo.arg("--nocapture"), SEE_ABOVE)
}

/// Simulates distributed runs on all cores, from the seed `first`.
pub(crate) fn simulate(repo: &Repo, hours: f64, first: u64) -> Result<()> {
    step::announce(&format!("simulating distributed runs for {hours} hours"));
    let mut cargo = simulator(repo);
    cargo.args(["--hours", &hours.to_string(), "--seed", &first.to_string()]);
    step::run(&mut cargo, SEE_ABOVE)
}

/// Searches by simulations for the bugs of `xtask/sim/mutations.toml` whose name contains `text`.
pub(crate) fn find_mutations(repo: &Repo, text: &str) -> Result<()> {
    step::announce("searching for bugs put in on purpose");
    step::run(simulator(repo).args(["--mutations", text]), SEE_ABOVE)
}

fn simulator(repo: &Repo) -> Command {
    let mut cargo = repo.cargo("run");
    cargo.args(["--release", "--package", "xtask-sim", "--"]);
    cargo
}
