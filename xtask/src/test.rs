//! Everything that a change must pass, with the time of each step.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::Result;

use crate::repo::Repo;
use crate::step::{self, Times};
use crate::{build, plugins, setup, wheel};

const SEE_ABOVE: &str = "see the messages above";

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
        setup::libtorch(repo)?;
        setup::for_tests(repo)
    })?;
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
    })?;
    times.step("linting", || {
        let mut cargo = repo.cargo("clippy");
        step::run(
            cargo.args([
                "--release",
                "--workspace",
                "--all-targets",
                "--",
                "-Dwarnings",
            ]),
            SEE_ABOVE,
        )
    })?;
    let python = times.step("making and installing the wheel", || {
        let wheel = wheel::pack(repo)?;
        wheel::installed(repo, &wheel)
    })?;
    times.step("running the tests, those of Python beside them", || {
        both(repo, &python)
    })?;
    times.step("running the examples in the documentation", || {
        let mut cargo = repo.cargo("test");
        // rustdoc does not pass on the linker arguments that let other programs find libtorch.
        cargo.env("LD_LIBRARY_PATH", with_libtorch(repo));
        step::run(cargo.args(["--release", "--workspace", "--doc"]), SEE_ABOVE)
    })
}

/// The tests of the workspace and, in the time that these wait, those of the Python package, whose messages follow.
fn both(repo: &Repo, python: &Path) -> Result<()> {
    thread::scope(|scope| {
        let beside = scope.spawn(|| wheel::test(repo, python));
        let mut cargo = tests(repo);
        // Whoever mends one failure wants to know of the others.
        let rust = step::run(
            cargo.args(["--release", "--workspace", "--tests", "--no-fail-fast"]),
            SEE_ABOVE,
        );
        step::announce("what the tests of the Python package said");
        let said = match beside.join() {
            Ok(said) => said,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        match said {
            Ok(said) => println!("{said}"),
            // The first error ends the program with its message; this one would be lost.
            Err(error) if rust.is_err() => println!("{error:#}"),
            Err(error) => return Err(error),
        }
        rust
    })
}

/// `cargo test`, with what tests look for.
fn tests(repo: &Repo) -> Command {
    let mut cargo = repo.cargo("test");
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
    cargo.args(["--release", "--package", package, "--tests", "--", filter]);
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
