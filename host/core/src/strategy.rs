//! The seams where strategies plug in.
//!
//! The host has mechanisms, strategies have policies: nothing in this crate decides an order,
//! a relation or a loss. Implementations are components behind `pbg-wasm`; a strategy is given
//! everything it may depend on as an argument, so equal arguments give equal answers.

mod run_length;
mod scores;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::graph::{Bucket, Side};
use crate::loss::{Derived, LossState, Observed};

pub use run_length::RunLength;
pub use scores::{Scores, UnevenScores};

/// Which strategy answered: for messages and for the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyId {
    /// Name the strategy gives itself.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the component, in hexadecimal; empty for a native strategy.
    pub sha256: String,
}

impl std::fmt::Display for StrategyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// A strategy failed or broke its promise. The run ends with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin {strategy}: {function}: {reason}")]
pub struct StrategyError {
    /// Who.
    pub strategy: StrategyId,
    /// In which call.
    pub function: &'static str,
    /// What happened, and what its author can do about it.
    pub reason: Box<str>,
    /// Whose doing it is.
    pub cause: Cause,
}

/// Whose doing it is that a strategy did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its own.
    Strategy,
    /// That of the machine, which did not give it memory or the like.
    Machine,
    /// The user's or the host's, who asked for the end while it was at work.
    Interruption,
}

/// One walk over the grid of buckets: what an order is asked to plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// Partitions of the left-hand side (at least 1).
    pub lhs_partitions: u32,
    /// Partitions of the right-hand side (at least 1).
    pub rhs_partitions: u32,
    /// Whether left partition `p` and right partition `p` are the same entities, as they are
    /// when an entity type occurs on both sides; loading one then loads the other.
    pub shared: bool,
    /// Edges in each bucket of this pass, row-major: index `lhs * rhs_partitions + rhs`.
    pub edges: Vec<u64>,
    /// Bytes of each left partition (embeddings and optimizer state); 0 where nothing is swapped.
    pub lhs_bytes: Vec<u64>,
    /// Bytes of each right partition; equal to `lhs_bytes` when `shared`.
    pub rhs_bytes: Vec<u64>,
    /// How many partitions fit the buffer (at least 2).
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
    /// Number of buckets in the grid.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.lhs_partitions as usize * self.rhs_partitions as usize
    }
}

/// Decides in which order the buckets of a pass are trained.
pub trait BucketOrder: Send {
    /// Who this is.
    fn id(&self) -> &StrategyId;

    /// A run of this length begins, or goes on.
    fn begin_run(&mut self, length: RunLength) {
        let _ = length;
    }

    /// An order of all buckets of the grid. The caller checks that it is a permutation
    /// ([`crate::plan::check`]).
    ///
    /// # Errors
    /// When the strategy refuses, faults or exceeds its limits.
    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError>;

    /// Index into `free` of the bucket to train next, when other trainers hold `held`.
    ///
    /// # Errors
    /// When the strategy refuses, faults, exceeds its limits or answers out of range.
    fn pick(
        &mut self,
        pass: &Pass,
        held: &[Bucket],
        free: &[Bucket],
    ) -> Result<usize, StrategyError>;
}

/// Edges to take next: one relation, a number of its edges that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Relation, an index into the counts the sampler was made with.
    pub relation: u32,
    /// How many of its edges; at least 1.
    pub edges: u32,
}

/// Chooses the relation of each single-relation batch of one worker in one bucket.
pub trait RelationSampler: Send {
    /// The next draw, or `None` once every edge was drawn.
    ///
    /// # Errors
    /// When the strategy refuses, faults or exceeds its limits.
    fn next(&mut self) -> Result<Option<Draw>, StrategyError>;

    /// Mean loss per edge of the batch that the last draw gave.
    ///
    /// # Errors
    /// As [`RelationSampler::next`].
    fn observe(&mut self, relation: u32, mean_loss: f32) -> Result<(), StrategyError>;
}

/// Makes a [`RelationSampler`] per worker and bucket.
pub trait SamplerFactory: Send + Sync {
    /// Who this is.
    fn id(&self) -> &StrategyId;

    /// A run of this length begins, or goes on.
    fn begin_run(&self, length: RunLength) {
        let _ = length;
    }

    /// A sampler over `counts[relation]` edges, in batches of at most `batch_size`.
    ///
    /// # Errors
    /// When the strategy refuses, faults or exceeds its limits.
    fn create(
        &self,
        counts: &[u64],
        batch_size: u32,
        seed: u64,
    ) -> Result<Box<dyn RelationSampler>, StrategyError>;
}

/// A loss that is a formula, for an executor that computes elsewhere than on the cores.
#[derive(Clone, Debug)]
pub struct Formula {
    /// The formula and its derivatives.
    pub derived: Arc<Derived>,
    /// Its parameters as they are now.
    pub parameters: Vec<f32>,
}

/// A loss over rows of scores, as all workers share it; each evaluates it with a [`LossWorker`].
///
/// Weights of edges and relations are applied by the caller, to losses and gradients alike.
pub trait Loss: Send + Sync {
    /// Who this is.
    fn id(&self) -> &StrategyId;

    /// A run of this length begins, or goes on.
    fn begin_run(&self, length: RunLength) {
        let _ = length;
    }

    /// What evaluates it on one thread. It takes its buffers, or makes its instance, when it is first asked.
    fn worker(&self) -> Box<dyn LossWorker>;

    /// Hears of a batch that was trained: its edges, and their losses added up, both sides together,
    /// with all weights. Workers call it at the same time.
    ///
    /// # Errors
    /// When the strategy refuses, faults or exceeds its limits.
    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        let _ = (edges, loss);
        Ok(())
    }

    /// Several trainers have the loss in common: from now on [`Loss::observe`] only adds up, for
    /// [`Loss::take_observed`], and parameters change where [`Loss::count`] is called. What was added up is dropped.
    fn observe_apart(&self) {}

    /// What was observed since this was asked last, where it is only added up.
    fn take_observed(&self) -> Observed {
        Observed::default()
    }

    /// Counts batches of any trainer, and updates parameters if that is due: once, however many batches there are.
    ///
    /// # Errors
    /// As [`Loss::observe`].
    fn count(&self, observed: &Observed) -> Result<(), StrategyError> {
        let _ = observed;
        Ok(())
    }

    /// What has to be remembered so that a run can go on; `None` where nothing has.
    fn state(&self) -> Option<LossState> {
        None
    }

    /// Goes on from what [`Loss::state`] gave.
    ///
    /// # Errors
    /// What of it does not fit.
    fn restore(&self, state: &LossState) -> Result<(), String> {
        let _ = state;
        Ok(())
    }

    /// Bytes of buffers that one worker needs for rows of `columns` negatives.
    fn worker_bytes(&self, columns: usize) -> usize {
        let _ = columns;
        0
    }
}

/// Evaluates a [`Loss`] on one thread, with buffers or an instance of its own.
pub trait LossWorker: Send {
    /// Evaluates rows of scores and their gradients, in place.
    ///
    /// # Errors
    /// When the strategy refuses, faults or exceeds its limits. `scores` is then what is left to do: it begins
    /// with the rows that failed, and their scores are as they came.
    fn evaluate(&mut self, scores: &mut Scores<'_>) -> Result<(), StrategyError>;

    /// The formula that [`LossWorker::evaluate`] executes; `None` where a guest computes.
    fn formula(&mut self) -> Option<&Formula> {
        None
    }
}

/// Score of a negative that does not count: the positive itself, or padding.
pub const MASKED: f32 = -1e9;
