//! Installs what is missing: nothing when everything is there.

mod compiler;
mod debian;
mod javascript;
mod libtorch;
mod missing;
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
pub(crate) use missing::Missing;
pub(crate) use nats::test_server as test_nats;
pub(crate) use python::{environment, install, interpreter, maturin, test_python};
pub(crate) use wasm_target::{TARGET as WASM_TARGET, WasmToolchain, toolchain as wasm_toolchain};

/// What `pbg-host` and its plugins need.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let _lock = lock(repo)?;
    wasm_target::install(repo)
}

/// What `pbg-host-torch` needs beyond that.
pub(crate) fn libtorch(repo: &Repo) -> Result<()> {
    compiler::check()?;
    let _lock = lock(repo)?;
    libtorch::install(repo)
}

/// What tests need beyond that. Only Python is needed in any case; tests skip what needs the others, which are returned
/// where they are missing.
///
/// # Errors
/// When Python or its packages are missing, or something that `PBG_REQUIRE` names.
pub(crate) fn for_tests(repo: &Repo) -> Result<Vec<Missing>> {
    python::packages(repo)?;
    maturin(repo)?;
    let mut missing = debian::install();
    missing.extend(javascript::packages(repo)?);
    missing.extend(nats::install(repo)?);
    missing.iter().for_each(Missing::tell);
    missing::admit(&missing)?;
    Ok(missing)
}

/// The server by which several trainers meet.
pub(crate) fn nats(repo: &Repo) -> Result<PathBuf> {
    if let Some(missing) = nats::install(repo)? {
        missing.tell();
    }
    Ok(nats::test_server(repo))
}

/// Two set-ups of one checkout take turns; the lock goes with the file handle.
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
