//! Why a trainer cannot take part in a run of several, or no more.

use std::path::PathBuf;
use std::time::Duration;

use pbg_core::cluster::NoAnswer;
use pbg_core::ledger::{Damage, PROTOCOL, Refusal, Stale};

/// Why a trainer cannot take part, or no more.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The register does not answer.
    #[error(
        "the ledger has not answered for {seconds} s: {what}; what is settled is safe, and the same command goes on \
         when it can be reached again"
    )]
    Unreachable {
        /// How long it was waited for.
        seconds: u64,
        /// What the last attempt said.
        what: String,
    },
    /// The trainer was asked to stop while the register did not answer.
    #[error(
        "asked to stop while the ledger did not answer ({what}): what this trainer had not settled is trained again, and \
         the same command takes part again"
    )]
    Interrupted {
        /// What the last attempt said.
        what: String,
    },
    /// The run does not take this trainer.
    #[error("the run refuses this trainer: {0}")]
    Refused(Box<Refusal>),
    /// Another trainer of its rank is at work.
    #[error(
        "the run refuses this trainer: {0}, which is at work: it needs no second one, and goes on by itself where its \
         server had ended and runs again; one trainer more needs a rank of its own"
    )]
    AtWork(Box<Refusal>),
    /// The trainer's part has ended without its doing. It drops its tables and joins anew.
    #[error("{0}")]
    Fenced(Box<Refusal>),
    /// The register has lost the record.
    #[error("the ledger is empty, though this trainer had joined")]
    NoRecord,
    /// The record is of a program of another version. It is left alone.
    #[error(
        "the ledger has protocol version {found}, and this program knows {PROTOCOL}: every trainer of a run needs the same \
         version of pbg-host; `pbg-host cluster forget` drops the ledger once nobody trains"
    )]
    Protocol {
        /// The record's.
        found: u32,
    },
    /// The register was set back to a record that does not go with the newest checkpoint.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The record cannot be written or is not of this program.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The folder of the checkpoint is not the one that others write to.
    #[error(
        "the folder {} is not the one that the trainer {name} writes to; `checkpoint_path` has to be one folder that every \
         machine sees, and another run needs another `distributed_init_method`", folder.display()
    )]
    NotShared {
        /// The folder.
        folder: PathBuf,
        /// What people call the other trainer, escaped.
        name: String,
    },
    /// The checkpoint that the ledger goes on from is not there.
    #[error("checkpoint {version}, which is to be ranked, is not in the folder")]
    NoManifest {
        /// Its number.
        version: u64,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    NoRandomBits(String),
    /// The checkpoint is beyond the last epoch.
    #[error(
        "the checkpoint stands in epoch {epoch}, and num_epochs is {epochs}: a larger num_epochs trains on"
    )]
    Beyond {
        /// The epoch, from 1.
        epoch: u32,
        /// `num_epochs`.
        epochs: u32,
    },
    /// Nobody could train beside another one.
    #[error(
        "no entity type has more than one partition, so only one trainer could train at a time; set \
         `entities.<type>.num_partitions`, four times the number of trainers or more, and import again"
    )]
    OneBucket,
    /// What one machine does and several do not yet.
    #[error(
        "several trainers cannot {what} yet; train on one machine, without `distributed_init_method`"
    )]
    NotYet {
        /// What they cannot do.
        what: String,
    },
}

/// Nobody has answered for this long.
pub(super) fn unreachable(waited: Duration, NoAnswer(what): NoAnswer) -> ClusterError {
    let seconds = waited.as_secs();
    ClusterError::Unreachable { seconds, what }
}

impl ClusterError {
    /// Whether the trainer may drop its tables and join anew.
    #[must_use]
    pub fn may_rejoin(&self) -> bool {
        matches!(
            self,
            Self::Fenced(_) | Self::NoRecord | Self::NoManifest { .. } | Self::Stale(_)
        )
    }
}
