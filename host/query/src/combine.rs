//! Combination of several models into one: the mean of versions of a run, or a model whose scores are the sums of their
//! scores.
//!
//! Used by the `combine` command. It keeps in memory only one partition of one model and the resulting partition.

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use combination::Combination;
use joined::RowAccumulator;
use pbg_checkpoint::{
    Checkpoint, CheckpointError, PartitionData, ReadCheckpoint, TensorRef, list_preserved,
};
use pbg_config::Config;
use pbg_core::model::Optimizer;
use pbg_model::error::{CheckpointMismatch, CombineError, RunError};
use pbg_model::layout::TableKey;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::stored::StoredModel;
use pbg_model::{commit, memory, model_bytes, tables};
use pbg_rows::params::{ParamTensor, Params};

mod combination;
mod fit;
mod joined;

/// Result of combining several models.
#[derive(Clone, Debug)]
pub struct Combined {
    /// The new model.
    pub resolved: ResolvedConfig,
    /// Whether the models began with different seeds.
    pub other_seeds: bool,
}

/// Combines the checkpoints in `folders`, of which there must be at least one, into a checkpoint in folder `out`.
/// `progress` receives the number of partitions read and their total.
///
/// The new checkpoint has no trained epochs: a run that resumes from it begins with the first epoch.
///
/// # Errors
/// When a checkpoint cannot be read, the models do not match, or `out` contains a checkpoint or cannot be written.
pub fn combine(
    combination: Combination,
    folders: &[PathBuf],
    out: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Combined, RunError> {
    let models = Models::open(combination, folders)?;
    let result = models.result(out)?;
    memory::require("combining models", models.bytes(&result), 0)?;
    result.check_checkpoint_path()?;
    let checkpoint = vacant(out)?;
    let types = &result.blueprint().layout.types;
    let partitions = types.iter().map(|layout| layout.rows.len() as u64);
    let (mut read, all) = (0, partitions.sum::<u64>() * models.all.len() as u64);
    for (index, layout) in types.iter().enumerate() {
        for partition in 0..layout.rows.len() as u32 {
            let data = models.partition(&result, (index, partition), &mut || {
                read += 1;
                progress(read, all);
            })?;
            result.write_imported_partition(&checkpoint, (&layout.name, partition), data)?;
        }
    }
    let tensors = commit::model(&models.parameters(&result)?);
    let borrowed: Vec<_> = tensors.iter().map(TensorRef::from).collect();
    checkpoint.write_model(&borrowed)?;
    let strategies = models.all[0].checkpoint.run().strategies.clone();
    checkpoint.commit(commit::beginning(&result, strategies)?)?;
    let first = models.all[0].seed;
    Ok(Combined {
        resolved: result,
        other_seeds: models.all.iter().any(|model| model.seed != first),
    })
}

/// Returns the folders of the last `count` epochs that the run in folder `checkpoint` has preserved.
///
/// # Errors
/// When fewer are preserved, or the folder cannot be read.
pub fn last_versions(checkpoint: &Path, count: usize) -> Result<Vec<PathBuf>, RunError> {
    ReadCheckpoint::open(checkpoint)?;
    let mut versions = list_preserved(checkpoint).map_err(CheckpointError::from)?;
    let Some(first) = versions.len().checked_sub(count) else {
        return Err(CombineError::Kept {
            checkpoint: checkpoint.to_owned(),
            kept: versions.len(),
            wanted: count,
        }
        .into());
    };
    Ok(versions.split_off(first))
}

/// Opens the checkpoint in `out`, which must not have a version yet. Called only once everything else is known to
/// match, so that a refusal leaves no files.
fn vacant(out: &Path) -> Result<Checkpoint, RunError> {
    let checkpoint = Checkpoint::open(out)?;
    if checkpoint.run().is_some() {
        return Err(CombineError::Occupied(out.to_owned()).into());
    }
    checkpoint.sweep()?;
    Ok(checkpoint)
}

/// Model that is combined with others.
struct SourceModel {
    checkpoint: Arc<ReadCheckpoint>,
    /// Configuration of the first model with the dimensions of this one.
    resolved: ResolvedConfig,
    seed: u64,
    params: Params,
}

/// Models that are combined. They are the same except for their dimensions.
struct Models {
    combination: Combination,
    all: Vec<SourceModel>,
    /// Number of components of equal length that operators divide an embedding into.
    components: usize,
}

impl Models {
    fn open(combination: Combination, folders: &[PathBuf]) -> Result<Self, RunError> {
        let mut all: Vec<SourceModel> = Vec::new();
        for folder in folders {
            let stored = StoredModel::open(folder)?;
            let (own, checkpoint) = (stored.config, stored.version);
            let take_own = |config: &mut Config| fit::take_dimensions(config, &own);
            let resolved = match all.first() {
                None => ResolvedConfig::new(own.clone())?,
                Some(first) => first.resolved.with(take_own)?,
            };
            fit::same_ids(&resolved, folder, checkpoint.run())?;
            if let Some(first) = all.first() {
                let dimensions = combination == Combination::Average;
                fit::same_model(first.resolved.config(), &own, folder, dimensions)?;
            }
            let spec = &resolved.blueprint().spec;
            let parameters = model_bytes::parameter_bytes(spec).saturating_mul(2);
            let remedy = "combine fewer models at once";
            memory::require_more("combining models", parameters, remedy)?;
            let mut params = Params::new(spec, own.seed);
            commit::read_model(checkpoint.model()?, &mut params)?;
            all.push(SourceModel {
                checkpoint,
                resolved,
                seed: own.seed,
                params,
            });
        }
        let components = match (combination, all.first()) {
            (Combination::Concatenate, Some(first)) => {
                fit::additive(&first.resolved.blueprint().spec)?
            }
            _ => 1,
        };
        Ok(Self {
            combination,
            all,
            components,
        })
    }

    /// Returns the resolved configuration of the result, with `out` as its checkpoint.
    fn result(&self, out: &Path) -> Result<ResolvedConfig, RunError> {
        let configs: Vec<_> = self.all.iter().map(|m| m.resolved.config()).collect();
        if self.combination == Combination::Concatenate {
            fit::divisible(&configs, self.components)?;
        }
        self.all[0].resolved.with(|config| {
            config.checkpoint_path = out.to_string_lossy().into_owned();
            if self.combination == Combination::Concatenate {
                fit::add_dimensions(config, &configs);
            }
        })
    }

    /// Returns the bytes of memory needed in all, including the parameters of the open models.
    fn bytes(&self, result: &ResolvedConfig) -> u64 {
        let largest = |resolved: &ResolvedConfig| {
            let types = resolved.blueprint().layout.types.iter();
            // Embeddings, and the state of their optimizer, from which an accumulator for each element is computed.
            let numbers = |dim: usize, state: usize| (dim + state.max(dim)) as u64;
            let bytes = types.flat_map(|t| {
                let of_row = 4 * numbers(t.dimension, t.optimizer.state_width(t.dimension));
                t.rows.iter().map(move |rows| rows * of_row)
            });
            bytes.max().unwrap_or(0)
        };
        let own = self.all.iter().map(|model| largest(&model.resolved));
        let parameters =
            |resolved: &ResolvedConfig| model_bytes::parameter_bytes(&resolved.blueprint().spec);
        let open = self.all.iter().map(|model| parameters(&model.resolved));
        // The parameters of the result exist three times: concatenated, in the model, and as they are written.
        let joined = parameters(result).saturating_mul(3);
        let partitions = [largest(result), own.max().unwrap_or(0)];
        let others = [joined, model_bytes::program().1];
        memory::sum(open.chain(partitions).chain(others))
    }

    /// Computes a partition of the result.
    fn partition(
        &self,
        result: &ResolvedConfig,
        (index, partition): TableKey,
        read: &mut dyn FnMut(),
    ) -> Result<PartitionData, RunError> {
        let layout = &result.blueprint().layout.types[index];
        let (rows, dim) = (layout.rows[partition as usize] as usize, layout.dimension);
        let optimizer = match self.combination {
            Combination::Average => layout.optimizer,
            // The accumulators of the elements are converted to one per row, if the result needs that, once all are
            // concatenated.
            Combination::Concatenate => Optimizer::Adagrad,
        };
        let joined = |width| RowAccumulator::new(self.combination, rows, width, self.components);
        let mut embeddings = joined(dim);
        let mut state = joined(optimizer.state_width(dim));
        let mut data = PartitionData::default();
        for model in &self.all {
            let own = &model.resolved.blueprint().layout.types[index];
            let name = &own.name;
            let stored = &model.checkpoint;
            if !stored.read_partition_into(name, partition, &mut data)? {
                return Err(CheckpointMismatch::NoPartition {
                    checkpoint: stored.path().to_owned(),
                    entity_type: name.clone(),
                    partition,
                }
                .into());
            }
            tables::check_shape(own, partition, &data)?;
            data.convert(optimizer);
            embeddings.add(&data.embeddings);
            state.add(&data.state);
            read();
        }
        Ok(PartitionData {
            rows,
            dim,
            embeddings: embeddings.finish(),
            optimizer,
            state: state.finish(),
        })
    }

    /// Returns the accumulator of a parameter tensor of the result.
    fn parameter_accumulator(&self, tensor: &ParamTensor) -> RowAccumulator {
        let (rows, width) = (tensor.values.rows(), tensor.values.width());
        if tensor.is_matrix() {
            return RowAccumulator::of_matrices(self.combination, rows, tensor.dimension);
        }
        // An operator may have one parameter for several elements of an embedding.
        let parts = self.components * width / tensor.dimension;
        RowAccumulator::new(self.combination, rows, width, parts)
    }

    /// Computes the operators and global embeddings of the result.
    fn parameters(&self, result: &ResolvedConfig) -> Result<Params, RunError> {
        let mut params = Params::new(&result.blueprint().spec, result.config().seed);
        let mut values = Vec::new();
        for (index, tensor) in params.tensors().iter().enumerate() {
            let mut joined = [(); 2].map(|()| self.parameter_accumulator(tensor));
            for model in &self.all {
                let own = &model.params.tensors()[index];
                joined[0].add(&own.to_vec());
                joined[1].add(&own.adagrad_to_vec());
            }
            values.push((tensor.name.clone(), joined.map(RowAccumulator::finish)));
        }
        for (name, [values, adagrad]) in values {
            let set = params.set(&name, &values, Some(&adagrad));
            set.map_err(CheckpointMismatch::from)?;
        }
        Ok(params)
    }
}
