//! A build folder that all Rust projects share, so that dependencies are compiled once for all of them.
//!
//! Cargo tells packages in folders apart by name, version and place relative to the workspace only. Two projects of one
//! name would be taken for each other, and so would their copies of the SDK. So one project at a time uses the folder,
//! and what the project before it has built from its own folders is removed.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::tool;
use crate::error::BuildError;

/// Environment variables with which users choose build folders themselves.
const CHOICES: [&str; 3] = [
    "CARGO_BUILD_BUILD_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_TARGET_DIR",
];

/// The shared build folder while one project is built in it.
pub(super) struct SharedBuilds {
    folder: PathBuf,
    /// Is locked until it is closed.
    _lock: File,
}

impl SharedBuilds {
    /// Opens the folder for a project. Returns `None` if the user has chosen a build folder.
    pub(super) fn open_unless_chosen(folder: &Path) -> Option<Self> {
        let chosen = CHOICES.iter().any(|name| env::var_os(name).is_some());
        (!chosen).then(|| Self::open(folder)).flatten()
    }

    /// Opens the folder for a project. Returns `None` if another project is being built in it, or it cannot be written.
    pub(super) fn open(folder: &Path) -> Option<Self> {
        // Cargo runs in the folder of the project.
        let folder = std::path::absolute(folder).ok()?;
        fs::create_dir_all(&folder).ok()?;
        let lock = File::create(folder.join("lock")).ok()?;
        lock.try_lock().ok()?;
        Some(Self {
            folder,
            _lock: lock,
        })
    }

    /// Lets `cargo` build in the folder. What remains in the target folder of the project are the results.
    pub(super) fn arrange(&self, cargo: &mut Command) {
        cargo.env(CHOICES[0], &self.folder);
    }

    /// Removes what another project has built from its own folders, unless the last project was this one.
    ///
    /// # Errors
    /// [`BuildError`] of Cargo, or of a file in the folder.
    pub(super) fn prepare(
        &self,
        cargo: &Path,
        project: &Path,
        target: &str,
    ) -> Result<(), BuildError> {
        let record = self.folder.join("project");
        let canonical = fs::canonicalize(project);
        let path = canonical.map_err(|e| BuildError::io("find", project, e))?;
        let name = path.as_os_str().as_encoded_bytes();
        if fs::read(&record).is_ok_and(|last| last == name) {
            return Ok(());
        }
        // Without a record, the next build cleans again if this one is interrupted.
        let _absent = fs::remove_file(&record);
        let mut clean = Command::new(cargo);
        clean.args(["clean", "--quiet", "--release", "--target", target]);
        for package in packages_in_folders(cargo, project)? {
            clean.args(["--package", &package]);
        }
        self.arrange(&mut clean);
        tool::run(&mut clean, project)?;
        fs::write(&record, name).map_err(|e| BuildError::io("write", &record, e))
    }
}

/// Returns the packages of a project that Cargo reads from folders: the project, the SDK, and the author's own.
fn packages_in_folders(cargo: &Path, project: &Path) -> Result<Vec<String>, BuildError> {
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--quiet", "--format-version", "1"]);
    let said = tool::output(&mut metadata, project)?;
    let metadata: Value = serde_json::from_slice(&said).unwrap_or_default();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let names = packages
        .filter(|package| package["source"].is_null())
        .filter_map(|package| package["id"].as_str().map(str::to_owned));
    Ok(names.collect())
}
