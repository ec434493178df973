//! GPUs as the other crates see them: devices on which tables are resident and workers train them.
//!
//! [`Libtorch::open`](crate::libtorch::Libtorch::open) opens one. This module also exports what a second implementation
//! of the step needs: the planned steps, and the loop over them that cores and devices share.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use pbg_core::strategy::LossWorker;
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;

use crate::error::{LibtorchNotLoaded, StepError, WorkerError};
pub use crate::score_function::{SMALLEST_SQUARE, ScoreFunction};
pub use crate::step::execution::NO_ROUNDED_DISTANCES;
pub use crate::step::executor::{SliceStages, StepBuffers, StepExecutor, side_and_other, train};
pub use crate::step::job::StepPlans;
pub use crate::step::plan::{BatchPlan, Slice};
use crate::step::{BatchJob, BatchStats, Execution, ScoreObserver, StageTimes};

/// Default target size of a slice's buffers on a device, in bytes: enough to keep a GPU busy, and little in comparison
/// with its memory.
pub const DEFAULT_SLICE_BYTES: usize = 256 << 20;

/// An opened device.
pub trait OpenDevice: fmt::Debug + fmt::Display + Send + Sync {
    /// Creates a worker that trains `spec` on the device.
    ///
    /// # Errors
    /// When the specification breaks a rule, or the device cannot execute its step.
    fn worker(
        &self,
        spec: Arc<ModelSpec>,
        execution: Execution,
    ) -> Result<Box<dyn DeviceWorker>, WorkerError>;

    /// Copies the rows of `table` to the device. Until the table is dropped, the rows on the device are the valid ones.
    ///
    /// # Errors
    /// When the device fails, most likely because it has too little memory.
    fn upload(&self, table: &mut Table) -> Result<(), StepError>;
}

/// A worker that trains batches on a device. Arguments and, up to rounding, results are those of
/// [`StepWorker`](crate::step::StepWorker). Tables must be resident on the device ([`OpenDevice::upload`]).
pub trait DeviceWorker: fmt::Debug + Send {
    /// Replaces the specification by one that differs from it in the learning rates only, as
    /// [`StepWorker::set_rates`](crate::step::StepWorker::set_rates).
    fn set_rates(&mut self, spec: Arc<ModelSpec>);

    /// Trains one batch, as [`StepWorker::train`](crate::step::StepWorker::train).
    ///
    /// # Errors
    /// As for `StepWorker::train`, or when a table is not resident.
    fn train(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
    ) -> Result<BatchStats, StepError>;

    /// Trains one batch like [`DeviceWorker::train`]; `observer` receives the scores before they become gradients.
    ///
    /// # Errors
    /// As [`DeviceWorker::train`].
    fn train_observed(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError>;

    /// Creates a planner of batches for this worker, for use on another thread.
    ///
    /// # Errors
    /// As [`OpenDevice::worker`].
    fn planner(&self) -> Result<Box<dyn BatchPlanner>, WorkerError>;

    /// Trains, like [`DeviceWorker::train`], a batch that was planned with the same arguments. The device may still be
    /// working on it when this returns: the result is that of the previous batch, unless it was already returned.
    ///
    /// # Errors
    /// As [`DeviceWorker::train`], for either batch, and when the planner of another worker planned this one. If there
    /// is a previous batch that did not fail, [`DeviceWorker::finish`] returns its result.
    fn train_planned(
        &mut self,
        job: &BatchJob<'_>,
        planned: DevicePlan,
        loss: &mut dyn LossWorker,
    ) -> Result<Option<BatchStats>, StepError>;

    /// Waits for the last planned batch and returns its result, unless it was already returned.
    ///
    /// # Errors
    /// As [`DeviceWorker::train`].
    fn finish(&mut self) -> Result<Option<BatchStats>, StepError>;

    /// Copies the parameters from the device to `params`.
    ///
    /// # Errors
    /// When the device fails.
    fn download(&self, params: &Params) -> Result<(), StepError>;

    /// Returns the time spent in each cluster of stages so far, as measured on this thread. The thread passes work to
    /// the device and waits for it only before gradients are applied.
    fn cluster_times(&self) -> &StageTimes;
}

/// A batch planned for a device, in a form that only the device's worker knows.
pub type DevicePlan = Box<dyn Any + Send>;

/// A planner of batches for a device.
///
/// It computes on the host what the device needs to know of a batch: the slices, the rows that it touches (each once),
/// and the position of each edge and each draw among them. It reads no rows, so the previous batch may be trained in
/// the meantime.
pub trait BatchPlanner: fmt::Debug + Send {
    /// Checks and plans a batch, which must not be empty.
    ///
    /// # Errors
    /// When the batch does not fit the model or the tables.
    fn plan(&mut self, job: &BatchJob<'_>) -> Result<DevicePlan, StepError>;
}

/// Reason why a GPU cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The library that computes on GPUs cannot be opened.
    #[error("{0}")]
    Library(String),
    /// No GPU was found.
    #[error(
        "libtorch finds no GPU: there is none, its driver is missing or too old for CUDA 13, or CUDA_VISIBLE_DEVICES \
         hides it (nvidia-smi shows what the driver sees)"
    )]
    NoGpu,
    /// The index is beyond the last GPU.
    #[error("there is no GPU {index}: libtorch finds {count}, counted from 0")]
    Index {
        /// Index of the requested GPU.
        index: u32,
        /// Number of GPUs.
        count: u32,
    },
    /// libtorch is not loaded.
    #[error("libtorch: {0}")]
    LibtorchNotLoaded(#[from] LibtorchNotLoaded),
}
