//! Errors of the kernels.

use pbg_core::strategy::StrategyError;

use pbg_rows::spec::SpecError;
use pbg_rows::table::TransferError;

/// Reason why an executor has no kernels for a step, and what the user can do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnsupportedStep(pub &'static str);

/// Reason why a batch was not trained.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StepError {
    /// The loss or a gradient is infinite or not a number.
    #[error("the {0} is not finite: lower lr, or set max_norm")]
    NonFinite(&'static str),
    /// The batch does not fit the model or the tables.
    #[error("batch: {0}")]
    Batch(String),
    /// The loss plugin returned an error.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The worker cannot train the model, has no kernels for the step, or libtorch failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A GPU has too little memory for the batch.
    #[error("{0}")]
    Memory(String),
    /// Another worker of the same batch failed, so this one stopped.
    #[error("another worker of the batch failed")]
    Abandoned,
}

/// Reason why a worker cannot be created or cannot train.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkerError {
    /// The model cannot be trained.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The executor has no kernels for the model's step.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedStep),
    /// libtorch failed.
    #[error("libtorch: {0}")]
    Tensor(String),
}

/// Error of a process that has not loaded libtorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not loaded")]
pub struct LibtorchNotLoaded;

impl From<TransferError> for StepError {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Tensor(error) => WorkerError::Tensor(error).into(),
            TransferError::Memory(error) => Self::Memory(error),
        }
    }
}

impl From<LibtorchNotLoaded> for StepError {
    fn from(error: LibtorchNotLoaded) -> Self {
        WorkerError::from(error).into()
    }
}

impl From<LibtorchNotLoaded> for WorkerError {
    fn from(error: LibtorchNotLoaded) -> Self {
        Self::Tensor(error.to_string())
    }
}
