//! The disk that all processes share: it can be slow or full, and lose what was written to files and not synced. Names are
//! never lost: a file that was created, renamed or removed stays so.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::dice::Dice;
use crate::fault::{Injector, SimFault};
use crate::world::Process;

/// How often an operation on a file takes long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskFaults {
    /// Probability that an operation takes long.
    pub(crate) slow: f64,
    /// Longest duration of such an operation.
    pub(crate) longest: Duration,
}

/// A write that is not on the disk as a whole.
#[derive(Clone, Copy, Debug)]
struct UnsyncedWrite {
    process: Process,
    /// Length of the file before.
    before: u64,
}

/// State of the disk. The files themselves are those of a real folder.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) faults: DiskFaults,
    /// Time until which the disk is full.
    pub(crate) full_until: Duration,
    unsynced: BTreeMap<PathBuf, UnsyncedWrite>,
}

impl Disk {
    /// Draws how long the next operation on a file takes.
    pub(crate) fn delay(&self, dice: &mut Dice, injector: &mut Injector) -> Duration {
        let DiskFaults { slow, longest } = self.faults;
        if slow == 0.0 || !dice.chance(slow) {
            return Duration::ZERO;
        }
        let delay = dice.duration(longest);
        match injector.inject(SimFault::SlowDisk) {
            true => delay,
            false => Duration::ZERO,
        }
    }

    /// Begins an operation of `process` that writes to the file at `path`.
    ///
    /// # Errors
    /// When the disk is full.
    pub(crate) fn begin_write(
        &mut self,
        now: Duration,
        process: Process,
        path: &Path,
    ) -> io::Result<()> {
        // A folder that exists is neither created nor written.
        if path.is_dir() {
            return Ok(());
        }
        if now < self.full_until {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let before = fs::metadata(path).map_or(0, |metadata| metadata.len());
        let unsynced = self.unsynced.entry(path.to_owned());
        unsynced.or_insert(UnsyncedWrite { process, before });
        Ok(())
    }

    /// Notes that a file is removed.
    pub(crate) fn removed(&mut self, path: &Path) {
        self.unsynced.remove(path);
    }

    /// Notes that a file is on the disk.
    pub(crate) fn synced(&mut self, path: &Path) {
        self.unsynced.remove(path);
    }

    /// Notes that a file has got another name.
    pub(crate) fn renamed(&mut self, from: &Path, to: &Path) {
        match self.unsynced.remove(from) {
            Some(write) => self.unsynced.insert(to.to_owned(), write),
            None => self.unsynced.remove(to),
        };
    }

    /// Loses what `process` has not synced: its files keep only what was on the disk before.
    pub(crate) fn lose_unsynced(&mut self, process: Process) {
        let lost = self
            .unsynced
            .extract_if(.., |_, write| write.process == process);
        for (path, UnsyncedWrite { before, .. }) in lost {
            // It may have been removed since, or be a folder.
            let Ok(file) = OpenOptions::new().write(true).open(path) else {
                continue;
            };
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            // A file that cannot be shortened is kept as a whole, which a real disk may do as well.
            let _kept = file.set_len(length.min(before));
        }
    }
}
