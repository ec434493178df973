//! A temporary folder for the files of a benchmark.

use std::path::{Path, PathBuf};

use pbg_files::remote;

use crate::failure::{Failure, Result};

/// Temporary folder, which is removed on drop.
pub(crate) struct BenchFolder(PathBuf);

impl BenchFolder {
    /// Creates the folder `PATH.bench-PROCESS_ID`; in the working folder if `path` is in an object store.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let path = match remote::as_url(path) {
            Some(_) => Path::new("model"),
            None => path,
        };
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".bench-{}", std::process::id()));
        let path = PathBuf::from(name);
        std::fs::create_dir_all(&path).map_err(|e| Failure::io("cannot create", &path, e))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed is harmless, and its name tells its origin.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
