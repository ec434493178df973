//! A folder for what a measurement writes.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// A folder that is removed in the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// `PATH.bench-PROCESS`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn beside(path: &Path) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".bench-{}", std::process::id()));
        let path = PathBuf::from(name);
        std::fs::create_dir_all(&path).map_err(|e| {
            let context = format!("cannot make {}", path.display());
            Failure::new(FailureKind::Io, e).context(context)
        })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is named after what it was, and does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
