//! Vocabulary of shards, the units of ownership: each is a block of rows, or the loss.

use std::collections::BTreeMap;

use pbg_ledger::Token;

/// Rows of a block by their indices.
pub(super) type RowUpdates = BTreeMap<u32, Vec<f32>>;

/// For each trainer, the number of its last message that is counted in a sum.
pub(super) type CountedMessages = BTreeMap<Token, u64>;

/// Shape of a block: number of rows, and numbers in each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockShape {
    pub(super) rows: usize,
    pub(super) width: usize,
}

/// Kind of a shard, the unit of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardKind {
    /// A block of rows.
    Rows(BlockShape),
    /// The loss, with its number of parameters.
    Loss(usize),
}

impl ShardKind {
    /// A kind without rows.
    pub(super) const NO_ROWS: Self = Self::Rows(BlockShape { rows: 0, width: 1 });

    /// Returns the shape of the rows in messages about the shard.
    pub(super) fn shape(self) -> BlockShape {
        match self {
            Self::Rows(shape) => shape,
            Self::Loss(_) => BlockShape { rows: 0, width: 1 },
        }
    }
}

/// Distance between the version of an owner that starts from a copy and the version of the copy. No trainer can have
/// seen so large a version from the owner that was lost.
const ANEW: u64 = 1 << 32;

/// Returns the version of an owner that starts from a copy of `version`.
pub(super) fn version_after_loss(version: u64) -> u64 {
    version.saturating_add(ANEW)
}

/// A copy of an owner's state, as last seen by another trainer.
#[derive(Clone, Debug)]
pub(super) struct ShardCopy<T> {
    pub(super) version: u64,
    pub(super) counted: CountedMessages,
    pub(super) what: T,
}

impl<T> ShardCopy<T> {
    /// Returns the copy that a run starts with, before any message was counted.
    pub(super) const fn initial(what: T) -> Self {
        Self {
            version: 0,
            counted: CountedMessages::new(),
            what,
        }
    }
}
