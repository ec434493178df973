//! The training step: one batch from offsets to updated rows.
//!
//! What is computed is a graph ([`pbg_core::batch_graph`]), whose clusters `train` walks. A batch is cut
//! into chunks of positives that share negatives, and into slices of chunks that share buffers. Everything
//! is inner products of prepared rows: scores are `Q K'`, and with the loss's derivatives `S` in place of
//! the scores the gradients are `S K` and `S' Q`. Where a chunk's own positives are negatives, the
//! diagonal, which is masked, carries the positives' derivatives, and their gradients come with the
//! products. Gradients of table rows are summed over the batch and applied once at its end.

mod backward;
mod direction;
mod evaluate;
mod execution;
pub(crate) mod job;
mod memory;
mod parameters;
pub(crate) mod plan;
pub(crate) mod side;
mod times;
mod train;

use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::strategy::StrategyError;

use crate::accumulate::GradientRows;
use crate::spec::{ModelSpec, SpecError};
pub use evaluate::EvalStats;
pub use execution::{Execution, has_fast_bf16};
pub use job::Job;
pub use memory::{TypeRows, negatives, slice_plan, worker_bytes};
pub use pbg_core::batch_graph::Cluster;
pub use times::ClusterTimes;

use direction::Scores;
use job::Graphs;
use parameters::{ParameterGradients, ParameterValues};
use side::SideBuffers;

pub use crate::batch::{Batch, Relations, Tables};

/// Why a batch was not trained.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StepError {
    /// The loss or a gradient is infinite or not a number.
    #[error("the {0} is not finite: lower lr, or set max_norm")]
    NonFinite(&'static str),
    /// The batch does not fit the model or the tables.
    #[error("batch: {0}")]
    Batch(String),
    /// The loss plugin failed.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// A relation cannot be trained.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// libtorch failed: out of memory, most likely.
    #[error("libtorch: {0}")]
    Tensor(String),
}

impl From<tch::TchError> for StepError {
    fn from(error: tch::TchError) -> Self {
        Self::Tensor(error.to_string())
    }
}

/// Why a worker could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrainerError {
    /// The model cannot be trained.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// libtorch failed.
    #[error("libtorch: {0}")]
    Tensor(String),
}

/// Sums over the edges of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchStats {
    /// Edges.
    pub count: usize,
    /// Loss of the negatives that replace the left side, with all weights.
    pub loss_lhs: f64,
    /// Loss of those that replace the right side.
    pub loss_rhs: f64,
    /// Regulariser.
    pub reg: f64,
    /// Negatives that replace the left side and score above their positive.
    pub violators_lhs: u64,
    /// Negatives that replace the right side and score above their positive.
    pub violators_rhs: u64,
}

impl BatchStats {
    /// Loss of both sides, without the regulariser.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.loss_lhs + self.loss_rhs
    }
}

impl BatchStats {
    fn add(&mut self, side: Side, loss: f64, violators: u64) {
        match side {
            Side::Lhs => {
                (self.loss_lhs, self.violators_lhs) =
                    (self.loss_lhs + loss, self.violators_lhs + violators)
            }
            Side::Rhs => {
                (self.loss_rhs, self.violators_rhs) =
                    (self.loss_rhs + loss, self.violators_rhs + violators)
            }
        }
    }
}

impl std::ops::AddAssign for BatchStats {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.loss_lhs += other.loss_lhs;
        self.loss_rhs += other.loss_rhs;
        self.reg += other.reg;
        self.violators_lhs += other.violators_lhs;
        self.violators_rhs += other.violators_rhs;
    }
}

/// Scores of part of a batch, for tests and inspection: the side that is replaced, the first edge, the
/// positives' scores, and the negatives' `[edges, columns]`, masked ones as
/// [`MASKED`](pbg_core::strategy::MASKED).
pub type ScoreObserver<'a> = dyn FnMut(Side, usize, &[f32], &[f32]) + 'a;

/// One Hogwild worker: the model's rules and all buffers that a batch needs.
///
/// Buffers grow to what the largest batch so far needed; after that a batch allocates nothing but the
/// headers of tensor views.
#[derive(Debug)]
pub struct Trainer {
    spec: Arc<ModelSpec>,
    execution: Execution,
    graphs: Graphs,
    sides: [SideBuffers; 2],
    scores: Scores,
    /// Per table; the first one serves both sides when they share it.
    rows: [GradientRows; 2],
    values: ParameterValues,
    gradients: ParameterGradients,
    scratch: Vec<f32>,
    times: ClusterTimes,
}

impl Trainer {
    /// A worker for `spec`.
    ///
    /// # Errors
    /// When the specification breaks a rule, or libtorch fails.
    pub fn new(spec: Arc<ModelSpec>) -> Result<Self, TrainerError> {
        spec.validate()?;
        Self::with_buffers(spec).map_err(|e| TrainerError::Tensor(e.to_string()))
    }

    fn with_buffers(spec: Arc<ModelSpec>) -> Result<Self, tch::TchError> {
        Ok(Self {
            graphs: Graphs::default(),
            spec,
            execution: Execution::default(),
            sides: [SideBuffers::new()?, SideBuffers::new()?],
            scores: Scores::new()?,
            rows: Default::default(),
            values: ParameterValues::new()?,
            gradients: ParameterGradients::new()?,
            scratch: Vec::new(),
            times: ClusterTimes::new(),
        })
    }

    /// Sets how the work is laid out.
    #[must_use]
    pub fn with_execution(self, execution: Execution) -> Self {
        Self {
            execution,
            graphs: Graphs::default(),
            ..self
        }
    }

    /// Sets how many bytes of buffers a slice aims at.
    #[must_use]
    pub fn with_slice_bytes(mut self, slice_bytes: usize) -> Self {
        self.execution.slice_bytes = slice_bytes.max(1);
        self
    }

    /// Where training spent its time so far.
    #[must_use]
    pub fn cluster_times(&self) -> &ClusterTimes {
        &self.times
    }

    /// Bytes of the buffers as they are now; they grow to what the largest batch needs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let sides: usize = self.sides.iter().map(SideBuffers::bytes).sum();
        let rows: usize = self.rows.iter().map(GradientRows::bytes).sum();
        sides + rows + self.scores.bytes() + self.gradients.bytes()
    }

    /// The model's rules.
    #[must_use]
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }
}
