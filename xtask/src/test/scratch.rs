//! A folder in memory for the temporary files of tests.
//!
//! Tests make, sync and remove tens of thousands of small files, which takes many file systems longer than what is
//! tested takes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use rustix::fs::{StatVfsMountFlags, statvfs};

const MEMORY: &str = "/dev/shm";
const NAME: &str = "pbg-host-tests-";
/// Some times what the tests' files take, beside what the tests themselves take.
const LEAST: u64 = 8 << 30;

/// The folder, which is removed when this is dropped; none where memory does not suit.
#[derive(Debug)]
pub(crate) struct Scratch(Option<PathBuf>);

impl Scratch {
    /// Makes the folder, unless the user has named another place for temporary files.
    pub(crate) fn make() -> Self {
        let memory = Path::new(MEMORY);
        if env::var_os("TMPDIR").is_some() || !suits(memory) {
            return Self(None);
        }
        remove_left_behind(memory);
        let folder = memory.join(format!("{NAME}{}", process::id()));
        let made = fs::create_dir(&folder);
        Self(made.is_ok().then_some(folder))
    }

    /// Has the command put its temporary files there.
    pub(crate) fn is_for(&self, command: &mut Command) {
        if let Some(folder) = &self.0 {
            command.env("TMPDIR", folder);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed the next time.
        let _ = self.0.as_ref().map(fs::remove_dir_all);
    }
}

/// Whether there is room, and programs may be started from it.
fn suits(folder: &Path) -> bool {
    let Ok(system) = statvfs(folder) else {
        return false;
    };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let starts = !system.f_flag.contains(StatVfsMountFlags::NOEXEC);
    starts
        && [Some(free), available(), limit()]
            .into_iter()
            .flatten()
            .all(|bytes| bytes >= LEAST)
}

/// Bytes of memory that the system could give.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Bytes of memory that a container may take, where this is one.
fn limit() -> Option<u64> {
    let text = fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?;
    text.trim().parse().ok()
}

/// Removes what runs have left that were ended before they could.
fn remove_left_behind(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(NAME));
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
        let of = |id: &str| memory.path().join(format!("{NAME}{id}"));
        // No process has such a number.
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
