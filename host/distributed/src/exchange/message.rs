//! Messages between trainers about shared parameters, and their encoding: little-endian, floats bit by bit. What is
//! received from the network is untrusted: lengths, row numbers and values are checked ([`super::bytes`]).

use std::collections::BTreeMap;

use pbg_core::loss::{LossState, ObservedBatches};
use pbg_ledger::{MAX_TRAINERS, Token};

use super::encoding::{Decoder, Encoder};
use super::state::ShardKind;
use crate::ledger::SettlementCounts;

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

/// Largest number of blocks that one message may ask about.
pub(super) const MOST_BLOCKS: usize = 50_000;

/// A piece of an owner's state, sent to the next owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Version of the state.
    pub(super) version: u64,
    /// Index of the piece, from 0.
    pub(super) piece: u32,
    /// Number of pieces.
    pub(super) pieces: u32,
    /// Bytes of the piece.
    pub(super) bytes: Vec<u8>,
}

/// A question to another trainer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PeerRequest {
    /// Add these rows to a block, and return the rows that changed.
    Exchange {
        /// Index of the block.
        block: u32,
        /// The owner's version of the block that the sender knows; 0 if it knows none.
        version: u64,
        /// Number of this message.
        number: u64,
        /// How many settlements of the sender have begun and are applied.
        settlements: SettlementCounts,
        /// The additions.
        rows: RowUpdates,
    },
    /// Count these batches for the loss, and return the loss's state.
    Loss {
        /// Index of the loss, which follows those of the blocks.
        block: u32,
        /// Number of this message.
        number: u64,
        /// Sums over the batches.
        observed: ObservedBatches,
    },
    /// Which of these blocks do you hold? For each block that the receiver says it lacks, it promises not to accept the
    /// block from another trainer as long as the sender is the owner.
    WhichHeld {
        /// Revision of the record according to which the sender is the owner.
        at: u64,
        /// Indices of the blocks.
        blocks: Vec<u32>,
    },
    /// Return the sum of a block as last seen. The receiver does not own it.
    Copy(u32),
    /// Become the owner of a block.
    Transfer {
        /// Index of the block.
        block: u32,
        /// Revision of the record according to which the receiver is the owner.
        at: u64,
        /// Trainers known to be leaving. The receiver is the owner among the others.
        without: Vec<Token>,
        /// Piece of the state of the previous owner.
        piece: Piece,
    },
}

/// Request and its sender.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SignedRequest {
    pub(super) from: Token,
    pub(super) question: PeerRequest,
}

/// Reply to a [`PeerRequest`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PeerReply {
    /// The sums of the rows that changed.
    Sums {
        /// The owner's version.
        version: u64,
        /// Messages that are counted in it.
        counted: CountedMessages,
        /// The rows.
        rows: RowUpdates,
    },
    /// The state of the loss.
    Loss {
        /// The owner's version.
        version: u64,
        /// Messages that are counted in it, or are pending.
        counted: CountedMessages,
        /// State of the loss.
        state: LossState,
        /// Whether none of these messages is pending.
        is_whole: bool,
    },
    /// The receiver does not own the block. Nothing was added.
    NotMine,
    /// The receiver owns the block but does not hold its sum yet. Nothing was added.
    NotReady,
    /// The blocks that the receiver does not hold, with the versions that it saw last.
    Lacks(Vec<(u32, u64)>),
    /// The piece was received. The next one may follow.
    NextPiece,
    /// The receiver has accepted the block, now or earlier.
    Accepted,
    /// The receiver is leaving. It accepts no blocks and adds nothing.
    Leaving,
}

const EXCHANGE: u8 = 1;
const HAVE: u8 = 2;
const COPY: u8 = 3;
const GIVE: u8 = 4;
const LOSS: u8 = 5;
const SUMS: u8 = 11;
const NOT_MINE: u8 = 12;
const NOT_READY: u8 = 13;
const LACKS: u8 = 14;
const MORE: u8 = 15;
const TAKEN: u8 = 16;
const LEAVING: u8 = 17;
const LOSS_STATE: u8 = 18;

impl SignedRequest {
    /// Encodes the question.
    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = match &self.question {
            PeerRequest::Exchange { .. } => EXCHANGE,
            PeerRequest::Loss { .. } => LOSS,
            PeerRequest::WhichHeld { .. } => HAVE,
            PeerRequest::Copy(_) => COPY,
            PeerRequest::Transfer { .. } => GIVE,
        };
        let mut to = Encoder::default();
        to.byte(kind);
        to.long(self.from.0);
        match &self.question {
            PeerRequest::Exchange {
                block,
                version,
                number,
                settlements: SettlementCounts { begun, applied },
                rows,
            } => {
                to.int(*block);
                let numbers = [version, number, begun, applied];
                numbers.into_iter().for_each(|number| to.long(*number));
                to.rows(rows);
            }
            PeerRequest::Loss {
                block,
                number,
                observed,
            } => {
                to.int(*block);
                to.long(*number);
                to.observed(observed);
            }
            PeerRequest::WhichHeld { at, blocks } => {
                to.long(*at);
                blocks.iter().for_each(|block| to.int(*block));
            }
            PeerRequest::Copy(block) => to.int(*block),
            PeerRequest::Transfer {
                block,
                at,
                without,
                piece,
            } => {
                to.int(*block);
                to.long(*at);
                to.int(without.len() as u32);
                without.iter().for_each(|token| to.long(token.0));
                to.long(piece.version);
                to.int(piece.piece);
                to.int(piece.pieces);
                to.0.extend(&piece.bytes);
            }
        }
        to.0
    }

    /// Decodes a question about blocks whose shapes `shape` returns. Returns `None` if it is invalid.
    pub(super) fn decode(bytes: &[u8], shape: impl Fn(u32) -> Option<BlockShape>) -> Option<Self> {
        let mut reader = Decoder(bytes);
        let kind = reader.byte()?;
        let from = Token(reader.long()?);
        let question = match kind {
            EXCHANGE => {
                let block = reader.int()?;
                PeerRequest::Exchange {
                    block,
                    version: reader.long()?,
                    number: reader.long()?,
                    settlements: SettlementCounts {
                        begun: reader.long()?,
                        applied: reader.long()?,
                    },
                    rows: reader.all_rows(shape(block)?)?,
                }
            }
            LOSS => PeerRequest::Loss {
                block: reader.int()?,
                number: reader.long()?,
                observed: reader.observed()?,
            },
            HAVE => PeerRequest::WhichHeld {
                at: reader.long()?,
                blocks: reader.ints(MOST_BLOCKS)?,
            },
            COPY => PeerRequest::Copy(reader.int()?),
            GIVE => PeerRequest::Transfer {
                block: reader.int()?,
                at: reader.long()?,
                without: reader.tokens(MAX_TRAINERS)?,
                piece: Piece {
                    version: reader.long()?,
                    piece: reader.int()?,
                    pieces: reader.int()?,
                    bytes: reader.rest().to_vec(),
                },
            },
            _ => return None,
        };
        let asked = Self { from, question };
        reader.0.is_empty().then_some(asked)
    }
}

impl PeerReply {
    /// Encodes the answer.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        match self {
            Self::NotMine => to.byte(NOT_MINE),
            Self::NotReady => to.byte(NOT_READY),
            Self::NextPiece => to.byte(MORE),
            Self::Accepted => to.byte(TAKEN),
            Self::Leaving => to.byte(LEAVING),
            Self::Lacks(blocks) => {
                to.byte(LACKS);
                for (block, version) in blocks {
                    to.int(*block);
                    to.long(*version);
                }
            }
            Self::Loss {
                version,
                counted,
                state,
                is_whole,
            } => {
                to.byte(LOSS_STATE);
                to.byte(u8::from(*is_whole));
                to.long(*version);
                to.counted(counted);
                to.loss(state);
            }
            Self::Sums {
                version,
                counted,
                rows,
            } => {
                to.byte(SUMS);
                to.long(*version);
                to.counted(counted);
                to.rows(rows);
            }
        }
        to.0
    }

    /// Decodes an answer about a shard of kind `kind`. Returns `None` if it is invalid.
    pub(super) fn decode(bytes: &[u8], kind: ShardKind) -> Option<Self> {
        let mut reader = Decoder(bytes);
        let reply = match reader.byte()? {
            NOT_MINE => Self::NotMine,
            NOT_READY => Self::NotReady,
            MORE => Self::NextPiece,
            TAKEN => Self::Accepted,
            LEAVING => Self::Leaving,
            LACKS => {
                let mut blocks = Vec::new();
                while !reader.0.is_empty() {
                    blocks.push((reader.int()?, reader.long()?));
                }
                Self::Lacks(blocks)
            }
            SUMS => Self::Sums {
                version: reader.long()?,
                counted: reader.counted()?,
                rows: reader.all_rows(kind.shape())?,
            },
            LOSS_STATE => {
                let ShardKind::Loss(parameters) = kind else {
                    return None;
                };
                Self::Loss {
                    is_whole: reader.byte()? == 1,
                    version: reader.long()?,
                    counted: reader.counted()?,
                    state: reader.loss(parameters)?,
                }
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(reply)
    }
}

#[cfg(test)]
mod tests;
