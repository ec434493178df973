//! A configuration resolved against its dataset, once per command. Training and queries start from it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use pbg_checkpoint::{CheckpointError, ReadCheckpoint};
use pbg_config::Config;
use pbg_core::schedule::RunExtent;
use pbg_dataset::{Dataset, EdgeSet};
use pbg_rows::spec::ModelSpec;

use crate::blueprint::Blueprint;
use crate::error::RunError;
use crate::settings::{self, RunSettings};

/// A configuration, its dataset, the model that both describe, and the settings derived from the machine.
#[derive(Clone, Debug)]
pub struct ResolvedConfig {
    config: Config,
    dataset: Arc<Dataset>,
    blueprint: Blueprint,
    settings: RunSettings,
    /// Fingerprint of the keys that must not change when a run resumes, once it was asked for.
    training_hash: OnceLock<String>,
    /// Version of the checkpoint that every part of a command reads. If `None`, the current version is read each time.
    held: Option<Arc<ReadCheckpoint>>,
}

impl ResolvedConfig {
    /// Opens the dataset of `config` and resolves the configuration against it.
    ///
    /// # Errors
    /// When the dataset is missing or damaged, or the configuration does not fit it.
    pub fn new(config: Config) -> Result<Self, RunError> {
        let dataset = Dataset::open(Path::new(&config.dataset))?;
        Self::on(config, Arc::new(dataset))
    }

    /// Resolves as [`ResolvedConfig::new`] does, for a command that queries a trained model. If `version` is a version
    /// of the checkpoint of `config`, everything is read from this version.
    ///
    /// # Errors
    /// As [`ResolvedConfig::new`].
    pub fn with_version(
        config: Config,
        version: Option<Arc<ReadCheckpoint>>,
    ) -> Result<Self, RunError> {
        let path = Path::new(&config.checkpoint_path);
        let held = version.filter(|version| version.path() == path);
        let resolved = Self::new(config)?;
        Ok(Self { held, ..resolved })
    }

    /// Returns a copy with changed keys, for a series of runs on one dataset. The dataset is not opened again.
    ///
    /// # Errors
    /// When the changed configuration does not fit the dataset.
    pub fn with(&self, change: impl FnOnce(&mut Config)) -> Result<Self, RunError> {
        let mut config = self.config.clone();
        change(&mut config);
        if config.dataset != self.config.dataset {
            return Self::new(config);
        }
        Self::on(config, Arc::clone(&self.dataset))
    }

    fn on(config: Config, dataset: Arc<Dataset>) -> Result<Self, RunError> {
        let blueprint = Blueprint::new(&config, &dataset)?;
        let settings = RunSettings::new(&config);
        Ok(Self {
            config,
            dataset,
            blueprint,
            settings,
            training_hash: OnceLock::new(),
            held: None,
        })
    }

    /// Returns the version of the checkpoint to read: the held one, otherwise the current one.
    ///
    /// # Errors
    /// When there is no version, or it is damaged or incomplete.
    pub fn version(&self) -> Result<Arc<ReadCheckpoint>, CheckpointError> {
        if let Some(held) = &self.held {
            return Ok(Arc::clone(held));
        }
        let path = Path::new(&self.config.checkpoint_path);
        Ok(Arc::new(ReadCheckpoint::open(path)?))
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns [`Config::training_hash`] of the configuration. Every commit records it.
    pub fn training_hash(&self) -> &str {
        self.training_hash
            .get_or_init(|| self.config.training_hash())
    }

    /// Returns the dataset.
    #[must_use]
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Returns the layout and the model.
    #[must_use]
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// Returns the settings that the configuration leaves to the machine or derives from other keys.
    pub fn settings(&self) -> &RunSettings {
        &self.settings
    }

    /// Returns the edge sets that an epoch trains, in order.
    ///
    /// # Errors
    /// When the dataset lacks an edge set, or its file is damaged.
    pub fn edge_sets(&self) -> Result<Vec<EdgeSet>, RunError> {
        let names = self.config.edge_sets.iter();
        let opened = names.map(|name| self.dataset.edge_set(name));
        Ok(opened.collect::<Result<_, _>>()?)
    }

    /// Returns the extent of the loops over epochs, `edge_sets` and edge chunks.
    ///
    /// # Errors
    /// When an edge chunk has more edges than can be indexed.
    pub fn extent(&self, edge_sets: &[EdgeSet]) -> Result<RunExtent, RunError> {
        settings::extent(&self.config, edge_sets)
    }

    /// Returns the model with the numbers of negatives for evaluation during training.
    pub fn eval_spec(&self) -> ModelSpec {
        self.blueprint.spec.with_negatives(
            self.config.eval_num_batch_negs as usize,
            self.config.eval_num_uniform_negs as usize,
        )
    }
}
