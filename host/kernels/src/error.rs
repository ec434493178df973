//! Why kernels fail.

use pbg_core::strategy::StrategyError;

use crate::spec::SpecError;

/// Why a graph cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The executor has no kernel for a node.
    #[error("{reason}")]
    Lacks {
        /// The node's name.
        node: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A node stands where no stage takes it: the graph is not one of a training step.
    #[error("the batch graph has no stage for {node}, or not there")]
    Misplaced {
        /// The node's name, or that of the missing cluster.
        node: String,
    },
}

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
    /// The step cannot be executed here.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// libtorch failed.
    #[error("libtorch: {0}")]
    Tensor(String),
    /// A GPU has too little memory.
    #[error("{0}")]
    Memory(String),
    /// Another worker of the same batch failed.
    #[error("another worker of the batch failed")]
    Abandoned,
}

/// Why a worker could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkerError {
    /// The model cannot be trained.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Its step cannot be executed here.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// libtorch failed.
    #[error("libtorch: {0}")]
    Tensor(String),
}

impl From<WorkerError> for StepError {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Spec(error) => Self::Spec(error),
            WorkerError::Compile(error) => Self::Compile(error),
            WorkerError::Tensor(error) => Self::Tensor(error),
        }
    }
}
