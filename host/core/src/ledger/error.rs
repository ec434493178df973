//! Why a transaction is refused, and why a record is not used.

use super::{Cut, Difference, Phase, RankingId, Stale, Stamp, Token};
use crate::graph::{Bucket, Side, SidePartition};
use crate::schedule::PassId;

/// Why a transaction changes nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The record lacks the token: the trainer was revoked, or the register was set back before it joined. It drops
    /// its tables and joins anew.
    #[error(
        "trainer {token} does not take part in the run: it was revoked, or the ledger has lost it"
    )]
    Fenced {
        /// Who asks.
        token: Token,
    },
    /// The register has lost transactions of this trainer that it knew to be applied. It drops its tables and joins
    /// anew.
    #[error(
        "the ledger knows transaction {last} of trainer {token} as its last, after {after} was acknowledged"
    )]
    SetBack {
        /// Who asks.
        token: Token,
        /// The last one that the record knows.
        last: u64,
        /// The last one that was acknowledged.
        after: u64,
    },
    /// An earlier transaction, which was given up for lost, has arrived. The trainer takes it as acknowledged.
    #[error("transaction {last} of trainer {token} was applied, though no answer to it came")]
    Overtaken {
        /// Who asks.
        token: Token,
        /// The one that has arrived.
        last: u64,
    },
    /// This very transaction is applied.
    #[error("transaction {number} of trainer {token} is applied")]
    Applied {
        /// Who asks.
        token: Token,
        /// Its number.
        number: u64,
    },
    /// A number that does not follow what it comes after: a mistake of the caller.
    #[error("transaction {number} cannot come after {after}")]
    Number {
        /// The transaction's.
        number: u64,
        /// The one before.
        after: u64,
    },
    /// The trainer differs from the run.
    #[error(transparent)]
    Difference(#[from] Difference),
    /// Its token was drawn before.
    #[error("a trainer with token {token} takes part already")]
    TokenTaken {
        /// The token.
        token: Token,
    },
    /// A trainer with its rank lives.
    #[error("rank {rank} is taken by the trainer {}", name.escape_debug())]
    RankTaken {
        /// The rank.
        rank: u32,
        /// Name of who has it.
        name: String,
    },
    /// A name that is too long.
    #[error("the trainer's name has {found} bytes, at most {most} are allowed")]
    Name {
        /// Its bytes.
        found: usize,
        /// Most bytes.
        most: usize,
    },
    /// So many that the record would become too large.
    #[error("{what}: {most} are the most")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// Most of them.
        most: usize,
    },
    /// The run is not where the transaction applies.
    #[error("the run is {phase:?}, which has no place for this")]
    Phase {
        /// Where it is.
        phase: Phase,
    },
    /// The transaction is of another pass.
    #[error("the run is at {current:?}, not at {asked:?}")]
    Pass {
        /// Where it is.
        current: PassId,
        /// What was asked for.
        asked: PassId,
    },
    /// A bucket outside the grid.
    #[error("there is no bucket {bucket}")]
    NoBucket {
        /// The bucket.
        bucket: Bucket,
    },
    /// A bucket that is not to do.
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
        /// Who holds it.
        holder: Token,
    },
    /// In the first pass, neither side of the bucket was given out before.
    #[error(
        "bucket {bucket} has no partition that was given out before (distributed_tree_init_order)"
    )]
    Tree {
        /// The bucket.
        bucket: Bucket,
    },
    /// The trainer does not have the bucket.
    #[error("trainer {token} has no lease of bucket {bucket}")]
    NotLeased {
        /// Who asks.
        token: Token,
        /// The bucket.
        bucket: Bucket,
    },
    /// A partition that was trained has no new file, or one that was not has one.
    #[error("the files replaced are of other partitions than the {buckets} buckets settled, first {} {}", shown(group.0), group.1)]
    Partitions {
        /// How many buckets.
        buckets: usize,
        /// The first partition that is too few or too many.
        group: SidePartition,
    },
    /// A file was made from another one than the record names.
    #[error("partition {} {} was made from {found:?}, the ledger has {expected:?}", shown(group.0), group.1)]
    Fork {
        /// The partition.
        group: SidePartition,
        /// What the record has.
        expected: Stamp,
        /// What it was made from.
        found: Stamp,
    },
    /// Names of files that are not the trainer's next ones.
    #[error("a file of partition {} {} has a name that is not new: count {count}, after {last}", shown(group.0), group.1)]
    FileName {
        /// The partition.
        group: SidePartition,
        /// Count in the name; 0 if it is another trainer's or nobody's.
        count: u64,
        /// The last count of this trainer that was settled.
        last: u64,
    },
    /// Another number of files than the side has tables.
    #[error("partition {} {} has {found} files, its side has {expected} tables", shown(group.0), group.1)]
    Files {
        /// The partition.
        group: SidePartition,
        /// Tables.
        expected: usize,
        /// Files.
        found: usize,
    },
    /// Numbers that have no form in the record.
    #[error("{what} is infinite or no number")]
    NotFinite {
        /// What.
        what: &'static str,
    },
    /// The record was made anew since it was checked.
    #[error("the ledger is of history {current}, not of {asked}")]
    Incarnation {
        /// The record's history.
        current: Token,
        /// The one that was checked.
        asked: Token,
    },
    /// The record does not go with the newest manifest that was read.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// A trainer that was taken for silent has written something since.
    #[error("trainer {token} lives: its last transaction is {last}, not {seen}")]
    Alive {
        /// The trainer.
        token: Token,
        /// Its last transaction.
        last: u64,
        /// The last one that was seen while it was silent.
        seen: u64,
    },
    /// The ranking is another one than the transaction's, or none.
    #[error("{asked} is not under way")]
    Ranking {
        /// What was asked for.
        asked: RankingId,
    },
    /// Nobody to revoke.
    #[error("there is no trainer {token}")]
    NoTrainer {
        /// The token.
        token: Token,
    },
    /// The last trainer leaves, and no checkpoint has what was trained last.
    #[error("the last trainer cannot leave before a checkpoint has everything")]
    NotSaved,
    /// The checkpoint to rank is not one of the end of the epoch, or no longer the newest.
    #[error("checkpoint {version} is not the newest one of the end of the epoch")]
    NotOfEpoch {
        /// Its number.
        version: u64,
    },
    /// A block that the ranking does not have.
    #[error("there is no block {block} of the ranking")]
    NoBlock {
        /// The block.
        block: u32,
    },
    /// A block that another trainer has, or that is ranked.
    #[error("block {block} of the ranking is leased or ranked")]
    BlockTaken {
        /// The block.
        block: u32,
    },
    /// The trainer does not have the block.
    #[error("trainer {token} has no lease of block {block} of the ranking")]
    BlockNotLeased {
        /// Who asks.
        token: Token,
        /// The block.
        block: u32,
    },
    /// Sums that no ranks have.
    #[error("the sums over the ranks of block {block} are impossible")]
    Totals {
        /// The block.
        block: u32,
    },
    /// Blocks that are still to be ranked.
    #[error("{left} blocks of the ranking are to do or under way")]
    NotRanked {
        /// How many.
        left: usize,
    },
    /// A checkpoint is under way.
    #[error("trainer {token} is writing checkpoint {version}")]
    CheckpointUnderWay {
        /// Who writes it.
        token: Token,
        /// Its number.
        version: u64,
    },
    /// A checkpoint that the record does not know, or no more.
    #[error("the ledger does not know {cut:?}, or has a newer one")]
    UnknownCut {
        /// Where the checkpoint began.
        cut: Cut,
    },
}

fn shown(side: Side) -> &'static str {
    match side {
        Side::Lhs => "lhs",
        Side::Rhs => "rhs",
    }
}

/// A record that cannot be used. It is dropped, and the run goes on from the newest manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ledger is damaged: {0}")]
pub struct Damage(pub String);
