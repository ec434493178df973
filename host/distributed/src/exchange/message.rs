//! Messages between trainers about shared parameters, and their encoding: little-endian, floats bit by bit. What is
//! received from the network is untrusted: lengths, row numbers and values are checked ([`super::encoding`]).

use pbg_core::loss::{LossState, ObservedBatches};
use pbg_ledger::Token;

use super::encoding::{Decoder, Encoder};
use super::shard::{BlockShape, CountedMessages, RowUpdates, ShardKind};
use crate::ledger::SettlementCounts;

/// Largest number of blocks that one message may ask about.
pub(super) const MOST_BLOCKS: usize = 50_000;

/// Size in bytes of a piece of a state.
pub(super) const PIECE_BYTES: usize = 512 << 10;

/// A piece of a state, sent to the next owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Version of the state.
    pub(super) version: u64,
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
    /// Which of these blocks do you hold? The sender owns them and seeks them.
    WhichHeld(Vec<u32>),
    /// Return a piece of the newest state of a block that the receiver knows and does not hold.
    State {
        /// Index of the block.
        block: u32,
        /// Index of the piece, from 0.
        piece: u32,
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
    /// The blocks that the receiver neither holds nor seeks, with the newest versions that it knows.
    NotHeld(Vec<(u32, u64)>),
    /// A piece of a block's state.
    State(Piece),
    /// The receiver is leaving. Nothing was added.
    Leaving,
}

const EXCHANGE: u8 = 1;
const WHICH_HELD: u8 = 2;
const STATE: u8 = 3;
const LOSS: u8 = 5;
const SUMS: u8 = 11;
const NOT_MINE: u8 = 12;
const NOT_READY: u8 = 13;
const NOT_HELD: u8 = 14;
const PIECE: u8 = 15;
const LEAVING: u8 = 17;
const LOSS_STATE: u8 = 18;

impl SignedRequest {
    /// Encodes the question.
    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = match &self.question {
            PeerRequest::Exchange { .. } => EXCHANGE,
            PeerRequest::Loss { .. } => LOSS,
            PeerRequest::WhichHeld(_) => WHICH_HELD,
            PeerRequest::State { .. } => STATE,
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
            PeerRequest::WhichHeld(blocks) => blocks.iter().for_each(|block| to.int(*block)),
            PeerRequest::State { block, piece } => {
                to.int(*block);
                to.int(*piece);
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
                    version: reader.number()?,
                    number: reader.number()?,
                    settlements: SettlementCounts {
                        begun: reader.number()?,
                        applied: reader.number()?,
                    },
                    rows: reader.all_rows(shape(block)?)?,
                }
            }
            LOSS => PeerRequest::Loss {
                block: reader.int()?,
                number: reader.number()?,
                observed: reader.observed()?,
            },
            WHICH_HELD => PeerRequest::WhichHeld(reader.ints(MOST_BLOCKS)?),
            STATE => PeerRequest::State {
                block: reader.int()?,
                piece: reader.int()?,
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
            Self::Leaving => to.byte(LEAVING),
            Self::State(piece) => {
                to.byte(PIECE);
                to.long(piece.version);
                to.int(piece.pieces);
                to.0.extend(&piece.bytes);
            }
            Self::NotHeld(blocks) => {
                to.byte(NOT_HELD);
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
            LEAVING => Self::Leaving,
            PIECE => Self::State(Piece {
                version: reader.number()?,
                pieces: reader.int()?,
                bytes: reader.rest().to_vec(),
            }),
            NOT_HELD => {
                let mut blocks = Vec::new();
                while !reader.0.is_empty() {
                    blocks.push((reader.int()?, reader.number()?));
                }
                Self::NotHeld(blocks)
            }
            SUMS => Self::Sums {
                version: reader.number()?,
                counted: reader.counted()?,
                rows: reader.all_rows(kind.shape())?,
            },
            LOSS_STATE => {
                let ShardKind::Loss(parameters) = kind else {
                    return None;
                };
                Self::Loss {
                    is_whole: reader.byte()? == 1,
                    version: reader.number()?,
                    counted: reader.counted()?,
                    state: reader.loss(parameters)?,
                }
            }
            _ => return None,
        };
        let is_piece = |piece: &Piece| piece.bytes.len() <= PIECE_BYTES;
        let is_sized = !matches!(&reply, Self::State(piece) if !is_piece(piece));
        (is_sized && reader.0.is_empty()).then_some(reply)
    }
}

#[cfg(test)]
mod tests;
