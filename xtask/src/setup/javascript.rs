//! npm package with which tests build plugins in JavaScript.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::repo::Repo;
use crate::step;

use super::lock::lock;
use super::missing_tool::MissingTool;

/// The version on which new projects depend. It fixes the version of its native part as well.
const PACKAGE: &str = "componentize-qjs@0.4.5";

/// Returns the folder of the package's program.
pub(crate) fn test_programs(repo: &Repo) -> PathBuf {
    repo.deps.join("javascript/node_modules/.bin")
}

/// Installs the package. Returns the missing tool if that fails.
pub(super) fn packages(repo: &Repo) -> anyhow::Result<Option<MissingTool>> {
    let _lock = lock(repo)?;
    let program = test_programs(repo).join("componentize-qjs");
    if step::succeeds(Command::new(&program).arg("--help")) {
        return Ok(None);
    }
    let folder = repo.deps.join("javascript");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let shown = repo.short(&folder).to_string();
    step::announce(&format!(
        "installing {PACKAGE} into {shown} with npm (13 MB, 38 MB on disk)"
    ));
    Ok(installed("npm", &folder, &shown, &program).err())
}

/// Installs the package into a folder and starts its `program`. `shown` is its path in messages.
fn installed(npm: &str, folder: &Path, shown: &str, program: &Path) -> Result<(), MissingTool> {
    let missing = |reason: String, said| MissingTool {
        tool: "node",
        notice: format!("plugins in JavaScript are not built in tests: {reason}"),
        installer_output: said,
    };
    if !step::succeeds(Command::new(npm).arg("--version")) {
        let reason = format!("npm not found; install Node with npm, then {PACKAGE} into {shown}");
        return Err(missing(reason, None));
    }
    let mut command = Command::new(npm);
    command.args(["install", "--save-exact", "--no-audit", "--no-fund"]);
    command.args(["--loglevel=error", "--fetch-retries=1", "--prefix"]);
    command.arg(folder).arg(PACKAGE);
    step::output(&mut command, "see the output of npm above").map_err(|error| {
        let reason = format!("npm could not install {PACKAGE} into {shown}:");
        missing(reason, Some(step::error_text(&error)))
    })?;
    let started = step::output(Command::new(program).arg("--help"), "see above");
    started.map(drop).map_err(|error| {
        let reason = format!("{PACKAGE} was installed into {shown} and does not start:");
        missing(reason, Some(step::error_text(&error)))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The notice shows npm's own output, and does not advise to install Node if Node is there.
    #[test]
    fn what_npm_said_is_told() {
        let place = tempfile::tempdir().expect("a folder");
        let npm = place.path().join("npm");
        let said = |text: &str| {
            fs::write(&npm, format!("#!/bin/sh\n{text}\n")).expect("room");
            fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).expect("it is ours");
            let program = place.path().join("program");
            let npm = npm.to_str().expect("UTF-8");
            let missing = installed(npm, place.path(), "here", &program).expect_err("it fails");
            (missing.notice, missing.installer_output.unwrap_or_default())
        };
        let version = "[ \"$1\" = --version ] && exit 0";
        let (notice, lines) = said(&format!(
            "{version}\necho 'npm error code E403' >&2\nexit 1"
        ));
        assert!(notice.contains("npm could not install"), "{notice}");
        assert!(!notice.contains("install Node"), "{notice}");
        assert!(lines.contains("npm error code E403"), "{lines}");
        let (notice, lines) = said("exit 0");
        assert!(notice.contains("does not start"), "{notice}");
        assert!(lines.contains("cannot start"), "{lines}");
        let (notice, _) = said("exit 1");
        assert!(notice.contains("install Node with npm"), "{notice}");
    }

    #[test]
    fn new_projects_depend_on_what_tests_build_with() {
        let template =
            include_str!("../../../host/author/templates/javascript/common/package.json.in");
        let (name, version) = PACKAGE.split_once('@').expect("a name and a version");
        let dependency = format!("\"{name}\": \"{version}\"");
        assert!(template.contains(&dependency), "{template}");
    }
}
