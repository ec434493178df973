//! The owner's state of a block: the sum of all additions, the messages counted in it, and the additions not yet
//! settled.

use std::collections::BTreeMap;

use pbg_ledger::Token;

use super::encoding::{Decoder, Encoder, MAX_VALUE, MOST_COUNTED};
use super::message::PeerReply;
use super::shard::{BlockShape, CountedMessages, RowUpdates, version_after_loss};
use crate::ledger::SettlementCounts;

/// Most settlements of a trainer whose additions are kept apart: those before the settlement in progress, those in it, and
/// those after it, and one more.
pub(super) const MOST_UNSETTLED: usize = 4;

/// A block's sum over the additions of all trainers, at its owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BlockSums {
    values: Vec<f32>,
    shape: BlockShape,
    /// Increases with every message that changes something. Never decreases, even when the owner changes.
    version: u64,
    /// The version in which each row last changed.
    changed: Vec<u64>,
    from: BTreeMap<Token, Contribution>,
}

/// The additions of one trainer.
#[derive(Clone, Debug, Default, PartialEq)]
struct Contribution {
    /// Number of its last message, so that a repeated message counts once.
    number: u64,
    /// Additions that it has not settled, keyed by the number of settlements that had begun when they were sent. They
    /// are subtracted if the trainer is removed from the run, since its buckets are trained again.
    unsettled: BTreeMap<u64, RowUpdates>,
}

/// An `Exchange` question.
pub(super) struct ExchangeRequest {
    pub(super) from: Token,
    /// The version that the sender knows.
    pub(super) version: u64,
    /// Increases with every message of the sender about the block.
    pub(super) number: u64,
    pub(super) settlements: SettlementCounts,
    pub(super) rows: RowUpdates,
}

impl BlockSums {
    /// Starts from a copy, the newest known one: `values`, row by row, of version `version`.
    pub(super) fn from_copy(
        values: Vec<f32>,
        shape: BlockShape,
        version: u64,
        counted: CountedMessages,
    ) -> Self {
        let contribution = |(token, number)| {
            let unsettled = BTreeMap::new();
            (token, Contribution { number, unsettled })
        };
        let version = version_after_loss(version);
        Self {
            values,
            shape,
            version,
            changed: vec![version; shape.rows],
            from: counted.into_iter().map(contribution).collect(),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Increases the version, so that these sums count as newer than all copies of them.
    pub(super) fn supersede_copies(&mut self) {
        self.version += 1;
    }

    /// Counts a message, and returns the rows that its sender lacks. `takes_part` returns whether a trainer is part of
    /// the run. A message that no trainer sends is refused: one with more settlements in progress than a trainer has, or
    /// with which a sum would no longer be finite.
    pub(super) fn exchange(
        &mut self,
        message: &ExchangeRequest,
        takes_part: impl Fn(&Token) -> bool,
    ) -> PeerReply {
        self.drop_lost(takes_part);
        if !self.is_countable(message) {
            return PeerReply::NotMine;
        }
        self.add(message);
        PeerReply::Sums {
            version: self.version,
            counted: self.from.iter().map(|(t, c)| (*t, c.number)).collect(),
            rows: self.since(message.version),
        }
    }

    /// Whether a message is one that a trainer sends.
    fn is_countable(&self, message: &ExchangeRequest) -> bool {
        let SettlementCounts { begun, applied } = message.settlements;
        let none = Contribution::default();
        let contribution = self.from.get(&message.from).unwrap_or(&none);
        if message.number <= contribution.number {
            return true;
        }
        let open = contribution.unsettled.range(applied..);
        let others = open.filter(|(number, _)| **number != begun).count();
        let mut rows = message.rows.iter();
        let is_bounded = |(row, added): (&u32, &Vec<f32>)| {
            let at = *row as usize * self.shape.width;
            let unsettled = contribution
                .unsettled
                .get(&begun)
                .and_then(|of| of.get(row));
            let sums = self.values[at..].iter().zip(added);
            let unsettled = unsettled.into_iter().flatten().zip(added);
            let mut all = sums.chain(unsettled).map(|(sum, value)| sum + value);
            all.all(|sum| sum.abs() <= MAX_VALUE)
        };
        applied <= begun && others < MOST_UNSETTLED && rows.all(is_bounded)
    }

    fn add(&mut self, message: &ExchangeRequest) {
        let contribution = self.from.entry(message.from).or_default();
        if message.number <= contribution.number {
            return;
        }
        contribution.number = message.number;
        let SettlementCounts { begun, applied } = message.settlements;
        // Additions made after `n` settlements had begun are in settlement `n + 1`.
        contribution.unsettled = contribution.unsettled.split_off(&applied);
        if message.rows.is_empty() {
            return;
        }
        let unsettled = contribution.unsettled.entry(begun).or_default();
        for (row, added) in &message.rows {
            let unsettled = unsettled.entry(*row);
            let unsettled = unsettled.or_insert_with(|| vec![0.0; self.shape.width]);
            add(unsettled, added, 1.0);
        }
        self.change(&message.rows, 1.0);
    }

    /// Subtracts the unsettled additions of trainers that are no longer part of the run.
    fn drop_lost(&mut self, takes_part: impl Fn(&Token) -> bool) {
        let lost: Vec<Token> = self
            .from
            .keys()
            .filter(|t| !takes_part(t))
            .copied()
            .collect();
        for token in lost {
            let contribution = self.from.remove(&token).unwrap_or_default();
            for rows in contribution.unsettled.values() {
                self.change(rows, -1.0);
            }
        }
    }

    fn change(&mut self, rows: &RowUpdates, factor: f32) {
        if rows.is_empty() {
            return;
        }
        self.version += 1;
        let width = self.shape.width;
        for (row, values) in rows {
            let at = *row as usize * width;
            add(&mut self.values[at..][..width], values, factor);
            self.changed[*row as usize] = self.version;
        }
    }

    /// Returns the rows that changed after `version`.
    fn since(&self, version: u64) -> RowUpdates {
        let rows = self.values.chunks_exact(self.shape.width);
        let rows = (0..).zip(rows.zip(&self.changed));
        rows.filter(|(_, (_, changed))| **changed > version)
            .map(|(row, (values, _))| (row, values.to_vec()))
            .collect()
    }

    /// Encodes the whole state for the next owner.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        to.long(self.version);
        to.floats(&self.values);
        to.int(self.from.len() as u32);
        for (token, Contribution { number, unsettled }) in &self.from {
            to.long(token.0);
            to.long(*number);
            to.int(unsettled.len() as u32);
            for (begun, rows) in unsettled {
                to.long(*begun);
                to.int(rows.len() as u32);
                to.rows(rows);
            }
        }
        to.0
    }

    /// Decodes the state at the next owner. Returns `None` if it is not a state of a block of this shape.
    pub(super) fn decode(bytes: &[u8], shape: BlockShape) -> Option<Self> {
        let mut reader = Decoder(bytes);
        // The version differs from the previous owner's, so that every trainer receives all rows once.
        let version = reader.number()? + 1;
        let values = reader.floats(shape.rows * shape.width)?;
        let mut from = BTreeMap::new();
        let trainers = reader.int()? as usize;
        if trainers > MOST_COUNTED {
            return None;
        }
        for _ in 0..trainers {
            let (token, number) = (Token(reader.long()?), reader.number()?);
            let mut unsettled = BTreeMap::new();
            let settlements = reader.int()? as usize;
            if settlements > MOST_UNSETTLED {
                return None;
            }
            for _ in 0..settlements {
                let (begun, rows) = (reader.number()?, reader.int()? as usize);
                unsettled.insert(begun, reader.rows(rows, shape)?);
            }
            from.insert(token, Contribution { number, unsettled });
        }
        reader.0.is_empty().then(|| Self {
            values,
            shape,
            version,
            changed: vec![version; shape.rows],
            from,
        })
    }
}

fn add(to: &mut [f32], values: &[f32], factor: f32) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += factor * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: fn(&Token) -> bool = |_| true;
    const SHAPE: BlockShape = BlockShape { rows: 2, width: 2 };

    fn sums() -> BlockSums {
        BlockSums::from_copy(vec![1.0, 2.0, 3.0, 4.0], SHAPE, 0, CountedMessages::new())
    }

    fn message(
        from: u64,
        number: u64,
        settlements: u64,
        version: u64,
        rows: &[(u32, [f32; 2])],
    ) -> ExchangeRequest {
        ExchangeRequest {
            from: Token(from),
            version,
            number,
            settlements: SettlementCounts {
                begun: settlements,
                applied: settlements,
            },
            rows: rows.iter().map(|(row, v)| (*row, v.to_vec())).collect(),
        }
    }

    fn told(reply: PeerReply) -> (u64, Vec<(u32, Vec<f32>)>) {
        match reply {
            PeerReply::Sums { version, rows, .. } => (version, rows.into_iter().collect()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sums_add_up_and_only_what_changed_is_sent() {
        let mut sums = sums();
        let (version, all) = told(sums.exchange(&message(1, 1, 0, 0, &[]), ALL));
        assert_eq!(all, [(0, vec![1.0, 2.0]), (1, vec![3.0, 4.0])]);
        let added = message(1, 2, 0, version, &[(1, [0.5, 0.0])]);
        let (version, rows) = told(sums.exchange(&added, ALL));
        assert_eq!(rows, [(1, vec![3.5, 4.0])]);
        let added = message(2, 1, 0, version, &[(1, [1.0, 1.0])]);
        let (_, rows) = told(sums.exchange(&added, ALL));
        assert_eq!(rows, [(1, vec![4.5, 5.0])]);
        let (_, none) = told(sums.exchange(&message(1, 3, 0, u64::MAX, &[]), ALL));
        assert!(none.is_empty());
    }

    #[test]
    fn a_repeated_message_counts_once_whoever_owns_the_block_then() {
        let mut sums = sums();
        let added = message(1, 1, 0, 0, &[(0, [1.0, 1.0])]);
        for _ in 0..3 {
            let reply = sums.exchange(&added, ALL);
            assert_eq!(told(reply).1[0], (0, vec![2.0, 3.0]));
        }
        let mut next = BlockSums::decode(&sums.encode(), SHAPE).unwrap();
        assert!(next.version() > sums.version());
        let reply = next.exchange(&added, ALL);
        assert_eq!(told(reply).1[0], (0, vec![2.0, 3.0]));
        // An owner that starts from a copy knows which messages are counted in it.
        let counted = [(Token(1), 1)].into();
        let mut copy =
            BlockSums::from_copy(vec![2.0, 3.0, 3.0, 4.0], SHAPE, sums.version(), counted);
        let reply = copy.exchange(&added, ALL);
        assert_eq!(told(reply).1[0], (0, vec![2.0, 3.0]));
    }

    #[test]
    fn what_a_lost_trainer_had_not_settled_is_taken_back_by_the_next_owner_too() {
        let mut sums = sums();
        sums.exchange(&message(1, 1, 0, 0, &[(0, [1.0, 0.0])]), ALL);
        // Additions made before a settlement stay once that is applied.
        let later = message(1, 2, 1, 0, &[(0, [4.0, 0.0]), (1, [8.0, 0.0])]);
        sums.exchange(&later, ALL);
        let next = BlockSums::decode(&sums.encode(), SHAPE).unwrap();
        for mut sums in [sums, next] {
            let reply = sums.exchange(&message(2, 1, 0, 0, &[]), |token| *token == Token(2));
            assert_eq!(told(reply).1, [(0, vec![2.0, 2.0]), (1, vec![3.0, 4.0])]);
        }
    }

    #[test]
    fn what_no_trainer_sends_is_refused_and_changes_nothing() {
        let mut sums = sums();
        sums.exchange(&message(1, 1, 0, 0, &[(0, [1.0, 1.0])]), ALL);
        let before = sums.clone();
        let settled_before_begun = ExchangeRequest {
            settlements: SettlementCounts {
                begun: 1,
                applied: 2,
            },
            ..message(1, 2, 0, 0, &[(0, [1.0, 1.0])])
        };
        for wrong in [
            settled_before_begun,
            message(1, 2, 0, 0, &[(1, [0.0, f32::INFINITY])]),
            message(1, 2, 0, 0, &[(1, [f32::NAN, 0.0])]),
        ] {
            assert_eq!(sums.exchange(&wrong, ALL), PeerReply::NotMine);
            assert_eq!(sums, before);
        }
        // Each message claims a settlement that has not begun before, and none that is applied.
        let mut refused = 0;
        for number in 2..1000 {
            let claims = ExchangeRequest {
                settlements: SettlementCounts {
                    begun: number,
                    applied: 0,
                },
                ..message(1, number, 0, 0, &[(0, [1.0, 1.0])])
            };
            refused += u32::from(sums.exchange(&claims, ALL) == PeerReply::NotMine);
        }
        assert_eq!(sums.from[&Token(1)].unsettled.len(), MOST_UNSETTLED);
        assert!(refused > 900);
        // One with which the sum would be too large.
        let largest = |number| message(2, number, 0, 0, &[(1, [0.75 * MAX_VALUE, 0.0])]);
        assert_ne!(sums.exchange(&largest(1), ALL), PeerReply::NotMine);
        assert_eq!(sums.exchange(&largest(2), ALL), PeerReply::NotMine);
    }

    #[test]
    fn a_state_that_does_not_fit_is_refused() {
        let mut sums = sums();
        sums.exchange(&message(1, 1, 0, 0, &[(1, [1.0, 0.0])]), ALL);
        let bytes = sums.encode();
        assert!(BlockSums::decode(&bytes[..bytes.len() - 1], SHAPE).is_none());
        assert!(BlockSums::decode(&bytes, BlockShape { rows: 1, width: 2 }).is_none());
        let mut infinite = bytes;
        infinite[8..12].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(BlockSums::decode(&infinite, SHAPE).is_none());
    }
}
