//! The npm package with which tests build plugins in JavaScript.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::repo::Repo;
use crate::step;

use super::lock;

/// The version that new projects depend on. It names its native part by version as well.
const PACKAGE: &str = "componentize-qjs@0.4.5";

/// The folder of its program.
pub(crate) fn test_programs(repo: &Repo) -> PathBuf {
    repo.deps.join("javascript/node_modules/.bin")
}

/// Installs it, or says that tests do without.
pub(crate) fn packages(repo: &Repo) -> anyhow::Result<()> {
    let _lock = lock(repo)?;
    let starts = || {
        let program = test_programs(repo).join("componentize-qjs");
        step::succeeds(Command::new(program).arg("--help"))
    };
    if starts() {
        return Ok(());
    }
    let folder = repo.deps.join("javascript");
    let has_npm = step::succeeds(Command::new("npm").arg("--version"));
    if has_npm && fs::create_dir_all(&folder).is_ok() {
        step::announce(&format!(
            "installing {PACKAGE} into {} with npm (13 MB, 38 on the disk)",
            repo.short(&folder)
        ));
        let mut npm = Command::new("npm");
        npm.args(["install", "--save-exact", "--no-audit", "--no-fund"]);
        npm.args(["--silent", "--fetch-retries=1", "--prefix"]);
        step::succeeds(npm.arg(&folder).arg(PACKAGE));
    }
    if !starts() {
        step::announce(&format!(
            "plugins in JavaScript are not built: install Node with npm, then {PACKAGE} into {}",
            repo.short(&folder)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_projects_depend_on_what_tests_build_with() {
        let template =
            include_str!("../../../host/author/templates/javascript/common/package.json.in");
        let (name, version) = PACKAGE.split_once('@').expect("a name and a version");
        let dependency = format!("\"{name}\": \"{version}\"");
        assert!(template.contains(&dependency), "{template}");
    }
}
