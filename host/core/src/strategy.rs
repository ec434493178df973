//! The traits that plugins implement.
//!
//! The host has mechanisms, strategies have policies: nothing in this crate decides a bucket order, a relation or a
//! loss. The implementations are WebAssembly components run by `pbg-wasm`. A strategy gets everything that it may
//! depend on as an argument, so equal arguments give equal results.

mod negatives;
mod rate_schedule;
mod run_length;
mod scores;
mod selection;

use std::sync::Arc;

use pbg_formula::loss::DerivedLoss;
use serde::{Deserialize, Serialize};

use crate::graph::{Bucket, Side};
use crate::loss::{LossState, ObservedBatches};

pub use negatives::{
    CandidateWeights, CountedEdges, DistributionError, DistributionPart, MAX_POWER,
    NegativeCandidates, NegativeSampler, RequiredData, check_distribution, drawn_fraction,
};
pub use pbg_formula::loss::MASKED;
pub use rate_schedule::{FactorError, MAX_FACTOR, RateSchedule, SchedulePosition, check_factor};
pub use run_length::RunLength;
pub use scores::{ScoreBlock, ScoreLengthError};
pub use selection::{
    CandidateScores, MAX_CANDIDATES, NegativeChunk, NegativeSelection, NegativeSelector,
    SelectionError, SelectionRequirements, SelectionWorker, check_selection,
};

/// Identity of a strategy, for messages and for the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyId {
    /// Name that the strategy gives itself.
    pub name: String,
    /// Version that the strategy gives itself.
    pub version: String,
    /// SHA-256 of the component, in hexadecimal; empty for a native strategy.
    pub sha256: String,
}

impl std::fmt::Display for StrategyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Error for a strategy that failed or broke its contract. The run ends with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin {strategy}: {function}: {reason}")]
pub struct StrategyError {
    /// Strategy that failed.
    pub strategy: StrategyId,
    /// Function that was called.
    pub function: &'static str,
    /// What happened, and what the plugin's author can do about it.
    pub reason: Box<str>,
    /// Party that is responsible.
    pub cause: FaultCause,
}

/// Party responsible for a strategy's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCause {
    /// The strategy itself.
    Strategy,
    /// The machine, which did not provide memory or another resource.
    Machine,
    /// The user or the host, who interrupted the call.
    Interruption,
}

/// Input of a bucket order: one pass over the grid of buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// Number of partitions of the left-hand side (at least 1).
    pub lhs_partitions: u32,
    /// Number of partitions of the right-hand side (at least 1).
    pub rhs_partitions: u32,
    /// Whether left partition `p` and right partition `p` contain the same entities, as they do if an entity type
    /// occurs on both sides. Loading one then loads the other.
    pub shared: bool,
    /// Number of edges in each bucket of this pass, row-major: index `lhs * rhs_partitions + rhs`.
    pub edges: Vec<u64>,
    /// Bytes of each left partition (embeddings and optimizer state); 0 if the side is not swapped.
    pub lhs_bytes: Vec<u64>,
    /// Bytes of each right partition; equal to `lhs_bytes` when `shared`.
    pub rhs_bytes: Vec<u64>,
    /// Number of partitions that fit into the buffer (at least 2).
    pub buffer_partitions: u32,
    /// Partitions in the buffer before the first bucket, in no particular order.
    pub resident: Vec<(Side, u32)>,
    /// Epoch, counted from 0.
    pub epoch: u32,
    /// Edge set within the epoch, counted from 0.
    pub edge_set: u32,
    /// Edge chunk within the edge set, counted from 0.
    pub edge_chunk: u32,
    /// Seed for everything random in this plan.
    pub seed: u64,
}

impl Pass {
    /// Returns the number of buckets in the grid.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.lhs_partitions as usize * self.rhs_partitions as usize
    }
}

/// Strategy that decides in which order the buckets of a pass are trained.
pub trait BucketOrder: Send {
    /// Returns the identity of the strategy.
    fn id(&self) -> &StrategyId;

    /// Called when a run of this length begins or continues.
    fn begin_run(&mut self, length: RunLength) {
        let _ = length;
    }

    /// Returns an order of all buckets of the grid. The caller checks that it is a permutation
    /// ([`crate::plan::check`]).
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps or exceeds its limits.
    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError>;

    /// Returns the index into `free` of the bucket to train next, while other trainers hold `held`.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps, exceeds its limits or returns an index out of range.
    fn pick(
        &mut self,
        pass: &Pass,
        held: &[Bucket],
        free: &[Bucket],
    ) -> Result<usize, StrategyError>;
}

/// Edges of the next batch: a number of the remaining edges of one relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationDraw {
    /// Relation, an index into the counts that the sampler was created with.
    pub relation: u32,
    /// Number of its edges; at least 1.
    pub edges: u32,
}

/// Strategy that chooses the relation of each single-relation batch of one worker in one bucket.
pub trait RelationSampler: Send {
    /// Returns the next draw, or `None` when every edge has been drawn.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps or exceeds its limits.
    fn next(&mut self) -> Result<Option<RelationDraw>, StrategyError>;

    /// Reports the mean loss per edge of the batch of the last draw.
    ///
    /// # Errors
    /// Fails as [`RelationSampler::next`] does.
    fn observe(&mut self, relation: u32, mean_loss: f32) -> Result<(), StrategyError>;
}

/// Factory that creates one [`RelationSampler`] per worker and bucket.
pub trait SamplerFactory: Send + Sync {
    /// Returns the identity of the strategy.
    fn id(&self) -> &StrategyId;

    /// Called when a run of this length begins or continues.
    fn begin_run(&self, length: RunLength) {
        let _ = length;
    }

    /// Creates a sampler over `counts[relation]` edges, in batches of at most `batch_size` edges.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps or exceeds its limits.
    fn create(
        &self,
        counts: &[u64],
        batch_size: u32,
        seed: u64,
    ) -> Result<Box<dyn RelationSampler>, StrategyError>;
}

/// Loss defined by a formula, for an executor that does not run on the CPU.
#[derive(Clone, Debug)]
pub struct LossFormula {
    /// Formula and its derivatives.
    pub derived: Arc<DerivedLoss>,
    /// Current values of its parameters.
    pub parameters: Vec<f32>,
}

/// Loss over rows of scores, shared by all workers. Each worker evaluates it through its own [`LossWorker`].
///
/// The caller applies the weights of edges and relations, to losses and gradients alike.
pub trait Loss: Send + Sync {
    /// Returns the identity of the strategy.
    fn id(&self) -> &StrategyId;

    /// Called when a run of this length begins or continues.
    fn begin_run(&self, length: RunLength) {
        let _ = length;
    }

    /// Creates an evaluator for one thread. Its buffers are allocated, or its plugin instance created, at its first
    /// call.
    fn worker(&self) -> Box<dyn LossWorker>;

    /// Reports a trained batch: its number of edges, and the sum of their losses over both sides, with all weights.
    /// Workers call it concurrently.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps or exceeds its limits.
    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        let _ = (edges, loss);
        Ok(())
    }

    /// Prepares for several trainers that share the loss: from now on [`Loss::observe`] only accumulates sums for
    /// [`Loss::take_observed`], and parameters change only in [`Loss::update_shared`]. Sums accumulated so far are
    /// dropped.
    fn share_parameters(&self) {}

    /// Returns the sums observed since the last call, after [`Loss::share_parameters`].
    fn take_observed(&self) -> ObservedBatches {
        ObservedBatches::default()
    }

    /// Counts batches of any trainer, and updates the parameters if they are due: at most once per call, however many
    /// batches it counts.
    ///
    /// # Errors
    /// Fails as [`Loss::observe`] does.
    fn update_shared(&self, observed: &ObservedBatches) -> Result<(), StrategyError> {
        let _ = observed;
        Ok(())
    }

    /// Returns the state that must be saved so that a run can be resumed; `None` if there is no state.
    fn state(&self) -> Option<LossState> {
        None
    }

    /// Restores the state that [`Loss::state`] returned.
    ///
    /// # Errors
    /// Returns what does not fit.
    fn restore(&self, state: &LossState) -> Result<(), String> {
        let _ = state;
        Ok(())
    }

    /// Returns the bytes of buffers that one worker needs for rows of `columns` negatives.
    fn worker_bytes(&self, columns: usize) -> usize {
        let _ = columns;
        0
    }
}

/// Evaluator of a [`Loss`] on one thread, with its own buffers or plugin instance.
pub trait LossWorker: Send {
    /// Evaluates rows of scores and their gradients, in place.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps or exceeds its limits. `scores` then contains the remaining rows: it begins
    /// with the rows that failed, whose scores are unchanged.
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError>;

    /// Returns the formula that [`LossWorker::evaluate`] executes; `None` if a plugin instance computes the loss.
    fn formula(&mut self) -> Option<&LossFormula> {
        None
    }
}
