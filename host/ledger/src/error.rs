//! Reasons for which a transaction is refused or a record is rejected.

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::schedule::PassId;

use super::{CheckpointCut, CopyVersion, Phase, RankingId, StaleRecord, TermsDifference, Token};

/// Reason for which a transaction changes nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TransactionError {
    /// The token is not in the record: the trainer was revoked, or the register was restored to a state before it
    /// joined. The trainer drops its tables and joins again.
    #[error(
        "trainer {token} is not part of the run: it was revoked, or the ledger was restored to a state before it joined"
    )]
    Fenced {
        /// Trainer that sent the transaction.
        token: Token,
    },
    /// The register has lost transactions of this trainer that were acknowledged. The trainer drops its tables and
    /// joins again.
    #[error(
        "the last transaction of trainer {token} in the ledger is {last}, but {after} was acknowledged"
    )]
    SetBack {
        /// Trainer that sent the transaction.
        token: Token,
        /// Last transaction in the record.
        last: u64,
        /// Last transaction that was acknowledged.
        after: u64,
    },
    /// An earlier transaction of the trainer, which was believed lost, has been applied. The trainer treats it as
    /// acknowledged.
    #[error("transaction {last} of trainer {token} was applied, although no reply to it arrived")]
    Overtaken {
        /// Trainer that sent the transaction.
        token: Token,
        /// Transaction that has been applied.
        last: u64,
    },
    /// This transaction has already been applied.
    #[error("transaction {number} of trainer {token} has already been applied")]
    Applied {
        /// Trainer that sent the transaction.
        token: Token,
        /// Number of the transaction.
        number: u64,
    },
    /// The number of the transaction is not greater than `after`: a bug of the caller.
    #[error("transaction {number} cannot come after {after}")]
    Number {
        /// Number of the transaction.
        number: u64,
        /// Last transaction that was acknowledged.
        after: u64,
    },
    /// The trainer's terms differ from those of the run.
    #[error(transparent)]
    Difference(#[from] TermsDifference),
    /// The token is already in use.
    #[error("a trainer with token {token} is already part of the run")]
    TokenTaken {
        /// The token.
        token: Token,
    },
    /// A trainer with the same rank is part of the run.
    #[error("rank {rank} is taken by the trainer {}", name.escape_debug())]
    RankTaken {
        /// The rank.
        rank: u32,
        /// Name of the trainer that has the rank.
        name: String,
    },
    /// The trainer's name is too long.
    #[error("the trainer's name has {found} bytes, but at most {most} are allowed")]
    Name {
        /// Length of the name in bytes.
        found: usize,
        /// Greatest allowed length in bytes.
        most: usize,
    },
    /// The server's address is too long.
    #[error("the server's address has {found} bytes, but at most {most} are allowed")]
    Address {
        /// Length of the address in bytes.
        found: usize,
        /// Greatest allowed length in bytes.
        most: usize,
    },
    /// The run has no such partition server.
    #[error("the run has no partition server {token}")]
    NoServer {
        /// Token of the server.
        token: Token,
    },
    /// A limit that keeps the record small is exceeded.
    #[error("too many {what}: at most {most} are allowed")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// Greatest allowed number.
        most: usize,
    },
    /// The transaction does not apply in the current phase of the run.
    #[error("this is not possible in the current phase of the run, {phase:?}")]
    Phase {
        /// Current phase of the run.
        phase: Phase,
    },
    /// The transaction was made for another pass.
    #[error("the current pass is {current:?}, not {asked:?}")]
    Pass {
        /// Current pass of the run.
        current: PassId,
        /// Pass that the transaction names.
        asked: PassId,
    },
    /// The bucket is outside the grid.
    #[error("there is no bucket {bucket}")]
    NoBucket {
        /// The bucket.
        bucket: Bucket,
    },
    /// The bucket is not to do.
    #[error("bucket {bucket} is leased, done or without edges")]
    NotToDo {
        /// The bucket.
        bucket: Bucket,
    },
    /// Another trainer holds a partition that the bucket needs.
    #[error("bucket {bucket} needs partition {} {}, which trainer {holder} holds", shown(group.0), group.1)]
    Held {
        /// The bucket.
        bucket: Bucket,
        /// The partition.
        group: SidePartition,
        /// Trainer that holds the partition.
        holder: Token,
    },
    /// In the first pass, neither partition of the bucket was given out before.
    #[error(
        "neither partition of bucket {bucket} was given out before (distributed_tree_init_order)"
    )]
    Tree {
        /// The bucket.
        bucket: Bucket,
    },
    /// The trainer has no lease of the bucket.
    #[error("trainer {token} has no lease of bucket {bucket}")]
    NotLeased {
        /// Trainer that sent the transaction.
        token: Token,
        /// The bucket.
        bucket: Bucket,
    },
    /// A partition that was trained has no new file, or a partition that was not trained has one.
    #[error("the replaced files do not match the partitions of the {buckets} settled buckets: the first mismatch is partition {} {}", shown(group.0), group.1)]
    Partitions {
        /// Number of buckets settled.
        buckets: usize,
        /// First partition that is missing or superfluous.
        group: SidePartition,
    },
    /// A file was derived from another version of the partition than the one in the record.
    #[error("partition {} {} was trained from {found:?}, but the ledger has {expected:?}", shown(group.0), group.1)]
    Fork {
        /// The partition.
        group: SidePartition,
        /// Version in the record.
        expected: CopyVersion,
        /// Version that the file was derived from.
        found: CopyVersion,
    },
    /// The name of a file does not follow the trainer's last settled file.
    #[error("a file of partition {} {} has the count {count} in its name, which must be greater than {last} and used once", shown(group.0), group.1)]
    FileName {
        /// The partition.
        group: SidePartition,
        /// Count in the name; 0 if the file belongs to another trainer or to none.
        count: u64,
        /// Greatest count that this trainer has settled.
        last: u64,
    },
    /// The number of files differs from the number of tables of the side.
    #[error("partition {} {} has {found} files, but its side has {expected} tables", shown(group.0), group.1)]
    Files {
        /// The partition.
        group: SidePartition,
        /// Number of tables.
        expected: usize,
        /// Number of files.
        found: usize,
    },
    /// A number is not finite and cannot be stored in the record.
    #[error("{what} is infinite or not a number")]
    NotFinite {
        /// What the number is.
        what: &'static str,
    },
    /// The record was created again since it was checked.
    #[error("the ledger belongs to history {current}, not to {asked}")]
    Incarnation {
        /// History of the record.
        current: Token,
        /// History of the record that was checked.
        asked: Token,
    },
    /// The record does not match the newest manifest.
    #[error(transparent)]
    Stale(#[from] StaleRecord),
    /// A trainer that was considered silent has written a transaction since.
    #[error("trainer {token} is alive: its last transaction is {last}, not {seen}")]
    Alive {
        /// The trainer.
        token: Token,
        /// Its last transaction.
        last: u64,
        /// Last transaction that was seen while it was considered silent.
        seen: u64,
    },
    /// There is no ranking in progress, or another one than the transaction names.
    #[error("{asked} is not in progress")]
    Ranking {
        /// Ranking that the transaction names.
        asked: RankingId,
    },
    /// There is no trainer with the token.
    #[error("there is no trainer {token}")]
    NoTrainer {
        /// The token.
        token: Token,
    },
    /// The last trainer cannot leave, because no checkpoint contains what was trained last.
    #[error(
        "the last trainer cannot leave before a checkpoint contains everything that was trained"
    )]
    NotSaved,
    /// The checkpoint to rank was not taken at the end of the epoch, or is no longer the newest.
    #[error("checkpoint {version} is not the newest checkpoint of the end of the epoch")]
    NotOfEpoch {
        /// Version number of the checkpoint.
        version: u64,
    },
    /// The block is not part of the ranking.
    #[error("the ranking has no block {block}")]
    NoBlock {
        /// The block.
        block: u32,
    },
    /// The block is leased to another trainer, or already ranked.
    #[error("block {block} of the ranking is leased or ranked")]
    BlockTaken {
        /// The block.
        block: u32,
    },
    /// The trainer has no lease of the block.
    #[error("trainer {token} has no lease of block {block} of the ranking")]
    BlockNotLeased {
        /// Trainer that sent the transaction.
        token: Token,
        /// The block.
        block: u32,
    },
    /// The sums are inconsistent: no set of ranks has them.
    #[error("the sums over the ranks of block {block} are impossible")]
    Totals {
        /// The block.
        block: u32,
    },
    /// Some blocks are not ranked yet.
    #[error("{left} blocks of the ranking are not ranked yet")]
    NotRanked {
        /// Number of such blocks.
        left: usize,
    },
    /// Another trainer is writing a checkpoint.
    #[error("trainer {token} is writing checkpoint {version}")]
    CheckpointUnderWay {
        /// Trainer that writes it.
        token: Token,
        /// Version number of the checkpoint.
        version: u64,
    },
    /// The record does not contain the checkpoint, or no longer does.
    #[error("the ledger does not contain {cut:?}, or has a newer checkpoint")]
    UnknownCut {
        /// Cut of the checkpoint.
        cut: CheckpointCut,
    },
}

fn shown(side: Side) -> &'static str {
    match side {
        Side::Lhs => "lhs",
        Side::Rhs => "rhs",
    }
}

/// Error that describes an unusable record. The record is dropped, and the run continues from the newest manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ledger is damaged: {0}")]
pub struct DamagedRecord(pub String);
