//! The lock that keeps a second run out, but for trainers of the same.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::CheckpointError;
use crate::files::FileError;

const NAME: &str = ".lock";

/// Held for as long as it lives; the operating system frees it when the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Who else may hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    /// Nobody: a run of one machine.
    Nobody,
    /// Other trainers of the run.
    Trainers,
}

impl Lock {
    pub(super) fn take(folder: &Path, with: With) -> Result<Self, CheckpointError> {
        let path = folder.join(NAME);
        let failed = |operation, e| FileError::new(operation, &path, e);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // What a link leads to would be written over.
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path);
        let mut file = file.map_err(|e| failed("open", e))?;
        let locked = match with {
            With::Nobody => file.try_lock(),
            With::Trainers => file.try_lock_shared(),
        };
        match locked {
            Ok(()) if with == With::Trainers => return Ok(Self { _file: file }),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let process = (&mut file).take(20).read_to_string(&mut text).ok();
                let process = process.and_then(|_| text.trim().parse::<u32>().ok());
                let holder = process
                    .map(|id| format!(" (process {id})"))
                    .unwrap_or_default();
                return Err(CheckpointError::Locked {
                    path: folder.to_owned(),
                    holder,
                });
            }
            Err(TryLockError::Error(e)) => return Err(failed("lock", e).into()),
        }
        // Only a hint for messages, so a full disk is none of its business.
        let _ = file
            .set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}
