//! What a GPU is to the rest: a place where tables are resident and a worker trains them.
//!
//! [`Libtorch::open`](crate::libtorch::Libtorch::open) returns one. What a second implementation of the step
//! is made of is here too: the compiled stages, and the walk over them that cores and devices share.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use pbg_core::strategy::LossWorker;

use crate::error::{StepError, WorkerError};
use crate::params::Params;
use crate::spec::ModelSpec;
use crate::step::{BatchJob, BatchStats, ClusterTimes, Execution, ScoreObserver};
use crate::table::Table;

pub use crate::comparators::{Comparison, SMALLEST_SQUARE};
pub use crate::optimizer::EPSILON;
pub use crate::regularizer::N3;
pub use crate::step::execution::NO_ROUNDED_DISTANCES;
pub use crate::step::executor::{Memory, SliceStages, StepExecutor, train};
pub use crate::step::job::Programs;
pub use crate::step::pair;
pub use crate::step::plan::{BatchPlan, Slice};
pub use crate::step::program::{Compare, Gather, PassStages, Program, Scatter};

/// Bytes of buffers that a slice on a device aims at unless told otherwise: enough to keep a GPU busy,
/// little beside its memory.
pub const DEFAULT_SLICE_BYTES: usize = 256 << 20;

/// A device, opened.
pub trait Place: fmt::Debug + fmt::Display + Send + Sync {
    /// A worker of `spec` there.
    ///
    /// # Errors
    /// When the specification breaks a rule, or its step cannot be executed there.
    fn worker(
        &self,
        spec: Arc<ModelSpec>,
        execution: Execution,
    ) -> Result<Box<dyn DeviceWorker>, WorkerError>;

    /// Copies the rows of `table` to the device; they are the table then, until it is dropped.
    ///
    /// # Errors
    /// When the device fails: it has too little memory, most likely.
    fn upload(&self, table: &mut Table) -> Result<(), StepError>;
}

/// Trains batches on a device, as [`StepWorker`](crate::step::StepWorker) does on a core: the same arguments,
/// the same results up to rounding. Tables must be resident there ([`Place::upload`]).
pub trait DeviceWorker: fmt::Debug + Send {
    /// Trains one batch, as [`StepWorker::train`](crate::step::StepWorker::train).
    ///
    /// # Errors
    /// As there, or when a table is not resident.
    fn train(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
    ) -> Result<BatchStats, StepError>;

    /// As [`DeviceWorker::train`]; `observer` sees the scores before they become gradients.
    ///
    /// # Errors
    /// As [`DeviceWorker::train`].
    fn train_observed(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError>;

    /// What plans batches for this worker, on another thread.
    ///
    /// # Errors
    /// As [`Place::worker`].
    fn planner(&self) -> Result<Box<dyn BatchPlanner>, WorkerError>;

    /// As [`DeviceWorker::train`], of a batch that was planned with the same arguments. The device may still be at it when
    /// this returns: what it gives is the batch before, if that one was not given yet.
    ///
    /// # Errors
    /// As [`DeviceWorker::train`], of either batch, and when another worker's planner has planned this one. If there is one
    /// before that did not fail, [`DeviceWorker::finish`] gives it.
    fn train_planned(
        &mut self,
        job: &BatchJob<'_>,
        planned: PlannedBatch,
        loss: &mut dyn LossWorker,
    ) -> Result<Option<BatchStats>, StepError>;

    /// Waits for the last batch that was planned, and gives it if it was not given yet.
    ///
    /// # Errors
    /// As [`DeviceWorker::train`].
    fn finish(&mut self) -> Result<Option<BatchStats>, StepError>;

    /// Brings `params` up to date with the device.
    ///
    /// # Errors
    /// When the device fails.
    fn download(&self, params: &Params) -> Result<(), StepError>;

    /// Where training spent its time so far, as this thread saw it: it hands work to the device and only
    /// waits for it before gradients are applied.
    fn cluster_times(&self) -> &ClusterTimes;
}

/// A batch as a device wants it, known to the device's worker only.
pub type PlannedBatch = Box<dyn Any + Send>;

/// Computes on the host what a device needs to know of a batch: how it is cut, which rows it touches, each once, and
/// where every edge and every draw finds its own. It reads no row, so the batch before may be trained meanwhile.
pub trait BatchPlanner: fmt::Debug + Send {
    /// Checks a batch, which has edges, and plans it.
    ///
    /// # Errors
    /// When it does not fit the model or the tables.
    fn plan(&mut self, job: &BatchJob<'_>) -> Result<PlannedBatch, StepError>;
}

/// A table's rows on a device. They are the table while they are there: what is in main memory is what
/// was there when they were carried last, in either direction.
pub trait Resident: fmt::Debug + Send + Sync + std::any::Any {
    /// Brings `table`, whose rows these are, up to date with the device.
    ///
    /// # Errors
    /// When the device fails.
    fn download(&self, table: &Table) -> Result<(), StepError>;
}

/// Why no GPU can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// What computes on GPUs cannot be opened.
    #[error("{0}")]
    Library(String),
    /// There is none to be found.
    #[error(
        "libtorch finds no GPU: there is none, its driver is missing or too old for CUDA 13, or CUDA_VISIBLE_DEVICES \
         hides it (nvidia-smi shows what the driver sees)"
    )]
    NoGpu,
    /// There are fewer GPUs.
    #[error("there is no GPU {index}: libtorch finds {count}, counted from 0")]
    Index {
        /// Which was asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// Nothing here computes on GPUs.
    #[error("libtorch: {0}")]
    NotLinked(#[from] crate::libtorch::NotLinked),
}
