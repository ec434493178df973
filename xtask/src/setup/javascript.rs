//! The npm packages with which tests build plugins in JavaScript.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::repo::Repo;
use crate::step;

use super::lock;

/// The version that new projects depend on.
const PACKAGE: &str = "@bytecodealliance/componentize-js@0.23.0";

/// The programs of the packages.
pub(crate) fn test_programs(repo: &Repo) -> PathBuf {
    repo.deps.join("javascript/node_modules/.bin")
}

/// Installs them, or says that tests do without.
pub(crate) fn packages(repo: &Repo) -> anyhow::Result<()> {
    let _lock = lock(repo)?;
    if test_programs(repo).join("componentize-js").exists() {
        return Ok(());
    }
    let folder = repo.deps.join("javascript");
    let installed = step::succeeds(Command::new("npm").arg("--version"))
        && fs::create_dir_all(&folder).is_ok()
        && {
            step::announce(&format!(
                "installing {PACKAGE} into {} with npm (0.4 GB)",
                repo.short(&folder)
            ));
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]);
            step::succeeds(npm.arg(&folder).arg(PACKAGE))
        };
    if !installed {
        step::announce(&format!(
            "plugins in JavaScript are not built: Node with npm and the package {PACKAGE} are missing"
        ));
    }
    Ok(())
}
