//! What the owner of a shard knows, whatever the shard is: it is this that changes hands.

use super::loss::LossSums;
use super::message::{Counted, Shape};
use super::owner::Sums;

/// What is exchanged as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardKind {
    /// A block of rows.
    Rows(Shape),
    /// The loss, with so many parameters.
    Loss(usize),
}

impl ShardKind {
    /// The rows of messages about it.
    pub(super) fn shape(self) -> Shape {
        match self {
            Self::Rows(shape) => shape,
            Self::Loss(_) => Shape { rows: 0, width: 1 },
        }
    }
}

/// What its owner knows.
#[derive(Debug, PartialEq)]
pub(super) enum State {
    Rows(Sums),
    Loss(LossSums),
}

impl State {
    pub(super) fn version(&self) -> u64 {
        match self {
            Self::Rows(sums) => sums.version(),
            Self::Loss(sums) => sums.version,
        }
    }

    /// Everything that the next owner has to know, as bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Rows(sums) => sums.encode(),
            Self::Loss(sums) => sums.encode(),
        }
    }

    /// What [`State::encode`] wrote, at the next owner; none if it does not fit.
    pub(super) fn decode(bytes: &[u8], kind: ShardKind) -> Option<Self> {
        match kind {
            ShardKind::Rows(shape) => Sums::decode(bytes, shape).map(Self::Rows),
            ShardKind::Loss(parameters) => LossSums::decode(bytes, parameters).map(Self::Loss),
        }
    }
}

/// How far the versions of an owner that had to begin with a copy are ahead of those of the copy: nobody has seen one of
/// them from the owner that was lost.
const ANEW: u64 = 1 << 32;

/// The version of an owner that begins with a copy of `version`.
pub(super) fn anew(version: u64) -> u64 {
    version.saturating_add(ANEW)
}

/// A copy of what an owner knew, as anybody has seen it.
#[derive(Debug)]
pub(super) struct Copied<T> {
    pub(super) version: u64,
    pub(super) counted: Counted,
    pub(super) what: T,
}
