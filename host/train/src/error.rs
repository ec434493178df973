//! What can end a run, by kind, so that the terminal can tell the kinds apart.

mod combine;
mod mismatch;
mod setting;
mod unknown;

use pbg_core::graph::Bucket;
use pbg_core::plan::PlanError;
use pbg_core::schedule::{NotHeld, PassId};
use pbg_core::strategy::{Cause, StrategyError, StrategyId};
use pbg_index::GraphError;
use pbg_kernels::device::OpenError;
use pbg_kernels::spec::SpecError;
use pbg_kernels::step::{StepError, WorkerError};
use pbg_store::checkpoint::CheckpointError;
use pbg_store::dataset::{DatasetError, ReadError, StagingError};
use pbg_store::describe::DescribeError;
use pbg_store::index::IndexError;

use crate::member::ClusterError;
use crate::memory::TooLittle;

pub use combine::CombineError;
pub use mismatch::Mismatch;
pub use setting::SettingError;
pub use unknown::UnknownName;

/// Kinds of failure, each with an exit code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The configuration does not make sense, or not with this dataset.
    Config,
    /// The dataset is missing, damaged or does not fit.
    Data,
    /// The checkpoint is missing, damaged or of another configuration.
    Checkpoint,
    /// Another run holds the checkpoint.
    Locked,
    /// A plugin failed or broke its promise.
    Plugin,
    /// A loss or an embedding is not finite.
    Numeric,
    /// Disk full, no permission and the like.
    Io,
    /// Somebody asked for the end while a plugin was at work.
    Interrupted,
    /// The other trainers cannot be reached, or do not take this one.
    Cluster,
    /// A mistake in this program.
    Internal,
}

/// What ended a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The configuration asks for what does not exist, or contradicts the dataset.
    #[error(transparent)]
    Setting(Box<SettingError>),
    /// A name that the dataset does not have.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The model that the configuration describes cannot be trained.
    #[error("the configured model cannot be trained: {0}")]
    Model(#[from] SpecError),
    /// The dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Edges cannot be read.
    #[error(transparent)]
    Edges(#[from] ReadError),
    /// What edges have cannot be counted.
    #[error(transparent)]
    Describe(DescribeError),
    /// The checkpoint cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint is sound but not of this configuration, dataset or build.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// Models do not become one.
    #[error(transparent)]
    Combine(#[from] CombineError),
    /// An index cannot be read or written, or is of other embeddings.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The library of indexes failed.
    #[error("{0}; this is a mistake in pbg-host")]
    Graph(#[from] GraphError),
    /// A strategy failed.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// A bucket order's plan is not an order of the grid.
    #[error("plugin {strategy}: plan: {source}")]
    Plan {
        /// The order.
        strategy: StrategyId,
        /// What is wrong with its plan.
        source: PlanError,
    },
    /// Training diverged.
    #[error(
        "the loss is not finite in epoch {}, edge set {}, edge chunk {}, bucket {bucket}, batch {batch} of worker \
         {worker}: {what}; the last checkpoint is kept: lower `lr` or `init_scale`, or check the data",
        pass.epoch + 1, pass.edge_set + 1, pass.edge_chunk + 1
    )]
    NotFinite {
        /// Pass.
        pass: PassId,
        /// Bucket.
        bucket: Bucket,
        /// Worker, from 0.
        worker: usize,
        /// Batch of that worker in the bucket, from 0.
        batch: usize,
        /// What is not finite.
        what: String,
    },
    /// What is ranked was trained to values that are not finite.
    #[error(
        "the score of an edge of bucket {bucket} is not finite: the training of these embeddings has diverged; train \
         again with a lower `lr` or `init_scale`"
    )]
    Diverged {
        /// Bucket.
        bucket: Bucket,
    },
    /// What answers are chosen by was trained to values that are not finite.
    #[error(
        "a score is not finite: the training of these embeddings has diverged; train again with a lower `lr` or \
         `init_scale`"
    )]
    NotComparable {
        /// Its place among those asked with it.
        question: usize,
    },
    /// Somebody asked for the end.
    #[error("stopped before the end")]
    Interrupted,
    /// The position of the run cannot be written.
    #[error("the position of the run cannot be written: {0}; this is a mistake in pbg-host")]
    Unwritable(String),
    /// The device to train on cannot be used.
    #[error("execution.device is {device:?}, which cannot be used here; nothing was trained")]
    Device {
        /// As configured.
        device: String,
        /// Why not.
        source: OpenError,
    },
    /// A bucket was reported done by one that does not hold it.
    #[error(transparent)]
    NotHeld(#[from] NotHeld),
    /// The kernels refused what the loop gave them.
    #[error("training step: {0}")]
    Step(#[from] StepError),
    /// A worker cannot be made.
    #[error("training worker: {0}")]
    Worker(#[from] WorkerError),
    /// The system gives no thread.
    #[error(
        "cannot start a thread: {0}; allow this user more processes (ulimit -u) or this process more addresses (ulimit -v)"
    )]
    Thread(String),
    /// More memory would be taken than there is.
    #[error("{0}")]
    Memory(#[from] TooLittle),
    /// This trainer cannot take part in a run of several, or no more.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A thread panicked.
    #[error(
        "a thread ended by a panic: {message}; this is a mistake in pbg-host, please report it"
    )]
    WorkerPanic {
        /// What the panic said.
        message: String,
    },
    /// Walks were asked for without an index.
    #[error(
        "no index was opened for these answers; this is a mistake in pbg-host, please report it"
    )]
    NoIndex,
    /// A group of threads was asked for more than it was ordered to make, or after it had ended.
    #[error(
        "the group `{group}` has ended and makes nothing any more; this is a mistake in pbg-host, please report it"
    )]
    GroupEnded {
        /// Its name.
        group: String,
    },
}

impl From<DescribeError> for RunError {
    fn from(error: DescribeError) -> Self {
        match error {
            DescribeError::Dataset(error) => Self::Dataset(error),
            DescribeError::Read(error) => Self::Edges(error),
            DescribeError::Cancelled => Self::Interrupted,
            error @ DescribeError::Memory { .. } => Self::Describe(error),
        }
    }
}

impl From<SettingError> for RunError {
    fn from(error: SettingError) -> Self {
        Self::Setting(Box::new(error))
    }
}

impl RunError {
    /// Which kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Setting(_) | Self::Model(_) => ErrorKind::Config,
            Self::Unknown(_) => ErrorKind::Data,
            Self::Dataset(DatasetError::File(e)) | Self::Edges(ReadError::File(e)) => {
                match e.is_damage() {
                    true => ErrorKind::Data,
                    false => ErrorKind::Io,
                }
            }
            Self::Dataset(DatasetError::Unfinished(StagingError::Busy { .. })) => ErrorKind::Locked,
            Self::Dataset(DatasetError::Unfinished(_)) => ErrorKind::Io,
            Self::Dataset(_) | Self::Edges(_) => ErrorKind::Data,
            Self::Checkpoint(e) if e.is_locked() => ErrorKind::Locked,
            Self::Checkpoint(e) if e.is_io() => ErrorKind::Io,
            Self::Index(IndexError::Busy { .. }) => ErrorKind::Locked,
            Self::Index(e) if e.is_io() => ErrorKind::Io,
            Self::Checkpoint(_) | Self::Mismatch(_) | Self::Combine(_) | Self::Index(_) => {
                ErrorKind::Checkpoint
            }
            Self::Strategy(fault) | Self::Step(StepError::Strategy(fault)) => match fault.cause {
                Cause::Strategy => ErrorKind::Plugin,
                Cause::Machine => ErrorKind::Io,
                Cause::Interruption => ErrorKind::Interrupted,
            },
            Self::Plan { .. } => ErrorKind::Plugin,
            Self::Interrupted => ErrorKind::Interrupted,
            // Training says where; what was trained before may be found out when it is ranked.
            Self::NotFinite { .. }
            | Self::Diverged { .. }
            | Self::NotComparable { .. }
            | Self::Step(StepError::NonFinite(_)) => ErrorKind::Numeric,
            Self::Thread(_)
            | Self::Device { .. }
            | Self::Memory(_)
            | Self::Describe(_)
            | Self::Step(StepError::Memory(_)) => ErrorKind::Io,
            Self::Cluster(
                ClusterError::NotYet { .. } | ClusterError::OneBucket | ClusterError::Beyond { .. },
            ) => ErrorKind::Config,
            Self::Cluster(ClusterError::Interrupted { .. }) => ErrorKind::Interrupted,
            Self::Cluster(_) => ErrorKind::Cluster,
            Self::Step(_)
            | Self::Graph(_)
            | Self::Worker(_)
            | Self::WorkerPanic { .. }
            | Self::NoIndex
            | Self::GroupEnded { .. }
            | Self::NotHeld(_)
            | Self::Unwritable(_) => ErrorKind::Internal,
        }
    }

    /// Whether a file of the checkpoint is not there.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(self, Self::Checkpoint(CheckpointError::File(file)) if file.is_not_found())
    }
}
