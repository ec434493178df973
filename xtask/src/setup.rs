//! Set-up: installs missing dependencies.

mod compiler;
mod debian;
mod javascript;
mod libtorch;
mod missing_tool;
mod nats;
mod python;
mod wasm_target;
mod wheel;

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::step;

pub(crate) use javascript::test_programs as test_javascript;
pub(crate) use missing_tool::MissingTool;
pub(crate) use nats::test_server as test_nats;
pub(crate) use python::{environment, install, interpreter, maturin, test_python};
pub(crate) use wasm_target::{TARGET as WASM_TARGET, WasmToolchain, toolchain as wasm_toolchain};

/// Installs the dependencies of `pbg-host` and its plugins.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let _lock = lock(repo)?;
    wasm_target::install(repo)
}

/// Installs the additional dependencies of `pbg-host-torch`.
pub(crate) fn libtorch(repo: &Repo) -> Result<()> {
    compiler::check()?;
    let _lock = lock(repo)?;
    libtorch::install(repo)
}

/// Installs the additional dependencies of tests. Python is required. Tests that need one of the other tools are skipped
/// if it is missing; the missing tools are returned.
///
/// # Errors
/// If Python or its packages, or a tool named in `PBG_REQUIRE`, cannot be installed.
pub(crate) fn for_tests(repo: &Repo) -> Result<Vec<MissingTool>> {
    python::packages(repo)?;
    maturin(repo)?;
    let mut missing = debian::install();
    missing.extend(javascript::packages(repo)?);
    missing.extend(nats::install(repo)?);
    missing.iter().for_each(MissingTool::print_notice);
    missing_tool::check_required(&missing)?;
    Ok(missing)
}

/// Installs the NATS server for several trainers, and returns the path of its program.
pub(crate) fn nats(repo: &Repo) -> Result<PathBuf> {
    if let Some(missing) = nats::install(repo)? {
        missing.print_notice();
    }
    Ok(nats::test_server(repo))
}

/// Locks the set-up of this checkout, so that two set-ups do not run in parallel. Closing the file releases the lock.
pub(crate) fn lock(repo: &Repo) -> Result<File> {
    let path = repo.deps.join("lock");
    fs::create_dir_all(&repo.deps)
        .with_context(|| format!("cannot create {}", repo.deps.display()))?;
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        step::announce("waiting for another set-up of this checkout");
        file.lock()
            .with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}
