//! Reasons why a transaction is not applied.

use std::time::Duration;

use pbg_ledger::transport::NoAnswer;
use pbg_ledger::{Token, TransactionError};
use pbg_model::error::JoinError;

/// Reason why a transaction was not applied.
#[derive(Debug)]
pub(crate) enum NotApplied {
    /// The record refuses the transaction. The trainer is still part of the run.
    Refused(TransactionError),
    /// The transaction was no longer wanted. It may have been applied.
    Abandoned,
    /// The trainer cannot continue in the run.
    Fatal(JoinError),
}

impl From<JoinError> for NotApplied {
    fn from(error: JoinError) -> Self {
        Self::Fatal(error)
    }
}

impl NotApplied {
    /// Converts into an error, for transactions that are never refused while the trainer acts correctly.
    pub(crate) fn into_error(self) -> JoinError {
        match self {
            Self::Refused(refusal) => JoinError::Refused(Box::new(refusal)),
            Self::Abandoned => JoinError::unreachable(
                Duration::ZERO,
                NoAnswer("the request was abandoned".to_owned()),
            ),
            Self::Fatal(error) => error,
        }
    }
}

/// Returns the error of a trainer that was removed from the run.
pub(super) fn fenced(token: Token) -> JoinError {
    JoinError::Fenced(Box::new(TransactionError::Fenced { token }))
}

/// Whether `error` is that of a trainer that was removed from the run.
pub(super) fn is_fenced(error: &JoinError) -> bool {
    let JoinError::Fenced(refusal) = error else {
        return false;
    };
    matches!(**refusal, TransactionError::Fenced { .. })
}

/// Returns the error of a trainer whose acknowledged transactions the register has lost.
pub(super) fn set_back(token: Token, last: u64, after: u64) -> JoinError {
    JoinError::Fenced(Box::new(TransactionError::SetBack { token, last, after }))
}
