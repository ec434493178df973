//! Presence files: each participating process holds a lock on its own file in a folder.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, Write};
use std::path::Path;

use pbg_files::{self as files, FileError};

/// Boot id, which identifies the machine and the time since its last start.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Creates a presence file at `path`. The process counts as present until the returned file is dropped.
pub(super) fn create_presence(path: &Path) -> Result<File, FileError> {
    let failed = |error| FileError::new("create", path, error);
    let mut file = File::create(path).map_err(failed)?;
    // Without the boot id in its file, a process never counts as gone. So it is written only where the file system has
    // locks.
    if file.try_lock().is_ok() {
        let boot = fs::read(BOOT).unwrap_or_default();
        file.rewind()
            .and_then(|()| file.write_all(&boot))
            .map_err(failed)?;
    }
    Ok(file)
}

/// Returns whether the process with this presence file ran on this machine and has certainly ended.
pub(super) fn is_gone(path: &Path) -> bool {
    let Ok(own) = fs::read(BOOT) else {
        return false;
    };
    let same = files::read(path, 1 << 10).is_ok_and(|boot| boot == own);
    same && File::open(path)
        .is_ok_and(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}
