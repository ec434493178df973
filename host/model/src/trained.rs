//! A trained model: its dataset, its parameters, and its tables, which are read one by one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use pbg_checkpoint::{CheckpointError, ReadCheckpoint};
use pbg_dataset::{Dataset, Dictionary, EntityId, IdSpace, NameList};
use pbg_rows::params::Params;
use pbg_rows::table::{FeatureBags, Table};
use serde::{Deserialize, Serialize};

use crate::blueprint::Blueprint;
use crate::commit;
use crate::compatibility::{OpenPurpose, check_compatibility};
use crate::error::{CheckpointMismatch, RunError};
use crate::memory;
use crate::model_bytes;
use crate::resolved::ResolvedConfig;
use crate::tables;

/// Names of a dataset that a checkpoint has no embedding for, because they were added after its commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntrainedNames {
    /// Number of entities, or of features of a featurized type, by entity type.
    pub rows: BTreeMap<String, u64>,
    /// Number of relations.
    pub relations: u64,
}

impl UntrainedNames {
    /// Returns the names that `now` has in addition to `earlier`.
    pub fn of(earlier: &IdSpace, now: &IdSpace) -> Self {
        let new = |(name, list): (&String, &NameList)| {
            let known = earlier.rows.get(name).map_or(0, NameList::total);
            let new = list.total().saturating_sub(known);
            (new > 0).then(|| (name.clone(), new))
        };
        let relations = now.relations.total();
        Self {
            rows: now.rows.iter().filter_map(new).collect(),
            relations: relations.saturating_sub(earlier.relations.total()),
        }
    }

    /// Whether no embedding is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.relations == 0
    }
}

/// Committed state of a run, open for reading.
pub struct TrainedModel<'a> {
    /// Dataset the ids belong to.
    pub dataset: &'a Dataset,
    /// Model as it was trained, without names that were added to the dataset later.
    pub blueprint: Cow<'a, Blueprint>,
    /// Names of its rows, if the dataset has more.
    pub earlier: Option<IdSpace>,
    /// Names without a row in it.
    pub missing: UntrainedNames,
    /// The committed version.
    pub checkpoint: Arc<ReadCheckpoint>,
    /// Operators and global embeddings.
    pub params: Params,
    features: Vec<Option<FeatureBags>>,
}

impl<'a> TrainedModel<'a> {
    /// Opens the checkpoint of `resolved`, and verifies that it fits.
    ///
    /// # Errors
    /// When there is no checkpoint, it belongs to another configuration or dataset, or it is damaged.
    pub fn open(resolved: &'a ResolvedConfig) -> Result<Self, RunError> {
        Self::of(resolved, resolved.version()?)
    }

    /// Opens a version as [`TrainedModel::open`] does, if the version is open already.
    ///
    /// # Errors
    /// As [`TrainedModel::open`].
    pub fn of(
        resolved: &'a ResolvedConfig,
        checkpoint: Arc<ReadCheckpoint>,
    ) -> Result<Self, RunError> {
        let config = resolved.config();
        let dataset = resolved.dataset();
        let (path, run) = (checkpoint.path(), checkpoint.run());
        let admitted = check_compatibility(resolved, path, run, &OpenPurpose::Read)?;
        let mut blueprint = Cow::Borrowed(resolved.blueprint());
        let mut missing = UntrainedNames::default();
        if let Some(earlier) = &admitted.earlier {
            missing = UntrainedNames::of(earlier, &resolved.ids()?);
            blueprint = Cow::Owned(resolved.blueprint().as_of(earlier));
        }
        let parameters = model_bytes::parameter_bytes(&blueprint.spec).saturating_mul(2);
        let features = model_bytes::feature_bytes(&blueprint, dataset);
        memory::require_more(
            "reading the model",
            memory::sum([parameters, features]),
            memory::FEWER_PARAMETERS,
        )?;
        let mut params = Params::new(&blueprint.spec, config.seed);
        commit::read_model(checkpoint.model()?, &mut params)?;
        let features = blueprint.features(dataset)?;
        Ok(Self {
            dataset,
            blueprint,
            earlier: admitted.earlier,
            missing,
            checkpoint,
            params,
            features,
        })
    }

    /// Reads a partition of entity type `type_index`.
    ///
    /// # Errors
    /// When the checkpoint lacks the partition, or it is damaged.
    pub fn table(&self, type_index: usize, partition: u32) -> Result<Table, RunError> {
        let layout = &self.blueprint.layout.types[type_index];
        memory::require_more(
            "reading a partition",
            layout.bytes(partition),
            "train with more partitions, or use a machine with more memory",
        )?;
        let mut data = tables::allocate_partition(layout, partition);
        let checkpoint = &self.checkpoint;
        if !checkpoint.read_partition_into(&layout.name, partition, &mut data)? {
            return Err(CheckpointMismatch::NoPartition {
                checkpoint: checkpoint.path().to_owned(),
                entity_type: layout.name.clone(),
                partition,
            }
            .into());
        }
        tables::table(layout, partition, data, self.features[type_index].clone())
    }

    /// Returns the number of entities in a partition that may be candidates.
    #[must_use]
    pub fn entities(&self, type_index: usize, partition: u32) -> u64 {
        let rows = &self.blueprint.layout.types[type_index].rows;
        match &self.features[type_index] {
            Some(features) => features.entities() as u64,
            None => rows.get(partition as usize).copied().unwrap_or(0),
        }
    }

    /// Whether an entity of type `type_index` has an embedding: a row, or a feature with a row.
    #[must_use]
    pub fn has(&self, type_index: usize, id: EntityId) -> bool {
        let rows = &self.blueprint.layout.types[type_index].rows;
        has(rows, self.features[type_index].as_ref(), id)
    }

    /// Returns the features of each entity type.
    pub fn features(&self) -> &[Option<FeatureBags>] {
        &self.features
    }

    /// Returns the number of partitions of entity type `type_index`.
    #[must_use]
    pub fn partitions(&self, type_index: usize) -> u32 {
        self.blueprint.layout.types[type_index].rows.len() as u32
    }

    /// Reads the names of the entities of type `type_index`.
    ///
    /// # Errors
    /// When the dictionary is damaged.
    pub fn dictionary(&self, type_index: usize) -> Result<Dictionary, RunError> {
        let name = &self.blueprint.layout.types[type_index].name;
        Ok(self.dataset.dictionary(name)?)
    }
}

impl ResolvedConfig {
    /// Compares the checkpoint, if there is one, with configuration and dataset, as every command does that queries it.
    ///
    /// # Errors
    /// When it belongs to another configuration or dataset, or it is damaged.
    pub fn admit_checkpoint(&self) -> Result<(), RunError> {
        match self.version() {
            Ok(found) => {
                check_compatibility(self, found.path(), found.run(), &OpenPurpose::Read)?;
                Ok(())
            }
            Err(CheckpointError::Missing { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether an entity has an embedding: a row, or a feature with a row.
pub fn has(rows: &[u64], features: Option<&FeatureBags>, id: EntityId) -> bool {
    match features {
        Some(features) => !features.of(id.offset).is_empty(),
        None => {
            let rows = rows.get(id.partition as usize);
            rows.is_some_and(|&rows| u64::from(id.offset) < rows)
        }
    }
}
