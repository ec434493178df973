//! A configuration resolved against its dataset, once per command: what everything else starts from.
//!
//! What is done with it stands beside the code that does it: [`Resolved::check`] and
//! [`Resolved::train`], [`Resolved::evaluate`] and [`Resolved::query`].

use std::path::Path;
use std::sync::Arc;

use pbg_config::Config;
use pbg_core::schedule::Extent;
use pbg_kernels::spec::ModelSpec;
use pbg_store::checkpoint::{CheckpointError, ReadCheckpoint};
use pbg_store::dataset::{Dataset, EdgeSet};

use crate::error::RunError;
use crate::model::Blueprint;
use crate::settings::{self, Settings};

/// A configuration, its dataset, the model that they make, and what was left to the machine.
#[derive(Clone, Debug)]
pub struct Resolved {
    config: Config,
    dataset: Arc<Dataset>,
    blueprint: Blueprint,
    settings: Settings,
    /// The version of its checkpoint that every part of a command reads; the one that is current then where none is held.
    held: Option<Arc<ReadCheckpoint>>,
}

impl Resolved {
    /// Opens the dataset of `config` and resolves one against the other.
    ///
    /// # Errors
    /// When the dataset is missing or damaged, or the configuration does not fit it.
    pub fn new(config: Config) -> Result<Self, RunError> {
        let dataset = Dataset::open(Path::new(&config.dataset))?;
        Self::on(config, Arc::new(dataset))
    }

    /// As [`Resolved::new`], for a command that asks a trained model: all that it reads of the checkpoint of `config` is of
    /// `version`, where that is one of it.
    ///
    /// # Errors
    /// As [`Resolved::new`].
    pub fn holding(config: Config, version: Option<Arc<ReadCheckpoint>>) -> Result<Self, RunError> {
        let path = Path::new(&config.checkpoint_path);
        let held = version.filter(|version| version.path() == path);
        let resolved = Self::new(config)?;
        Ok(Self { held, ..resolved })
    }

    /// As this one, with keys changed: for a series of runs on one dataset, which is not opened
    /// again.
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
        let settings = Settings::new(&config);
        Ok(Self {
            config,
            dataset,
            blueprint,
            settings,
            held: None,
        })
    }

    /// The version of the checkpoint that is read: the one that is held, otherwise the last one.
    ///
    /// # Errors
    /// When there is none, or it is damaged or incomplete.
    pub(crate) fn version(&self) -> Result<Arc<ReadCheckpoint>, CheckpointError> {
        match &self.held {
            Some(held) => Ok(Arc::clone(held)),
            None => Ok(Arc::new(ReadCheckpoint::open(Path::new(
                &self.config.checkpoint_path,
            ))?)),
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The dataset.
    #[must_use]
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Tables, grid and model.
    #[must_use]
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// What the configuration leaves to the machine or to other keys.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The edge sets that an epoch trains, in its order.
    ///
    /// # Errors
    /// When the dataset lacks one, or its file is damaged.
    pub(crate) fn edge_sets(&self) -> Result<Vec<EdgeSet>, RunError> {
        let names = self.config.edge_sets.iter();
        let opened = names.map(|name| self.dataset.edge_set(name));
        Ok(opened.collect::<Result<_, _>>()?)
    }

    /// How far the loops over `edge_sets` go.
    ///
    /// # Errors
    /// When a part of a bucket has more edges than can be indexed.
    pub(crate) fn extent(&self, edge_sets: &[EdgeSet]) -> Result<Extent, RunError> {
        settings::extent(&self.config, edge_sets)
    }

    /// The model with the negatives of evaluation while training.
    pub(crate) fn eval_spec(&self) -> ModelSpec {
        self.blueprint.spec.with_negatives(
            self.config.eval_num_batch_negs as usize,
            self.config.eval_num_uniform_negs as usize,
        )
    }
}
