//! Python packages that the tests need.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::step;

use super::lock::lock;

/// Packages with which the tests read the output of pbg-host, and build plugins in Python.
const PACKAGES: [&str; 4] = ["numpy", "pyarrow", "safetensors", "componentize-py==0.25.1"];

/// Program of the last package.
const COMPONENTIZE_PY: &str = "bin/componentize-py";

/// Returns the path of the interpreter with these packages.
pub(crate) fn test_python(repo: &Repo) -> PathBuf {
    interpreter(&repo.deps.join("python"))
}

/// Installs the packages into a virtual environment of this checkout.
pub(crate) fn packages(repo: &Repo) -> Result<()> {
    let _lock = lock(repo)?;
    let python = test_python(repo);
    let folder = repo.deps.join("python");
    let imports = "import numpy, pyarrow, safetensors";
    // Start the program instead of checking that it exists: it contains the path of its folder, which may have moved.
    let componentize_py = folder.join(COMPONENTIZE_PY);
    if step::succeeds(Command::new(componentize_py).arg("--version"))
        && step::succeeds(Command::new(&python).args(["-c", imports]))
    {
        return Ok(());
    }
    step::announce(&format!(
        "installing {} into {} with pip",
        PACKAGES.join(", "),
        repo.short(&folder)
    ));
    let what_to_do = format!(
        "install Python 3 with venv and pip, then create a virtual environment in {} with {}",
        folder.display(),
        PACKAGES.join(", ")
    );
    environment(&folder, &PACKAGES, &what_to_do)
}

/// Package that makes wheels, with the same version as in `host/python/pyproject.toml`.
const MATURIN: &str = "maturin==1.16.0";

/// Returns the path of maturin, which is installed if it is missing.
pub(crate) fn maturin(repo: &Repo) -> Result<PathBuf> {
    let _lock = lock(repo)?;
    let folder = repo.deps.join("packing");
    let program = folder.join("bin/maturin");
    if !step::succeeds(Command::new(&program).arg("--version")) {
        step::announce(&format!(
            "installing {MATURIN} into {} with pip",
            repo.short(&folder)
        ));
        let what_to_do = format!(
            "install Python 3 with venv and pip, then create a virtual environment in {} with {MATURIN}",
            folder.display()
        );
        environment(&folder, &[MATURIN], &what_to_do)?;
    }
    Ok(program)
}

/// Creates a virtual environment in this folder with only `packages` and their dependencies.
///
/// It is created without pip, for which Debian would need another package; the system's pip installs into it.
pub fn environment(folder: &Path, packages: &[&str], what_to_do: &str) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    step::run(
        Command::new("python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(folder),
        what_to_do,
    )?;
    install(&interpreter(folder), packages, what_to_do)
}

/// Returns the path of the Python of an environment.
pub(crate) fn interpreter(folder: &Path) -> PathBuf {
    folder.join("bin/python")
}

/// Installs `packages` for `python` with the system's pip.
pub(crate) fn install(
    python: &Path,
    packages: &[impl AsRef<OsStr>],
    what_to_do: &str,
) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.env("PIP_ROOT_USER_ACTION", "ignore");
    pip.args(["-m", "pip", "--disable-pip-version-check", "--python"]);
    pip.arg(python);
    pip.args(["install", "--quiet", "--only-binary=:all:"]);
    step::run(pip.args(packages), what_to_do)
}
