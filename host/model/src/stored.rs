//! The configuration stored in a checkpoint, so that a model can be queried without a configuration file.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use pbg_checkpoint::ReadCheckpoint;
use pbg_config::{Config, DEFAULT_SAMPLER};
use pbg_dataset::Dataset;

use crate::error::{CheckpointMismatch, RunError};

/// A version of a checkpoint, held open, and the configuration that trained it.
#[derive(Debug)]
pub struct StoredModel {
    /// Configuration, with the checkpoint's folder as its `checkpoint_path` and the current path of its dataset: the
    /// stored path relative to the checkpoint if a dataset is there, otherwise the configured path.
    pub config: Config,
    /// The version.
    pub version: Arc<ReadCheckpoint>,
}

impl StoredModel {
    /// Opens the last commit of the checkpoint in `folder`.
    ///
    /// # Errors
    /// When there is no checkpoint, it is damaged, or this version of the program cannot read its configuration.
    pub fn open(folder: &Path) -> Result<Self, RunError> {
        let version = Arc::new(ReadCheckpoint::open(folder)?);
        let config = Self::config_of(&version)?;
        Ok(Self { config, version })
    }

    /// Returns the configuration that trained `version`.
    ///
    /// # Errors
    /// When this version of the program cannot read it.
    pub fn config_of(version: &ReadCheckpoint) -> Result<Config, RunError> {
        let (folder, run) = (version.path(), version.run());
        let origin = format!("the configuration in {}", folder.display());
        let mut config = Config::parse(&run.config, &origin, &[]).map_err(|problems| {
            CheckpointMismatch::Version {
                checkpoint: folder.to_owned(),
                problems: problems.to_string(),
            }
        })?;
        if let Some(path) = &run.dataset_path {
            // A preserved version is one folder deeper than its checkpoint.
            let beside = [folder.join(path), folder.join("..").join(path)];
            let found = beside.iter().find(|path| Dataset::exists(path));
            if let Some(found) = found.and_then(|path| path.to_str()) {
                config.dataset = found.to_owned();
            }
        }
        if let Some(folder) = folder.to_str() {
            config.checkpoint_path = folder.to_owned();
        }
        if config.dynamic_relations {
            // It may name a sampler, from an earlier release that did not refuse that. The sampler is never called.
            DEFAULT_SAMPLER.clone_into(&mut config.relation_sampler);
        }
        // The initial checkpoint was read when the run began; this checkpoint contains the result.
        config.init_path = None;
        for entity in config.entities.values_mut() {
            (entity.init, entity.init_names) = (None, None);
        }
        Ok(config)
    }
}

/// Returns the path of the dataset's folder relative to the checkpoint's; `None` if there is no such path.
pub fn path_of_dataset(config: &Config) -> Option<String> {
    let absolute = |path: &str| fs::canonicalize(path).ok();
    let path = relative(
        &absolute(&config.dataset)?,
        &absolute(&config.checkpoint_path)?,
    );
    path.into_os_string().into_string().ok()
}

/// Returns `to` relative to `from`. Both are absolute and without `..`.
fn relative(to: &Path, from: &Path) -> PathBuf {
    let (to, from): (Vec<_>, Vec<_>) = (to.components().collect(), from.components().collect());
    let common = to.iter().zip(&from).take_while(|(a, b)| a == b).count();
    let up = from[common..].iter().map(|_| Component::ParentDir);
    up.chain(to[common..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_one_folder_to_another() {
        for (to, from, expected) in [
            ("/a/data", "/a/model", "../data"),
            ("/a/data", "/a/runs/one/model", "../../../data"),
            ("/b", "/a/model", "../../b"),
            ("/a/model/data", "/a/model", "data"),
        ] {
            assert_eq!(
                relative(Path::new(to), Path::new(from)),
                Path::new(expected)
            );
        }
    }
}
