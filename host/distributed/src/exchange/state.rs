//! The state of a shard at its owner, for every kind of shard. This is what the next owner fetches.

use super::loss::LossShard;
use super::message::{BlockShape, CountedMessages};
use super::owner::BlockSums;

/// Kind of a shard, the unit of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardKind {
    /// A block of rows.
    Rows(BlockShape),
    /// The loss, with its number of parameters.
    Loss(usize),
}

impl ShardKind {
    /// Returns the shape of the rows in messages about the shard.
    pub(super) fn shape(self) -> BlockShape {
        match self {
            Self::Rows(shape) => shape,
            Self::Loss(_) => BlockShape { rows: 0, width: 1 },
        }
    }
}

/// The owner's state of a shard.
#[derive(Debug, PartialEq)]
pub(super) enum ShardState {
    Rows(BlockSums),
    Loss(LossShard),
}

impl ShardState {
    pub(super) fn version(&self) -> u64 {
        match self {
            Self::Rows(sums) => sums.version(),
            Self::Loss(sums) => sums.version,
        }
    }

    /// Increases the version, so that the state counts as newer than all copies of it.
    pub(super) fn supersede_copies(&mut self) {
        match self {
            Self::Rows(sums) => sums.supersede_copies(),
            Self::Loss(sums) => sums.version += 1,
        }
    }

    /// Encodes the whole state for the next owner.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Rows(sums) => sums.encode(),
            Self::Loss(sums) => sums.encode(),
        }
    }

    /// Decodes the state at the next owner. Returns `None` if it is invalid for `kind`.
    pub(super) fn decode(bytes: &[u8], kind: ShardKind) -> Option<Self> {
        match kind {
            ShardKind::Rows(shape) => BlockSums::decode(bytes, shape).map(Self::Rows),
            ShardKind::Loss(parameters) => LossShard::decode(bytes, parameters).map(Self::Loss),
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
