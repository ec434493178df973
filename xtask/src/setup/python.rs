//! The Python packages with which the tests read what pbg-host writes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::step;

use super::lock;

const PACKAGES: [&str; 3] = ["numpy", "pyarrow", "safetensors"];

/// The interpreter that has them.
pub(crate) fn test_python(repo: &Repo) -> PathBuf {
    repo.deps.join("python/bin/python")
}

/// Installs them into an environment of this checkout's own.
///
/// Made without pip, which Debian does not allow without another package; the system's pip installs into it.
pub(crate) fn packages(repo: &Repo) -> Result<()> {
    let _lock = lock(repo)?;
    let python = test_python(repo);
    let imports = format!("import {}", PACKAGES.join(", "));
    if step::succeeds(Command::new(&python).args(["-c", &imports])) {
        return Ok(());
    }
    let folder = repo.deps.join("python");
    step::announce(&format!(
        "installing {} into {} with pip",
        PACKAGES.join(", "),
        repo.short(&folder)
    ));
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let what_to_do = format!(
        "install Python 3 with venv and pip, then make {} an environment with {}",
        folder.display(),
        PACKAGES.join(", ")
    );
    step::run(
        Command::new("python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(&folder),
        &what_to_do,
    )?;
    let purelib = step::output(
        Command::new(&python).args([
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
        ]),
        &what_to_do,
    )?;
    let mut pip = Command::new("python3");
    pip.env("PIP_ROOT_USER_ACTION", "ignore");
    pip.args([
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--only-binary=:all:",
        "--target",
        purelib.trim(),
    ]);
    step::run(pip.args(PACKAGES), &what_to_do)
}
