//! Folder on the in-memory file system for the temporary files of tests.
//!
//! Tests create, sync and remove tens of thousands of small files. On the file systems of many disks, these operations
//! would take longer than the tests themselves.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use rustix::fs::{StatVfsMountFlags, statvfs};

/// Root of the in-memory file system.
const SHARED_MEMORY: &str = "/dev/shm";
/// Prefix of the folder's name; the rest is the id of the process that created it.
const PREFIX: &str = "pbg-host-tests-";
/// Minimum of free memory in bytes. It has room for several times the size of the tests' files and for the memory that
/// the tests themselves use.
const MIN_FREE_BYTES: u64 = 8 << 30;

/// The folder, which is removed on drop. `None` if `TMPDIR` is set, the in-memory file system is not suitable, or the
/// folder cannot be created; tests then use the default folder for temporary files.
#[derive(Debug)]
pub(crate) struct TestScratch(Option<PathBuf>);

impl TestScratch {
    /// Removes the folders that killed runs have left, and creates a new one.
    pub(crate) fn make() -> Self {
        let memory = Path::new(SHARED_MEMORY);
        if env::var_os("TMPDIR").is_some() || !is_suitable(memory) {
            return Self(None);
        }
        remove_left_behind(memory);
        let folder = memory.join(format!("{PREFIX}{}", process::id()));
        let made = fs::create_dir(&folder);
        Self(made.is_ok().then_some(folder))
    }

    /// Sets `TMPDIR` of `command` to the folder.
    pub(crate) fn set_tmpdir(&self, command: &mut Command) {
        if let Some(folder) = &self.0 {
            command.env("TMPDIR", folder);
        }
    }
}

impl Drop for TestScratch {
    fn drop(&mut self) {
        // A folder that cannot be removed now is removed by a later run.
        let _ = self.0.as_ref().map(fs::remove_dir_all);
    }
}

/// Returns whether the file system of `folder` has enough free memory and permits the execution of programs.
fn is_suitable(folder: &Path) -> bool {
    let Ok(system) = statvfs(folder) else {
        return false;
    };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let executable = !system.f_flag.contains(StatVfsMountFlags::NOEXEC);
    executable
        && [Some(free), available(), limit()]
            .into_iter()
            .flatten()
            .all(|bytes| bytes >= MIN_FREE_BYTES)
}

/// Returns the bytes of available memory of the system.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Returns the memory limit of the container in bytes, if there is one.
fn limit() -> Option<u64> {
    let text = fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?;
    text.trim().parse().ok()
}

/// Removes the folders whose process no longer runs: it was killed before it could remove its folder.
fn remove_left_behind(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if of.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_ended_runs_are_removed() {
        let memory = tempfile::tempdir().unwrap();
        let of = |id: &str| memory.path().join(format!("{PREFIX}{id}"));
        // No process has this id.
        let (ended, running) = (of("99999999"), of(&process::id().to_string()));
        let other = memory.path().join("other");
        for folder in [&ended, &running, &other] {
            fs::create_dir_all(folder.join("model")).unwrap();
        }
        remove_left_behind(memory.path());
        assert_eq!(
            [ended, running, other].map(|folder| folder.exists()),
            [false, true, true]
        );
    }
}
