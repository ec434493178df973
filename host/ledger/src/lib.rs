//! The state that the trainers of one run agree on: a record of a few kilobytes, and transactions, which are pure
//! functions of it. With this crate trainers on several machines divide the buckets of a pass, exchange partitions
//! through files, commit checkpoints and rank edges, although each of them may crash or be cut off at any time. It
//! decides which changes are allowed, and has the policy by which a trainer decides which to make; `pbg-distributed` makes
//! them, and `pbg-transport` carries them.
//!
//! In reading order: the vocabulary ([`Token`], [`Grid`], [`RunTerms`], [`BucketStates`], [`PartitionFile`]), the
//! [`LedgerRecord`], the [`Transaction`]s with their [`LedgerAction`]s, checkpoints ([`CheckpointCut`]), the
//! [`ValidationRanking`], the reasons for which a transaction is refused ([`TransactionError`]), what a trainer does next
//! ([`PassStep`], [`BucketPolicy`]) and the bucket that it is advised to take ([`BucketAdvisor`]), and the interfaces
//! through which trainers communicate ([`transport`]).
//!
//! Nothing here does I/O, reads a clock, starts a thread, or knows of a network or a file: tokens and counts are
//! arguments, random choices follow from the digest of a plan, and [`transport`] has only traits and the values that
//! they pass on.
//!
//! # Invariants
//!
//! The record is stored in a register with compare-and-set. To change it, a trainer reads it, applies a
//! [`Transaction`], and writes the result on the condition that nobody has written in between. Every record that was
//! ever written is a consistent cut of the run.
//!
//! **Who may write.** A trainer draws a [`Token`] and joins with it. A transaction whose token is not in the record is
//! refused. So a trainer that was revoked, or that is missing because the register was restored to an earlier state,
//! changes nothing. A transaction also names the last transaction of its trainer that is known to be applied (`after`).
//! If the record names another one, either a reply was lost or the register lost writes; [`LedgerRecord::fate`] tells
//! the two apart.
//!
//! **What a decision was based on.** A trainer decides by a record that it has read, and may be suspended for any time
//! before its transaction is applied. So every [`LedgerAction`] names what the decision depended on, and is refused if
//! that has changed since: for buckets the pass, for blocks the ranking, for checkpoints the newest manifest, for
//! joining the record that was checked, and for revoking a silent trainer its last transaction.
//!
//! **Which record is valid.** A checkpoint begins with a transaction that makes a [`CheckpointCut`]: the manifest
//! describes the work at that revision and names the cut. A record is valid ([`LedgerRecord::matches_manifest`]) as
//! long as it contains the cut of the newest manifest. Otherwise it is older than the manifest or belongs to another
//! history. It is then dropped, and [`LedgerRecord::create`] creates a new one from the manifest.
//!
//! **Which files may be deleted.** A register that was restored to an earlier state names files that have been replaced
//! since. So a replaced file is kept until there is a manifest whose cut is later than the replacement: from then on,
//! no valid record names the file ([`LedgerRecord::is_garbage`]).
//!
//! **Between epochs.** A run with validation ranks edges at the end of an epoch ([`ValidationRanking`]). It ranks the
//! checkpoint of that moment, in blocks that are leased in the same way as buckets. The conclusions from the ranks are
//! computed here, so that they are the same for every trainer.

mod buckets;
mod check;
mod checkpoints;
mod counts;
mod cuts;
mod error;
mod event_log;
mod file;
mod init_tree;
mod leases;
mod membership;
mod pair_walks;
mod passes;
mod phase;
mod policy;
mod ranking;
mod record;
mod round_robin;
mod server_terms;
mod servers;
mod sums;
mod terms;
mod trainer;
mod transaction;
pub mod transport;
mod validation;
mod waits;

#[cfg(test)]
mod tests;

pub use buckets::{BucketState, BucketStates};
pub use checkpoints::MAX_CUTS;
pub use counts::MAX_COUNT;
pub use cuts::{CheckpointCut, Checkpoints, CutOrigin, StaleRecord};
pub use error::{DamagedRecord, TransactionError};
pub use file::{CopyVersion, FileId, InvalidToken, PartitionFile, PartitionVersion, Token};
pub use leases::{MAX_LEASES, SettledPartition, Settlement};
pub use membership::{MAX_NAME, MAX_TRAINERS};
pub use passes::plan_digest;
pub use phase::Phase;
pub use policy::{BucketPolicy, BucketStep, LONGEST_WAIT, PassStep};
pub use ranking::MAX_BLOCKS;
pub use record::{EpochProgress, Genesis, LedgerRecord, TrainedState};
pub use round_robin::BucketAdvisor;
pub use server_terms::{MAX_ADDRESS, MAX_SERVERS, PartitionServer, ServerTerms};
pub use sums::{EventLogLength, FinishedEpoch, LedgerSums};
pub use terms::{Grid, MAX_BUCKETS, MAX_TABLES, PROTOCOL, PluginTerm, RunTerms, TermsDifference};
pub use trainer::{Join, SilentTrainer, Trainer};
pub use transaction::{LedgerAction, OperatorCommand, Transaction, TransactionFate};
pub use validation::{
    BlockTotals, RankingId, ValidationRanking, ValidationResult, ValidationTerms,
};
pub use waits::WaitReason;
