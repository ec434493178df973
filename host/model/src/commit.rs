//! Content of a commit besides its tables: metadata of the run, and parameters as tensors.

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{Checkpoint, PartitionData, TargetCommit, Tensor};
use pbg_core::strategy::StrategyId;
use pbg_rows::params::{ParamTensor, Params};

use crate::error::{CheckpointMismatch, RunError, SettingError};
use crate::memory;
use crate::model_bytes;
use crate::resolved::ResolvedConfig;
use crate::rounding::{Point, Roundings};
use crate::state::{RunState, dictionaries};
use crate::stored;
use crate::tables;

/// Suffix of the names of a parameter's accumulators.
const ACCUMULATOR: &str = ".adagrad";

/// Returns the metadata of a run's commits, without its position.
pub fn run_info(
    resolved: &ResolvedConfig,
    strategies: Vec<StrategyId>,
) -> Result<RunInfo, RunError> {
    let config = resolved.config();
    let to_toml = config.to_toml();
    Ok(RunInfo {
        config: to_toml.map_err(|e| SettingError::Unwritable(e.to_string()))?,
        config_hash: resolved.training_hash().to_owned(),
        dataset_path: stored::path_of_dataset(config),
        dataset: dictionaries(config, resolved.dataset()),
        ids: Some(resolved.ids()?),
        edges: resolved.edges_read(),
        strategies,
        storage: config.storage,
        optimizer: config.optimizer,
        within_bucket: false,
        state: serde_json::Value::Null,
    })
}

impl ResolvedConfig {
    /// Returns the initial parameters of a run and their accumulators.
    ///
    /// # Errors
    /// When there is too little memory for them.
    pub fn first_parameters(&self) -> Result<Vec<Tensor>, RunError> {
        let spec = &self.blueprint().spec;
        // The drawn parameters and a copy.
        let bytes = model_bytes::parameter_bytes(spec).saturating_mul(2);
        memory::require_more("initialising parameters", bytes, memory::FEWER_PARAMETERS)?;
        Ok(model(&Params::new(spec, self.config().seed)))
    }

    /// Writes a partition of a checkpoint whose values are imported from elsewhere.
    ///
    /// # Errors
    /// When it has another shape or cannot be written.
    pub fn write_imported_partition(
        &self,
        checkpoint: &Checkpoint,
        (entity_type, partition): (&str, u32),
        mut data: PartitionData,
    ) -> Result<(), RunError> {
        let blueprint = self.blueprint();
        let index = blueprint.entity_type(entity_type);
        let found = index.filter(|&i| (partition as usize) < blueprint.layout.types[i].rows.len());
        let index = found.ok_or_else(|| CheckpointMismatch::NoPartition {
            checkpoint: checkpoint.path().to_owned(),
            entity_type: entity_type.to_owned(),
            partition,
        })?;
        let layout = &blueprint.layout.types[index];
        tables::check_shape(layout, partition, &data)?;
        data.convert(layout.optimizer);
        let rounding = Roundings::new(self.config()).at(Point::Beginning, (index, partition));
        if let Some(rounding) = rounding {
            rounding.round_all(data.dim, &mut data.embeddings);
        }
        Ok(tables::with_data(layout, &data, |rows| {
            checkpoint.write_rows(entity_type, partition, rows, TargetCommit::Next)
        })?)
    }
}

/// Returns the metadata of the first commit of a run that has trained nothing, for values imported from elsewhere.
/// `strategies` are the ids of the bucket order, the relation sampler, the loss, the
/// choice of negatives and the learning rate schedule.
///
/// # Errors
/// When the configuration cannot be written.
pub fn beginning(
    resolved: &ResolvedConfig,
    strategies: Vec<StrategyId>,
) -> Result<RunInfo, RunError> {
    let state = serde_json::to_value(RunState::default());
    Ok(RunInfo {
        state: state.map_err(|e| RunError::Unwritable(e.to_string()))?,
        ..run_info(resolved, strategies)?
    })
}

/// Returns the parameters and their accumulators as tensors.
pub fn model(params: &Params) -> Vec<Tensor> {
    let named = |name: String, shape: &[usize], values| Tensor {
        name,
        shape: shape.to_vec(),
        values,
    };
    let tensors = params.tensors().iter().flat_map(|tensor| {
        let accumulator = format!("{}{ACCUMULATOR}", tensor.name);
        [
            named(tensor.name.clone(), &tensor.shape, tensor.to_vec()),
            named(accumulator, &tensor.shape, tensor.adagrad_to_vec()),
        ]
    });
    tensors.collect()
}

/// Sets `params` to the tensors of a checkpoint. Relations that the checkpoint lacks keep their current values.
pub fn read_model(tensors: Vec<Tensor>, params: &mut Params) -> Result<(), RunError> {
    let find = |name: &str| tensors.iter().find(|t| t.name == name);
    for tensor in tensors.iter().filter(|t| !t.name.ends_with(ACCUMULATOR)) {
        let adagrad = find(&format!("{}{ACCUMULATOR}", tensor.name));
        let adagrad = adagrad.map(|t| t.values.as_slice());
        let known = params.tensor(&tensor.name);
        let set = match known.is_some_and(|known| is_longer(known, tensor)) {
            true => params.set_prefix(&tensor.name, &tensor.values, adagrad),
            false => params.set(&tensor.name, &tensor.values, adagrad),
        };
        set.map_err(CheckpointMismatch::from)?;
    }
    Ok(())
}

/// Whether the model has more rows of a parameter with one row per relation than a checkpoint.
fn is_longer(of_model: &ParamTensor, stored: &Tensor) -> bool {
    match (&of_model.shape[..], &stored.shape[..]) {
        ([now, row @ ..], [was, stored_row @ ..]) => now > was && row == stored_row,
        _ => false,
    }
}
