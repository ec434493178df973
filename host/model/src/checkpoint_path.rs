//! Check whether `checkpoint_path` can be the folder of a checkpoint, before anything is created in it.

use std::path::Path;

use pbg_checkpoint::CheckpointError;
use pbg_files as files;
use pbg_files::owner::{self, OwnerKind};

use crate::error::{RunError, SettingError};
use crate::resolved::ResolvedConfig;

impl ResolvedConfig {
    /// Checks that `checkpoint_path` is a folder that a run can own: not part of a dataset, not managed by the system,
    /// and writable for this user.
    ///
    /// # Errors
    /// When the folder is unsuitable or not writable.
    pub fn check_checkpoint_path(&self) -> Result<(), RunError> {
        let named = &self.config().checkpoint_path;
        let path = Path::new(named);
        let unfit = |what: String| {
            let path = named.clone();
            Err(SettingError::CheckpointPath { path, what }.into())
        };
        if files::remote::as_url(path).is_some() {
            // The store is asked when the folder is opened.
            return Ok(());
        }
        let absolute = owner::resolve_path(path).unwrap_or_else(|| path.to_owned());
        if absolute.parent().is_none() {
            return unfit("is the root of the file system".to_owned());
        }
        if files::is_kernel_filesystem(&absolute) {
            return unfit("is where the system shows its state, and keeps no files".to_owned());
        }
        let owner = owner::owner_of(path).filter(|owner| owner.kind != OwnerKind::Checkpoint);
        if let Some(owner) = owner {
            let and = match owner.kind {
                OwnerKind::Dataset => ", and an import into that one would remove it",
                _ => "",
            };
            return unfit(format!("belongs to {owner}{and}"));
        }
        let dataset = owner::resolve_path(self.dataset().path());
        let dataset = dataset.as_deref();
        let below = dataset.and_then(|path| path.strip_prefix(&absolute).ok());
        let name = below.and_then(|below| below.iter().next()?.to_str());
        if name.is_some_and(owner::is_managed_subfolder) {
            let dataset = self.dataset().path().display();
            return unfit(format!(
                "contains the dataset {dataset} at a path that a run would remove"
            ));
        }
        Ok(files::check_writable(&absolute).map_err(CheckpointError::from)?)
    }
}
