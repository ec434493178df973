//! Metadata of a commit, and the checks before a run resumes from one.

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{Checkpoint, PartitionData, TargetCommit, Tensor};
use pbg_core::event::Resumed;
use pbg_core::strategy::StrategyId;
use pbg_kernels::params::{ParamTensor, Params};

use crate::check;
use crate::compatibility::{self, AcceptedDifferences, AllowedChanges, OpenPurpose};
use crate::error::{CheckpointMismatch, RunError, SettingError};
use crate::memory;
use crate::resolved::ResolvedConfig;
use crate::rounding::{Point, Roundings};
use crate::run::Strategies;
use crate::state::{EpochSums, RunState, dictionaries};
use crate::stored;
use crate::tables::{self, CommitContent};

/// Suffix of the names of a parameter's accumulators.
const ACCUMULATOR: &str = ".adagrad";

/// Commits of one run.
pub(crate) struct CommitMetadata {
    /// Metadata that every commit has in common, without the position of the run.
    run: RunInfo,
    allowed: AllowedChanges,
}

/// Starting point of a run.
#[derive(Default)]
pub(crate) struct StartingPoint {
    pub(crate) state: RunState,
    /// Position where an earlier run stopped.
    pub(crate) resumed: Option<Resumed>,
    /// Allowed differences between this run and its checkpoint.
    pub(crate) admitted: AcceptedDifferences,
}

impl CommitMetadata {
    pub(crate) fn new(
        resolved: &ResolvedConfig,
        strategies: &Strategies,
        allowed: AllowedChanges,
    ) -> Result<Self, RunError> {
        let run = run_info(resolved, strategies.ids())?;
        Ok(Self { run, allowed })
    }

    /// Returns the state to resume from and restores `params`. Before the first commit, returns an initial state.
    pub(crate) fn resume(
        &self,
        resolved: &ResolvedConfig,
        checkpoint: &Checkpoint,
        params: &mut Params,
    ) -> Result<StartingPoint, RunError> {
        let Some(run) = checkpoint.run() else {
            return Ok(StartingPoint::default());
        };
        let purpose = OpenPurpose::Resume {
            strategies: &self.run.strategies,
            allowed: self.allowed,
        };
        let admitted =
            compatibility::check_compatibility(resolved, checkpoint.path(), &run, &purpose)?;
        read_model(checkpoint.model()?, params)?;
        let mut state: RunState = serde_json::from_value(run.state.clone())
            .map_err(|e| CheckpointMismatch::position(checkpoint.path(), e))?;
        let mut resumed = Resumed {
            pass: state.schedule.pass(),
            done: state.schedule.done() as u64,
            edges: 0,
            version: checkpoint.version(),
        };
        reset_changed(&mut state, &admitted);
        if let Some(within) = &state.within {
            resumed.edges = within.sums.stats.count;
        }
        Ok(StartingPoint {
            state,
            resumed: Some(resumed),
            admitted,
        })
    }

    /// Returns the content of a commit now: the position of the run and the current `params`.
    pub(crate) fn content(
        &self,
        metrics_length: u64,
        params: &Params,
        state: &RunState,
    ) -> Result<CommitContent, RunError> {
        let within_bucket = state.within.is_some();
        let state = serde_json::to_value(state).map_err(|e| RunError::Unwritable(e.to_string()))?;
        let run = RunInfo {
            state,
            within_bucket,
            ..self.run.clone()
        };
        Ok(CommitContent {
            run,
            metrics_length,
            model: model(params),
        })
    }
}

/// Resets the parts of a run's state that do not apply to changed edges.
pub(crate) fn reset_changed(state: &mut RunState, admitted: &AcceptedDifferences) {
    if admitted.other_training && state.schedule.is_within_epoch() {
        // It cannot be determined which of the new edges the interrupted epoch has trained.
        state.schedule.restart_epoch();
        state.epoch = EpochSums::default();
        state.within = None;
    }
    if admitted.other_validation {
        state.plateau.forget_best();
    }
}

/// Returns the metadata of a run's commits, without its position.
pub(crate) fn run_info(
    resolved: &ResolvedConfig,
    strategies: Vec<StrategyId>,
) -> Result<RunInfo, RunError> {
    let config = resolved.config();
    let to_toml = config.to_toml();
    Ok(RunInfo {
        config: to_toml.map_err(|e| SettingError::Unwritable(e.to_string()))?,
        config_hash: config.training_hash(),
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
    /// Returns the metadata of the first commit of a run that has trained nothing, for values imported from elsewhere.
    ///
    /// # Errors
    /// When the configuration cannot be written.
    pub fn beginning(&self, strategies: &Strategies) -> Result<RunInfo, RunError> {
        beginning(self, strategies.ids())
    }

    /// Returns the initial parameters of a run and their accumulators.
    ///
    /// # Errors
    /// When there is too little memory for them.
    pub fn first_parameters(&self) -> Result<Vec<Tensor>, RunError> {
        let spec = &self.blueprint().spec;
        // The drawn parameters and a copy.
        let bytes = check::parameter_bytes(spec).saturating_mul(2);
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

/// Returns the metadata as [`ResolvedConfig::beginning`] does, for known strategies.
pub(crate) fn beginning(
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
pub(crate) fn model(params: &Params) -> Vec<Tensor> {
    let named = |name: String, shape: &[usize], values| Tensor {
        name,
        shape: shape.to_vec(),
        values,
    };
    params
        .tensors()
        .iter()
        .flat_map(|tensor| {
            let accumulator = format!("{}{ACCUMULATOR}", tensor.name);
            [
                named(tensor.name.clone(), &tensor.shape, tensor.to_vec()),
                named(accumulator, &tensor.shape, tensor.adagrad_to_vec()),
            ]
        })
        .collect()
}

/// Sets `params` to the tensors of a checkpoint. Relations that the checkpoint lacks keep their current values.
pub(crate) fn read_model(tensors: Vec<Tensor>, params: &mut Params) -> Result<(), RunError> {
    let find = |name: &str| tensors.iter().find(|t| t.name == name);
    for tensor in tensors.iter().filter(|t| !t.name.ends_with(ACCUMULATOR)) {
        let adagrad = find(&format!("{}{ACCUMULATOR}", tensor.name));
        let adagrad = adagrad.map(|t| t.values.as_slice());
        let longer = params
            .tensor(&tensor.name)
            .is_some_and(|p| is_longer(p, tensor));
        let set = match longer {
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
