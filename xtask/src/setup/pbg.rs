//! PyTorch-BigGraph, with which benchmarks compare speed and tests compare models.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::repo::Repo;
use crate::step;

/// Python packages with which PBG 1.0.0 runs.
const PACKAGES: [&str; 6] = [
    "torchbiggraph==1.0.0",
    "torch==2.2.2",
    "numpy<2",
    "attrs",
    "h5py",
    "tqdm",
];

/// Returns the path of the Python with PBG, which exists once PBG is installed.
pub(crate) fn python(repo: &Repo) -> PathBuf {
    repo.deps.join("pbg/bin/python")
}

/// Installs PBG if it is missing, and returns the path of its Python.
pub fn install(repo: &Repo) -> Result<PathBuf> {
    let folder = repo.deps.join("pbg");
    let interpreter = python(repo);
    if step::succeeds(Command::new(&interpreter).args(["-c", "import torchbiggraph, torch"])) {
        return Ok(interpreter);
    }
    step::announce(&format!(
        "installing {} into {} with pip (about 5 GB)",
        PACKAGES[0],
        repo.short(&folder)
    ));
    let what_to_do = format!(
        "create a Python environment in {} with {}",
        folder.display(),
        PACKAGES.join(", ")
    );
    step::run(
        Command::new("python3").args(["-m", "venv"]).arg(&folder),
        &what_to_do,
    )?;
    let mut pip = Command::new(&interpreter);
    pip.args([
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]);
    step::run(pip.args(PACKAGES), &what_to_do)?;
    Ok(interpreter)
}
