//! A trained model: its dataset, its parameters, and its tables one at a time.

use std::path::Path;

use pbg_kernels::params::Params;
use pbg_kernels::table::{Features, Table};
use pbg_store::checkpoint::ReadCheckpoint;
use pbg_store::dataset::{Dataset, Dictionary};

use crate::commit;
use crate::error::RunError;
use crate::model::Blueprint;
use crate::resolved::Resolved;
use crate::state;
use crate::tables;

/// The committed state of a run, open for reading.
pub struct Trained<'a> {
    /// Dataset the ids belong to.
    pub dataset: &'a Dataset,
    /// The model.
    pub blueprint: &'a Blueprint,
    /// The committed version.
    pub checkpoint: ReadCheckpoint,
    /// Operators and global embeddings.
    pub params: Params,
    features: Vec<Option<Features>>,
}

impl<'a> Trained<'a> {
    /// Opens the checkpoint of `resolved`, and verifies that it fits.
    ///
    /// # Errors
    /// When there is no checkpoint, it belongs to another configuration or dataset, or it is damaged.
    pub fn open(resolved: &'a Resolved) -> Result<Self, RunError> {
        pbg_kernels::use_one_torch_thread();
        let config = resolved.config();
        let (dataset, blueprint) = (resolved.dataset(), resolved.blueprint());
        let checkpoint = ReadCheckpoint::open(Path::new(&config.checkpoint_path))?;
        let ids = state::dictionaries(config, dataset);
        if checkpoint.run().dataset != ids {
            return Err(RunError::Mismatch(format!(
                "{} was trained on another dataset than {} ({}, now {ids})",
                checkpoint.path().display(),
                dataset.path().display(),
                checkpoint.run().dataset
            )));
        }
        let mut params = Params::new(&blueprint.spec);
        commit::read_model(checkpoint.model()?, &mut params)?;
        let features = blueprint.features(dataset)?;
        Ok(Self {
            dataset,
            blueprint,
            checkpoint,
            params,
            features,
        })
    }

    /// One partition of entity type `type_index`.
    ///
    /// # Errors
    /// When the checkpoint does not have it, or it is damaged.
    pub fn table(&self, type_index: usize, partition: u32) -> Result<Table, RunError> {
        let layout = &self.blueprint.layout.types[type_index];
        let mut data = tables::room(layout, partition);
        let found = self
            .checkpoint
            .read_partition_into(&layout.name, partition, &mut data)?;
        if !found {
            return Err(RunError::Mismatch(format!(
                "{} has no partition {partition} of {}",
                self.checkpoint.path().display(),
                layout.name
            )));
        }
        tables::table(layout, partition, data, self.features[type_index].clone())
    }

    /// Partitions of entity type `type_index`.
    #[must_use]
    pub fn partitions(&self, type_index: usize) -> u32 {
        self.blueprint.layout.types[type_index].rows.len() as u32
    }

    /// Names of the entities of type `type_index`.
    ///
    /// # Errors
    /// When the dictionary is damaged.
    pub fn dictionary(&self, type_index: usize) -> Result<Dictionary, RunError> {
        Ok(self
            .dataset
            .dictionary(&self.blueprint.layout.types[type_index].name)?)
    }
}
