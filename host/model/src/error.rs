//! Errors that can end a run, grouped by kind so that the program can distinguish them.

mod combine;
mod join;
mod mismatch;
mod setting;
mod unknown;

use std::path::PathBuf;

use pbg_checkpoint::CheckpointError;
use pbg_checkpoint::index::IndexError;
use pbg_core::graph::Bucket;
use pbg_core::plan::PlanError;
use pbg_core::schedule::{NotLeased, PassId};
use pbg_core::strategy::{FaultCause, StrategyError, StrategyId};
use pbg_dataset::describe::DescribeError;
use pbg_dataset::{DatasetError, EdgeReadError, StagingError};
use pbg_files::FileError;
use pbg_index::NeighborGraphError;
use pbg_kernels::device::OpenError;
use pbg_kernels::step::{StepError, WorkerError};
use pbg_rows::spec::SpecError;
use pbg_rows::table::TransferError;
use pbg_vectors::VectorError;

use crate::memory::NotEnoughMemory;

pub use combine::CombineError;
pub use join::JoinError;
pub use mismatch::CheckpointMismatch;
pub use setting::SettingError;
pub use unknown::UnknownName;

/// Kinds of failure, each with its own exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The configuration is invalid, or does not match the dataset.
    Config,
    /// The dataset is missing, damaged or does not match.
    Data,
    /// The checkpoint is missing, damaged or belongs to another configuration.
    Checkpoint,
    /// Another run holds the checkpoint.
    Locked,
    /// A plugin failed or violated its contract.
    Plugin,
    /// A loss or an embedding is not finite.
    Numeric,
    /// An operation on files or memory failed, such as a full disk or a missing permission.
    Io,
    /// The user stopped the run while a plugin was running.
    Interrupted,
    /// The other trainers cannot be reached, or do not admit this one.
    Cluster,
    /// A bug in pbg-host.
    Internal,
}

/// Error that ended a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The configuration names something that does not exist, or contradicts the dataset.
    #[error(transparent)]
    Setting(Box<SettingError>),
    /// A name does not occur in the dataset.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The model that the configuration describes cannot be trained.
    #[error("the configured model cannot be trained: {0}")]
    Model(#[from] SpecError),
    /// The dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Vectors from a file cannot be read.
    #[error(transparent)]
    Vectors(#[from] VectorError),
    /// Edges cannot be read.
    #[error(transparent)]
    Edges(#[from] EdgeReadError),
    /// The entities and relations of the edges cannot be counted.
    #[error(transparent)]
    Describe(DescribeError),
    /// The checkpoint cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint is intact but belongs to another configuration, dataset or build.
    #[error(transparent)]
    Mismatch(#[from] CheckpointMismatch),
    /// Several models cannot be combined.
    #[error(transparent)]
    Combine(#[from] CombineError),
    /// An index cannot be read or written, or belongs to other embeddings.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The calibration of a model cannot be used.
    #[error("calibration {}: {what}; `pbg-host calibrate` makes a new one", path.display())]
    Calibration {
        /// Its file.
        path: std::path::PathBuf,
        /// Reason.
        what: String,
    },
    /// The library that builds indexes failed.
    #[error("{0}; internal error (a bug in pbg-host); please report it")]
    Graph(#[from] NeighborGraphError),
    /// A strategy failed.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The plan of a bucket order is not a permutation of the grid.
    #[error("plugin {strategy}: plan: {source}")]
    Plan {
        /// The bucket order.
        strategy: StrategyId,
        /// The error in its plan.
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
        /// The quantity that is not finite.
        what: String,
    },
    /// Training diverged, as scores show by which negatives are chosen.
    #[error(
        "a score of an edge or of a candidate for a negative is not finite in epoch {}, edge set {}, edge chunk {}, bucket \
         {bucket}, batch {batch} of worker {worker}; the last checkpoint is kept: lower `lr` or `init_scale`, or check the \
         data",
        pass.epoch + 1, pass.edge_set + 1, pass.edge_chunk + 1
    )]
    ScoreNotFinite {
        /// Pass.
        pass: PassId,
        /// Bucket.
        bucket: Bucket,
        /// Worker, from 0.
        worker: usize,
        /// Batch of that worker in the bucket, from 0.
        batch: usize,
    },
    /// A formula of an operator or a comparator is not finite.
    #[error(
        "the loss is not finite in epoch {}, edge set {}, edge chunk {}, bucket {bucket}, batch {batch} of worker \
         {worker}: {what}; the last checkpoint is kept: if the formula is yours, make it finite for all numbers; if the \
         numbers have grown, lower `lr` or set `max_norm`{}",
        pass.epoch + 1, pass.edge_set + 1, pass.edge_chunk + 1,
        file.as_ref().map_or_else(String::new, |file| {
            format!("; `pbg-host plugin replay {}` repeats it", file.display())
        })
    )]
    FormulaNotFinite {
        /// Pass.
        pass: PassId,
        /// Bucket.
        bucket: Bucket,
        /// Worker, from 0.
        worker: usize,
        /// Batch of that worker in the bucket, from 0.
        batch: usize,
        /// Formula and node that are not finite.
        what: String,
        /// File with which the formula is evaluated again.
        file: Option<PathBuf>,
    },
    /// A score in an evaluation is not finite, because training has diverged.
    #[error(
        "the score of an edge of bucket {0} is not finite: the training of these embeddings has diverged; train \
         again with a lower `lr` or `init_scale`"
    )]
    Diverged(Bucket),
    /// A score that answers are compared by is not finite, because training has diverged.
    #[error(
        "a score is not finite: the training of these embeddings has diverged; train again with a lower `lr` or \
         `init_scale`"
    )]
    NotComparable {
        /// Index of the question among those asked together.
        question: usize,
    },
    /// The user stopped the command.
    #[error("stopped before the end")]
    Interrupted,
    /// The position of the run cannot be serialized.
    #[error(
        "the position of the run cannot be written: {0}; internal error (a bug in pbg-host); please report it"
    )]
    Unwritable(String),
    /// The training device cannot be used.
    #[error("execution.device is {device:?}, which cannot be used here; nothing was trained")]
    Device {
        /// Device as configured.
        device: String,
        /// Reason.
        source: OpenError,
    },
    /// A bucket was reported as done by a trainer that does not hold it.
    #[error(transparent)]
    NotHeld(#[from] NotLeased),
    /// The kernels rejected their input.
    #[error("training step: {0}")]
    Step(#[from] StepError),
    /// A worker cannot be created.
    #[error("training worker: {0}")]
    Worker(#[from] WorkerError),
    /// The system cannot start a thread.
    #[error(
        "cannot start a thread: {0}; allow this user more processes (ulimit -u) or this process more address space (ulimit -v)"
    )]
    Thread(String),
    /// The needed memory exceeds the available memory.
    #[error("{0}")]
    Memory(#[from] NotEnoughMemory),
    /// This trainer cannot take part in a distributed run, or no longer can.
    #[error(transparent)]
    Cluster(#[from] JoinError),
    /// A thread panicked.
    #[error("a thread panicked: {0}; internal error (a bug in pbg-host); please report it")]
    WorkerPanic(String),
    /// Walks through an index were requested without an index.
    #[error(
        "no index was opened for these answers; internal error (a bug in pbg-host); please report it"
    )]
    NoIndex,
    /// A result was requested from a group of threads that had ended, or that had no order left.
    #[error(
        "the group `{group}` has ended and sends no more results; internal error (a bug in pbg-host); please report it"
    )]
    GroupEnded {
        /// Name of the group.
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

impl From<TransferError> for RunError {
    fn from(error: TransferError) -> Self {
        Self::Step(error.into())
    }
}

impl From<SettingError> for RunError {
    fn from(error: SettingError) -> Self {
        Self::Setting(Box::new(error))
    }
}

impl RunError {
    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Setting(_) | Self::Model(_) => ErrorKind::Config,
            Self::Unknown(_) => ErrorKind::Data,
            Self::Dataset(DatasetError::File(e)) | Self::Edges(EdgeReadError::File(e)) => {
                match e.is_damage() {
                    true => ErrorKind::Data,
                    false => ErrorKind::Io,
                }
            }
            Self::Dataset(DatasetError::Unfinished(StagingError::Busy { .. })) => ErrorKind::Locked,
            Self::Dataset(DatasetError::Unfinished(_)) => ErrorKind::Io,
            Self::Vectors(VectorError::File(e)) if !e.is_not_found() && !e.is_damage() => {
                ErrorKind::Io
            }
            Self::Dataset(_) | Self::Edges(_) | Self::Vectors(_) => ErrorKind::Data,
            Self::Checkpoint(e) if e.is_locked() => ErrorKind::Locked,
            Self::Checkpoint(e) if e.is_io() => ErrorKind::Io,
            Self::Index(IndexError::Busy { .. }) => ErrorKind::Locked,
            Self::Index(IndexError::NotProducts { .. }) => ErrorKind::Config,
            Self::Index(e) if e.is_io() => ErrorKind::Io,
            Self::Checkpoint(_)
            | Self::Mismatch(_)
            | Self::Combine(_)
            | Self::Index(_)
            | Self::Calibration { .. } => ErrorKind::Checkpoint,
            Self::Strategy(fault) | Self::Step(StepError::Strategy(fault)) => match fault.cause {
                FaultCause::Strategy => ErrorKind::Plugin,
                FaultCause::Machine => ErrorKind::Io,
                FaultCause::Interruption => ErrorKind::Interrupted,
            },
            Self::Plan { .. } => ErrorKind::Plugin,
            Self::Interrupted => ErrorKind::Interrupted,
            // Training reports the place; values that diverged earlier may be noticed only when they are ranked.
            Self::NotFinite { .. }
            | Self::ScoreNotFinite { .. }
            | Self::FormulaNotFinite { .. }
            | Self::Diverged { .. }
            | Self::NotComparable { .. }
            | Self::Step(StepError::NonFinite(_)) => ErrorKind::Numeric,
            Self::Thread(_)
            | Self::Device { .. }
            | Self::Memory(_)
            | Self::Describe(_)
            | Self::Step(StepError::Memory(_)) => ErrorKind::Io,
            Self::Cluster(
                JoinError::NotYet { .. }
                | JoinError::NoExchange
                | JoinError::OneBucket
                | JoinError::Beyond { .. },
            ) => ErrorKind::Config,
            Self::Cluster(JoinError::Interrupted { .. }) => ErrorKind::Interrupted,
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

    /// Whether a file of the checkpoint is missing.
    pub fn is_missing_file(&self) -> bool {
        self.file().is_some_and(FileError::is_not_found)
    }

    /// Returns the name of the file of the checkpoint that is missing, if that is the error.
    pub fn missing_file(&self) -> Option<&str> {
        let file = self.file().filter(|file| file.is_not_found())?;
        file.path.file_name()?.to_str()
    }

    /// Whether a partition server that may have a file does not answer.
    pub fn is_silent_server(&self) -> bool {
        matches!(self, Self::Checkpoint(error) if error.is_silent_server())
    }

    /// Whether the checkpoint's disk is full.
    pub fn is_disk_full(&self) -> bool {
        self.file().is_some_and(FileError::is_disk_full)
    }

    /// Returns the operation on a file of the checkpoint that failed.
    fn file(&self) -> Option<&FileError> {
        match self {
            Self::Checkpoint(CheckpointError::File(file)) => Some(file),
            _ => None,
        }
    }
}
