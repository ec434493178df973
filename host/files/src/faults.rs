//! Fault injection for tests: from the n-th modifying operation of this thread on, all operations fail, as if the
//! process had died there. Files that were not synced by then lose their second half. Tests of all crates that write
//! files use it; without a plan it costs one read of a thread-local variable for each operation.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use pbg_clock::FileOperation;

use crate::error::FileError;
use crate::staged::unless_missing;

#[derive(Default)]
struct Faults {
    left: Option<u64>,
    unsynced: BTreeSet<PathBuf>,
}

thread_local! {
    static PLAN: RefCell<Faults> = RefCell::new(Faults::default());
}

/// Lets `operations` modifying operations succeed and all later ones fail.
pub fn fail_after(operations: u64) {
    PLAN.with_borrow_mut(|plan| {
        *plan = Faults {
            left: Some(operations),
            unsynced: BTreeSet::new(),
        }
    });
}

/// Ends the fault injection. Returns whether an operation failed; unsynced files are truncated in that case.
#[must_use]
pub fn recover() -> bool {
    let plan = PLAN.take();
    let crashed = plan.left == Some(0);
    if crashed {
        for path in plan.unsynced {
            if let Ok(file) = OpenOptions::new().write(true).open(&path)
                && let Ok(metadata) = file.metadata()
                && metadata.is_file()
            {
                let _ = file.set_len(metadata.len() / 2);
            }
        }
    }
    crashed
}

/// Passes before each modifying operation. In a simulation, other threads may run before it, and it may fail.
pub(super) fn step(path: &Path) -> io::Result<()> {
    begin(FileOperation::Write, path)
}

/// Passes before an operation.
fn begin(operation: FileOperation, path: &Path) -> io::Result<()> {
    pbg_clock::begin_file_operation(operation, path)?;
    PLAN.with_borrow_mut(|plan| {
        let Some(left) = &mut plan.left else {
            return Ok(());
        };
        if *left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *left -= 1;
        plan.unsynced.insert(path.to_owned());
        Ok(())
    })
}

/// Runs a modifying operation on `path`, which `operation` names in errors.
pub(super) fn attempt<T>(
    operation: &'static str,
    path: &Path,
    run: impl FnOnce() -> io::Result<T>,
) -> Result<T, FileError> {
    let result = step(path).and_then(|()| run());
    result.map_err(|e| FileError::new(operation, path, e))
}

/// Removes a file or folder with `run`. A missing one is not an error.
pub(super) fn attempt_removal(
    path: &Path,
    run: impl FnOnce() -> io::Result<()>,
) -> Result<(), FileError> {
    let result = begin(FileOperation::Remove, path).and_then(|()| unless_missing(run()));
    result.map_err(|e| FileError::new("remove", path, e))
}

pub(super) fn synced(path: &Path) {
    pbg_clock::file_synced(path);
    PLAN.with_borrow_mut(|plan| plan.unsynced.remove(path));
}

pub(super) fn renamed(from: &Path, to: &Path) {
    pbg_clock::file_renamed(from, to);
    PLAN.with_borrow_mut(|plan| {
        if plan.unsynced.remove(from) {
            plan.unsynced.insert(to.to_owned());
        } else {
            plan.unsynced.remove(to);
        }
    });
}
