//! Who takes part in something, by the files of a folder: each process has one that it holds a lock on.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, Write};
use std::path::Path;

use crate::files::{self, FileError};

/// By what the system's kernel is told from others, and from itself before it was started anew.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Says at `path` that this process takes part, for as long as what comes back lives.
pub(super) fn announce(path: &Path) -> Result<File, FileError> {
    let failed = |error| FileError::new("create", path, error);
    let mut file = File::create(path).map_err(failed)?;
    // A file system without locks has nobody held for gone: nothing says so.
    if file.try_lock().is_ok() {
        let boot = fs::read(BOOT).unwrap_or_default();
        file.rewind()
            .and_then(|()| file.write_all(&boot))
            .map_err(failed)?;
    }
    Ok(file)
}

/// Whether who announced itself at `path` did so on this machine, and is certainly gone.
pub(super) fn is_gone(path: &Path) -> bool {
    let Ok(own) = fs::read(BOOT) else {
        return false;
    };
    let same = files::read(path, 1 << 10).is_ok_and(|boot| boot == own);
    same && File::open(path)
        .is_ok_and(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}
