//! What trainers send each other about parameters, as bytes: little-endian, numbers as they are in memory. What comes
//! from a network is untrusted: lengths, row numbers and values are checked.

use std::collections::BTreeMap;

use pbg_core::ledger::Token;

use crate::member::ledger::Settlements;

/// Rows of a block with their values.
pub(super) type Rows = BTreeMap<u32, Vec<f32>>;

/// What an owner is asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Question {
    /// To add rows to a block, and to tell what changed.
    Exchange {
        /// Who asks.
        from: Token,
        /// The block.
        block: u32,
        /// The owner's version of it that is known; 0 for none.
        version: u64,
        /// Number of this message.
        number: u64,
        /// How far who asks has settled.
        settlements: Settlements,
        /// What was added.
        rows: Rows,
    },
    /// To own a block no more, and to tell its sum.
    Handover {
        /// Who owns it from now on.
        from: Token,
        /// The block.
        block: u32,
    },
}

/// What an owner answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// The sums of rows that changed.
    Sums {
        /// The owner's version.
        version: u64,
        /// The rows.
        rows: Rows,
    },
    /// The block is another's. Nothing was added.
    NotMine,
    /// The owner does not have the sum yet. Nothing was added.
    NotReady,
}

const EXCHANGE: u8 = 1;
const HANDOVER: u8 = 2;
const SUMS: u8 = 3;
const NOT_MINE: u8 = 4;
const NOT_READY: u8 = 5;

impl Question {
    /// The block that a question is about; none if it is no question.
    pub(super) fn block(bytes: &[u8]) -> Option<u32> {
        let bytes = bytes.get(9..13)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// As bytes, for rows of `width` numbers.
    pub(super) fn encode(&self, width: usize) -> Vec<u8> {
        match self {
            Self::Handover { from, block } => {
                let mut bytes = vec![HANDOVER];
                bytes.extend(from.0.to_le_bytes());
                bytes.extend(block.to_le_bytes());
                bytes
            }
            Self::Exchange {
                from,
                block,
                version,
                number,
                settlements,
                rows,
            } => {
                let mut bytes = vec![EXCHANGE];
                bytes.extend(from.0.to_le_bytes());
                bytes.extend(block.to_le_bytes());
                let Settlements { begun, applied } = settlements;
                for number in [version, number, begun, applied] {
                    bytes.extend(number.to_le_bytes());
                }
                put(&mut bytes, rows, width);
                bytes
            }
        }
    }

    /// A question about a block of `rows` rows; none if it is not one.
    pub(super) fn decode(bytes: &[u8], rows: usize, width: usize) -> Option<Self> {
        let mut reader = Reader(bytes);
        let kind = reader.byte()?;
        let (from, block) = (Token(reader.long()?), reader.int()?);
        let question = match kind {
            HANDOVER => Self::Handover { from, block },
            EXCHANGE => Self::Exchange {
                from,
                block,
                version: reader.long()?,
                number: reader.long()?,
                settlements: Settlements {
                    begun: reader.long()?,
                    applied: reader.long()?,
                },
                rows: reader.rows(rows, width)?,
            },
            _ => return None,
        };
        reader.0.is_empty().then_some(question)
    }
}

impl Reply {
    pub(super) fn encode(&self, width: usize) -> Vec<u8> {
        match self {
            Self::NotMine => vec![NOT_MINE],
            Self::NotReady => vec![NOT_READY],
            Self::Sums { version, rows } => {
                let mut bytes = vec![SUMS];
                bytes.extend(version.to_le_bytes());
                put(&mut bytes, rows, width);
                bytes
            }
        }
    }

    pub(super) fn decode(bytes: &[u8], rows: usize, width: usize) -> Option<Self> {
        let mut reader = Reader(bytes);
        let reply = match reader.byte()? {
            NOT_MINE => Self::NotMine,
            NOT_READY => Self::NotReady,
            SUMS => Self::Sums {
                version: reader.long()?,
                rows: reader.rows(rows, width)?,
            },
            _ => return None,
        };
        reader.0.is_empty().then_some(reply)
    }
}

fn put(bytes: &mut Vec<u8>, rows: &Rows, width: usize) {
    bytes.reserve(rows.len() * (4 + 4 * width));
    for (row, values) in rows {
        bytes.extend(row.to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn int(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn long(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    /// The rows that are left: ascending, inside the block, of finite values.
    fn rows(&mut self, rows: usize, width: usize) -> Option<Rows> {
        let mut found = Rows::new();
        while !self.0.is_empty() {
            let row = self.int()?;
            let (values, rest) = self.0.split_at_checked(4 * width)?;
            self.0 = rest;
            let (values, _) = values.as_chunks();
            let values: Vec<f32> = values.iter().map(|b| f32::from_le_bytes(*b)).collect();
            let is_next = found.last_key_value().is_none_or(|(last, _)| *last < row);
            let is_sound = values.iter().all(|value| value.is_finite());
            if !is_next || !is_sound || row as usize >= rows {
                return None;
            }
            found.insert(row, values);
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_their_bytes_and_others_are_refused() {
        let rows: Rows = [(0, vec![1.0, -2.0]), (3, vec![0.5, 0.0])].into();
        let question = Question::Exchange {
            from: Token(7),
            block: 2,
            version: 3,
            number: 4,
            settlements: Settlements {
                begun: 6,
                applied: 5,
            },
            rows: rows.clone(),
        };
        let bytes = question.encode(2);
        assert_eq!(Question::block(&bytes), Some(2));
        assert_eq!(Question::decode(&bytes, 4, 2), Some(question));
        for wrong in [&bytes[..bytes.len() - 1], &bytes[1..], &[]] {
            assert_eq!(Question::decode(wrong, 4, 2), None);
        }
        assert_eq!(Question::decode(&bytes, 3, 2), None);
        let handover = Question::Handover {
            from: Token(1),
            block: 9,
        };
        assert_eq!(Question::decode(&handover.encode(2), 4, 2), Some(handover));
        for reply in [
            Reply::NotMine,
            Reply::NotReady,
            Reply::Sums { version: 8, rows },
        ] {
            assert_eq!(Reply::decode(&reply.encode(2), 4, 2), Some(reply));
        }
        let infinite = Reply::Sums {
            version: 1,
            rows: [(0, vec![f32::NAN, 0.0])].into(),
        };
        assert_eq!(Reply::decode(&infinite.encode(2), 4, 2), None);
    }
}
