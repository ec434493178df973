//! The Python packages that the tests need.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::step;

use super::lock;

/// With which the tests read what pbg-host writes, and build plugins in Python.
const PACKAGES: [&str; 4] = ["numpy", "pyarrow", "safetensors", "componentize-py==0.25.1"];

/// A program that the last of them has.
const COMPONENTIZE_PY: &str = "bin/componentize-py";

/// The interpreter that has them.
pub(crate) fn test_python(repo: &Repo) -> PathBuf {
    interpreter(&repo.deps.join("python"))
}

/// Installs them into an environment of this checkout's own.
pub(crate) fn packages(repo: &Repo) -> Result<()> {
    let _lock = lock(repo)?;
    let python = test_python(repo);
    let folder = repo.deps.join("python");
    let imports = "import numpy, pyarrow, safetensors";
    // Started, not only looked for: it names the folder that it was installed into, which may have moved.
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
        "install Python 3 with venv and pip, then make {} an environment with {}",
        folder.display(),
        PACKAGES.join(", ")
    );
    environment(&folder, &PACKAGES, &what_to_do)
}

/// With which a wheel is made, as `host/python/pyproject.toml` has it.
const MATURIN: &str = "maturin==1.16.0";

/// The program, which is installed if it is not there yet.
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
            "install Python 3 with venv and pip, then make {} an environment with {MATURIN}",
            folder.display()
        );
        environment(&folder, &[MATURIN], &what_to_do)?;
    }
    Ok(program)
}

/// Makes a virtual environment of this folder, which has nothing but `packages` and what they need.
///
/// Made without pip, which Debian does not allow without another package; the system's pip installs into it.
pub(crate) fn environment(folder: &Path, packages: &[&str], what_to_do: &str) -> Result<()> {
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

/// The Python of an environment.
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
