//! Reasons why a trainer cannot join a distributed run or cannot continue in it.

use std::path::PathBuf;
use std::time::Duration;

use pbg_ledger::transport::NoAnswer;
use pbg_ledger::{
    DamagedRecord, PROTOCOL, Phase, StaleRecord, TermsDifference, Token, TransactionError,
};

/// Reason why a trainer cannot join a distributed run or cannot continue in it.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The register does not answer.
    #[error(
        "the ledger has not answered for {seconds} s: {what}; settled buckets are safe, and the same command continues \
         the run once the ledger can be reached again"
    )]
    Unreachable {
        /// Time waited, in seconds.
        seconds: u64,
        /// Error of the last attempt.
        what: String,
    },
    /// The trainer was asked to stop while the register did not answer.
    #[error(
        "asked to stop while the ledger did not answer ({what}): buckets that this trainer had not settled will be \
         trained again; the same command joins the run again"
    )]
    Interrupted {
        /// Error of the last attempt.
        what: String,
    },
    /// The run refuses this trainer.
    #[error("the run refuses this trainer: {0}")]
    Refused(Box<TransactionError>),
    /// Another trainer with the same rank is running.
    #[error(
        "the run refuses this trainer: {0}, which is still running; it continues by itself after an outage of \
         what keeps the ledger, so do not start it again; an additional trainer needs another rank"
    )]
    AtWork(Box<TransactionError>),
    /// The trainer was removed from the run by others. It drops its tables and may rejoin.
    #[error("{0}")]
    Fenced(Box<TransactionError>),
    /// The other trainers have left, and the register was shut down.
    #[error("the run was stopped: all other trainers have left, and the ledger's server was ended")]
    Stopped,
    /// The register has lost the record.
    #[error("the ledger is empty, though this trainer had joined")]
    NoRecord,
    /// The record was written by another version of the program. It is not changed.
    #[error(
        "the ledger has protocol version {found}, but this program has version {PROTOCOL}: every trainer of a run \
         needs the same version of pbg-host; when no trainer is running, `pbg-host cluster forget` deletes the ledger"
    )]
    Protocol {
        /// Protocol version of the record.
        found: u32,
    },
    /// The record has other terms than the run that this trainer has joined. It is not used.
    #[error(
        "the terms of the run in the ledger have changed since this trainer joined: {0}; stop every trainer, delete the \
         ledger with `pbg-host cluster forget`, and start trainers of one configuration"
    )]
    OtherTerms(Box<TermsDifference>),
    /// The register was reset to a record that is not consistent with the newest checkpoint.
    #[error(transparent)]
    Stale(#[from] StaleRecord),
    /// The record cannot be written, or was not written by this program.
    #[error(transparent)]
    Damaged(#[from] DamagedRecord),
    /// The checkpoint folder is not the folder that the other trainers use.
    #[error(
        "the folder {} is not the one that the trainer {name} writes to; `checkpoint_path` must be one folder that \
         every machine can access; for a separate run, set another `distributed_init_method`", folder.display()
    )]
    NotShared {
        /// Path of the folder.
        folder: PathBuf,
        /// Name of the other trainer, escaped.
        name: String,
    },
    /// The checkpoint to be ranked is missing.
    #[error(
        "checkpoint {version}, which is needed for validation, is missing from the checkpoint folder"
    )]
    NoManifest {
        /// Version number of the checkpoint.
        version: u64,
    },
    /// The operating system provides no random numbers.
    #[error("the operating system provides no random numbers: {0}")]
    NoRandomBits(String),
    /// The checkpoint is beyond the last configured epoch.
    #[error(
        "the checkpoint is in epoch {epoch}, but num_epochs is {epochs}: increase num_epochs to continue training"
    )]
    Beyond {
        /// Epoch of the checkpoint, counted from 1.
        epoch: u32,
        /// `num_epochs`.
        epochs: u32,
    },
    /// There is only one bucket, so only one trainer could train.
    #[error(
        "no entity type has more than one partition, so only one trainer could train at a time; set \
         `entities.<type>.num_partitions` to at least four times the number of trainers, and import again"
    )]
    OneBucket,
    /// A partition that the record names is on no partition server, and no checkpoint has it. The run goes back to the
    /// newest checkpoint.
    #[error("a partition was lost with its partition server: {what}")]
    PartitionLost {
        /// The missing file.
        what: String,
        /// History of the record that names it, which is dropped; `None` if the file has appeared meanwhile.
        incarnation: Option<Token>,
    },
    /// Several trainers would have to exchange parameters, which nothing carries.
    #[error(
        "this model has parameters that all trainers share (of operators, global embeddings, or types with one \
         partition), and through an object store alone they cannot be exchanged; set `distributed_init_method` for a \
         server that carries them, or train with one trainer"
    )]
    NoExchange,
    /// A feature that single-machine training has and distributed training does not support yet.
    #[error(
        "distributed training cannot {what} yet; train on one machine, without `distributed_init_method`, into a folder \
         of this machine"
    )]
    NotYet {
        /// The unsupported operation, as a verb phrase.
        what: String,
    },
}

impl JoinError {
    /// Returns the error for a register that has not answered for `waited`.
    #[must_use]
    pub fn unreachable(waited: Duration, NoAnswer(what): NoAnswer) -> Self {
        let seconds = waited.as_secs();
        Self::Unreachable { seconds, what }
    }

    /// Whether the others have stopped the run, so that a trainer that was removed from it has nothing to rejoin.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        let is_stop = |refusal: &TransactionError| {
            let phase = Phase::Stopping;
            *refusal == TransactionError::Phase { phase }
        };
        match self {
            Self::Stopped => true,
            Self::Refused(refusal) => is_stop(refusal),
            _ => false,
        }
    }

    /// Whether the trainer may drop its tables and rejoin.
    #[must_use]
    pub fn may_rejoin(&self) -> bool {
        matches!(
            self,
            Self::Fenced(_)
                | Self::NoRecord
                | Self::NoManifest { .. }
                | Self::PartitionLost { .. }
                | Self::Stale(_)
        )
    }
}
