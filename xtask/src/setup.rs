//! Set-up: installs missing dependencies.

mod bridges;
pub(crate) mod cargo_deny;
mod compiler;
mod debian;
mod javascript;
mod libtorch;
mod lock;
mod missing_tool;
mod pbg;
mod python;
mod servers;
mod wasm_target;
mod wheel;

use std::path::PathBuf;

use anyhow::Result;

use crate::repo::Repo;

pub use bridges::{TorchHeaders, compile as compile_bridges};
pub(crate) use javascript::test_programs as test_javascript;
pub use libtorch::CUDA_13;
pub use lock::lock;
pub(crate) use missing_tool::MissingTool;
pub use pbg::install as pbg;
pub(crate) use pbg::python as pbg_python;
pub use python::environment;
pub(crate) use python::{install, interpreter, maturin, test_python};
pub(crate) use servers::{NATS, OBJECT_STORE};
pub(crate) use wasm_target::{TARGET as WASM_TARGET, WasmToolchain, toolchain as wasm_toolchain};
pub use wheel::{Wheel, wheel_folder};

/// Installs the dependencies of `pbg-host` and its plugins.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let _lock = lock(repo)?;
    wasm_target::install(repo)
}

/// Installs libtorch, which half precision and GPUs need, and the bridge to it.
pub(crate) fn libtorch(repo: &Repo) -> Result<()> {
    compiler::check()?;
    let _lock = lock(repo)?;
    let headers = TorchHeaders {
        version: libtorch::install(repo)?,
        include: repo.libtorch.join("include"),
    };
    bridges::compile(repo, &[headers], &repo.bridges())
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
    missing.extend(NATS.install(repo)?);
    missing.extend(OBJECT_STORE.install(repo)?);
    missing.iter().for_each(MissingTool::print_notice);
    missing_tool::check_required(&missing)?;
    Ok(missing)
}

/// Installs the NATS server for several trainers, and returns the path of its program.
pub fn nats(repo: &Repo) -> Result<PathBuf> {
    if let Some(missing) = NATS.install(repo)? {
        missing.print_notice();
    }
    Ok(NATS.path(repo))
}
