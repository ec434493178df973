//! Everything that a change must pass, with the time of each step.

use std::env;
use std::ffi::OsString;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, ScopedJoinHandle};

use anyhow::Result;

use crate::repo::Repo;
use crate::step::{self, Times};
use crate::{build, plugins, setup, wheel};

const SEE_ABOVE: &str = "see the messages above";
/// The package that has the tests with the program.
const PROGRAM: &str = "pbg-host";

/// Every step runs in the release profile, so each dependency is compiled once.
///
/// Tests train real models, which an unoptimised build makes minutes long; wasmtime, Arrow and the bindings of libtorch
/// in a second profile would cost as many minutes again, and so would clippy's own run of libtorch's build script.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let mut times = Times::default();
    let result = steps(repo, &mut times);
    times.print();
    result
}

fn steps(repo: &Repo, times: &mut Times) -> Result<()> {
    times.step("setting up", || {
        setup::run(repo)?;
        setup::libtorch(repo)
    })?;
    thread::scope(|scope| {
        // It waits for the network, and compiling does not.
        let set_up = scope.spawn(|| {
            setup::for_tests(repo)?;
            wheel::environment(repo)
        });
        let checked = compile(repo, times);
        let waited = times.step("waiting for what tests need", || joined(set_up));
        checked.and(waited)
    })?;
    times.step("running the tests, and linting beside them", || all(repo))
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
        // Tests start both programs; Cargo by itself builds only the one whose package they are in.
        let mut cargo = repo.cargo("build");
        step::run(
            cargo.args(["--release", "--workspace", "--bin", "pbg-host-torch"]),
            SEE_ABOVE,
        )?;
        wheel::extension(repo)?;
        let mut cargo = repo.cargo("test");
        step::run(
            cargo.args(["--release", "--workspace", "--tests", "--no-run"]),
            SEE_ABOVE,
        )
    })
}

/// Clippy, for one package at a time: it takes the time in which tests wait.
fn lint(repo: &Repo) -> Result<String> {
    let mut cargo = repo.cargo("clippy");
    cargo.args(["--release", "--workspace", "--all-targets", "--jobs", "1"]);
    step::output(cargo.args(["--", "-Dwarnings"]), SEE_ABOVE)
}

/// The tests of all packages but the program, and the examples in their documentation.
fn crates(repo: &Repo) -> Result<String> {
    let mut cargo = tests(repo);
    let mut said = step::output(cargo.args(["--workspace", "--exclude", PROGRAM]), SEE_ABOVE)?;
    let mut cargo = repo.cargo("test");
    // rustdoc does not pass on the linker arguments that let other programs find libtorch.
    cargo.env("LD_LIBRARY_PATH", with_libtorch(repo));
    said += &step::output(cargo.args(["--release", "--workspace", "--doc"]), SEE_ABOVE)?;
    Ok(said)
}

/// Makes the wheel, says so by dropping `packed`, and runs the tests of what it installs.
fn package(repo: &Repo, packed: Sender<()>) -> Result<String> {
    let wheel = wheel::pack(repo)?;
    drop(packed);
    let python = wheel::install(repo, &wheel)?;
    wheel::test(repo, &python)
}

/// What a thread has to say, a panic included.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// The tests with the program and, in the time that these wait, all else, whose messages follow.
fn all(repo: &Repo) -> Result<()> {
    thread::scope(|scope| {
        let crates = scope.spawn(|| crates(repo));
        let (packed, was_packed) = mpsc::channel();
        let package = scope.spawn(|| package(repo, packed));
        let lints = scope.spawn(move || {
            // Nothing is sent: this returns when the sender is dropped. Cargo lets nobody else build while it builds, so
            // the wheel and the other tests come first.
            let _ = was_packed.recv();
            lint(repo)
        });
        let mut cargo = tests(repo);
        // Half of the time its tests wait for programs, locks and leases.
        let threads = 2 * thread::available_parallelism().map_or(1, NonZero::get);
        cargo.env("RUST_TEST_THREADS", threads.to_string());
        let mut result = step::run(cargo.args(["--package", PROGRAM]), SEE_ABOVE);
        for (what, thread) in [
            ("the tests of the crates", crates),
            ("the tests of the Python package", package),
            ("the lints", lints),
        ] {
            step::announce(&format!("what {what} said"));
            match joined(thread) {
                Ok(said) => println!("{said}"),
                // The first error ends the program with its message; this one would be lost.
                Err(error) if result.is_err() => println!("{error:#}"),
                Err(error) => result = Err(error),
            }
        }
        result
    })
}

/// `cargo test`, with what tests look for.
fn tests(repo: &Repo) -> Command {
    let mut cargo = repo.cargo("test");
    // Whoever mends one failure wants to know of the others.
    cargo.args(["--release", "--tests", "--no-fail-fast"]);
    cargo.env("PBG_TEST_PYTHON", setup::test_python(repo));
    cargo.env("PBG_TEST_JAVASCRIPT", setup::test_javascript(repo));
    cargo.env("PBG_TEST_NATS", setup::test_nats(repo));
    cargo
}

/// Tests that go on for as long as they are given: those of the workspace whose names have `filter`.
pub(crate) fn long(repo: &Repo, package: &str, filter: &str, minutes: u64) -> Result<()> {
    build::run(repo)?;
    step::announce(&format!("testing for {minutes} minutes"));
    let mut cargo = tests(repo);
    cargo.env("PBG_TEST_MINUTES", minutes.to_string());
    cargo.args(["--package", package, "--", filter]);
    step::run(cargo.arg("--nocapture"), SEE_ABOVE)
}

fn with_libtorch(repo: &Repo) -> OsString {
    let mut path = repo.libtorch.join("lib").into_os_string();
    if let Some(others) = env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    path
}
