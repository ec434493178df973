//! What trainers send each other about what they share, as bytes: little-endian, numbers as they are in memory. What comes
//! from a network is untrusted: lengths, row numbers and values are checked ([`super::bytes`]).

use std::collections::BTreeMap;

use pbg_core::ledger::{MAX_TRAINERS, Token};
use pbg_core::loss::{LossState, Observed};

use super::bytes::{Reader, Writer};
use super::state::ShardKind;
use crate::member::ledger::Settlements;

/// Rows of a block with their values.
pub(super) type BlockRows = BTreeMap<u32, Vec<f32>>;

/// Number of the last message of each trainer that is in a sum.
pub(super) type Counted = BTreeMap<Token, u64>;

/// Rows of a block, and numbers of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) width: usize,
}

/// Most blocks that one message asks for.
pub(super) const MOST_BLOCKS: usize = 50_000;

/// A piece of an owner's state, on its way to the next one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// The state's version.
    pub(super) version: u64,
    /// Which piece, from 0.
    pub(super) piece: u32,
    /// Of how many.
    pub(super) pieces: u32,
    /// The bytes.
    pub(super) bytes: Vec<u8>,
}

/// What a trainer is asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Question {
    /// To add rows to a block, and to tell what changed.
    Exchange {
        /// The block.
        block: u32,
        /// The owner's version of it that is known; 0 for none.
        version: u64,
        /// Number of this message.
        number: u64,
        /// How far who asks has settled.
        settlements: Settlements,
        /// What was added.
        rows: BlockRows,
    },
    /// To count batches that the loss is to hear of, and to tell the loss's state.
    Loss {
        /// The loss's number among the blocks.
        block: u32,
        /// Number of this message.
        number: u64,
        /// The batches.
        observed: Observed,
    },
    /// Which of these blocks it counts for. What it says that it lacks, it takes from nobody as long as who asks is the
    /// owner.
    Have {
        /// The revision of the record by which the asker is the owner.
        at: u64,
        /// The blocks.
        blocks: Vec<u32>,
    },
    /// The sum of a block as it was seen last, from one that does not own it.
    Copy(u32),
    /// To own a block from now on.
    Give {
        /// The block.
        block: u32,
        /// The revision of the record by which the one that is asked is the owner.
        at: u64,
        /// Trainers that are known to leave: who is asked is the owner among the others.
        without: Vec<Token>,
        /// What the owner so far knows.
        piece: Piece,
    },
}

/// A question, and who asks it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) from: Token,
    pub(super) question: Question,
}

/// What a trainer answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// The sums of rows that changed.
    Sums {
        /// The owner's version.
        version: u64,
        /// Whose messages are in it.
        counted: Counted,
        /// The rows.
        rows: BlockRows,
    },
    /// The state of the loss.
    Loss {
        /// The owner's version.
        version: u64,
        /// Whose messages are in it, or will be.
        counted: Counted,
        /// The state.
        state: LossState,
        /// Whether all of these messages are in it, and none will be.
        is_whole: bool,
    },
    /// The block is another's. Nothing was added.
    NotMine,
    /// The owner does not have the sum yet. Nothing was added.
    NotReady,
    /// The blocks that it does not count for, with the versions that it saw last.
    Lacks(Vec<(u32, u64)>),
    /// The piece has arrived; the next one may come.
    More,
    /// The block is its own now, or was since.
    Taken,
    /// It leaves, and takes and adds nothing.
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

impl Asked {
    /// As bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = match &self.question {
            Question::Exchange { .. } => EXCHANGE,
            Question::Loss { .. } => LOSS,
            Question::Have { .. } => HAVE,
            Question::Copy(_) => COPY,
            Question::Give { .. } => GIVE,
        };
        let mut to = Writer::default();
        to.byte(kind);
        to.long(self.from.0);
        match &self.question {
            Question::Exchange {
                block,
                version,
                number,
                settlements: Settlements { begun, applied },
                rows,
            } => {
                to.int(*block);
                let numbers = [version, number, begun, applied];
                numbers.into_iter().for_each(|number| to.long(*number));
                to.rows(rows);
            }
            Question::Loss {
                block,
                number,
                observed,
            } => {
                to.int(*block);
                to.long(*number);
                to.observed(observed);
            }
            Question::Have { at, blocks } => {
                to.long(*at);
                blocks.iter().for_each(|block| to.int(*block));
            }
            Question::Copy(block) => to.int(*block),
            Question::Give {
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

    /// A question about blocks of the shape that `shape` says; none if it is not one.
    pub(super) fn decode(bytes: &[u8], shape: impl Fn(u32) -> Option<Shape>) -> Option<Self> {
        let mut reader = Reader(bytes);
        let kind = reader.byte()?;
        let from = Token(reader.long()?);
        let question = match kind {
            EXCHANGE => {
                let block = reader.int()?;
                Question::Exchange {
                    block,
                    version: reader.long()?,
                    number: reader.long()?,
                    settlements: Settlements {
                        begun: reader.long()?,
                        applied: reader.long()?,
                    },
                    rows: reader.all_rows(shape(block)?)?,
                }
            }
            LOSS => Question::Loss {
                block: reader.int()?,
                number: reader.long()?,
                observed: reader.observed()?,
            },
            HAVE => Question::Have {
                at: reader.long()?,
                blocks: reader.ints(MOST_BLOCKS)?,
            },
            COPY => Question::Copy(reader.int()?),
            GIVE => Question::Give {
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

impl Reply {
    /// As bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Self::NotMine => to.byte(NOT_MINE),
            Self::NotReady => to.byte(NOT_READY),
            Self::More => to.byte(MORE),
            Self::Taken => to.byte(TAKEN),
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

    /// An answer about what `kind` says; none if it is not one.
    pub(super) fn decode(bytes: &[u8], kind: ShardKind) -> Option<Self> {
        let mut reader = Reader(bytes);
        let reply = match reader.byte()? {
            NOT_MINE => Self::NotMine,
            NOT_READY => Self::NotReady,
            MORE => Self::More,
            TAKEN => Self::Taken,
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
