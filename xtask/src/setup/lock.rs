//! Lock of the set-up.

use std::fs::{self, File};

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::step;

/// Locks the set-up of this checkout, so that two set-ups do not run in parallel. Closing the file releases the lock.
pub fn lock(repo: &Repo) -> Result<File> {
    let path = repo.deps.join("lock");
    fs::create_dir_all(&repo.deps)
        .with_context(|| format!("cannot create {}", repo.deps.display()))?;
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    if file.try_lock().is_err() {
        step::announce("waiting for another set-up of this checkout");
        file.lock()
            .with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}
