//! The state of a shard at its owner, for every kind of shard. This is what the next owner fetches.

use super::loss_shard::LossShard;
use super::owner::BlockSums;
use super::shard::ShardKind;

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
