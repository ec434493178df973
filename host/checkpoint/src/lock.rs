//! Lock of a checkpoint's folder: keeps a second run out, but admits the trainers of one run.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::CheckpointError;
use pbg_files::FileError;

const NAME: &str = ".lock";

/// Lock on a checkpoint, held until it is dropped. The operating system releases it when the process ends.
#[derive(Debug)]
pub(super) struct CheckpointLock {
    _file: File,
}

/// Other holders that a lock admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockMode {
    /// None: a run with a single trainer.
    Exclusive,
    /// Other trainers of the run.
    Shared,
}

impl CheckpointLock {
    pub(super) fn take(folder: &Path, with: LockMode) -> Result<Self, CheckpointError> {
        let path = folder.join(NAME);
        let failed = |operation, e| FileError::new(operation, &path, e);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Refuse a symbolic link: its target would be overwritten.
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path);
        let mut file = file.map_err(|e| failed("open", e))?;
        let locked = match with {
            LockMode::Exclusive => file.try_lock(),
            LockMode::Shared => file.try_lock_shared(),
        };
        match locked {
            Ok(()) if with == LockMode::Shared => return Ok(Self { _file: file }),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let process = (&mut file).take(20).read_to_string(&mut text).ok();
                let process = process.and_then(|_| text.trim().parse::<u32>().ok());
                let holder = process.map(|id| format!(" (process {id})"));
                return Err(CheckpointError::Locked {
                    path: folder.to_owned(),
                    holder: holder.unwrap_or_default(),
                });
            }
            Err(TryLockError::Error(e)) => return Err(failed("lock", e).into()),
        }
        // The process id is only a hint for messages, so a failed write (full disk) is ignored.
        let emptied = file.set_len(0);
        let _ = emptied.and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}
