//! Encoding of numbers and rows as bytes, and decoding with checks of every length and value.

use pbg_core::loss::{LossState, ObservedBatches};
use pbg_ledger::{MAX_TRAINERS, Token};

use super::shard::{BlockShape, CountedMessages, RowUpdates};

/// Largest number of trainers whose messages are counted in a sum: those of a run, and some that have left it.
pub(super) const MOST_COUNTED: usize = 4 * MAX_TRAINERS;

/// Greatest number of a message, a settlement or a version. No run reaches it, and adding to it does not overflow.
const MAX_NUMBER: u64 = 1 << 62;
/// Largest number of an array, and largest sum that a message may lead to. Those of all trainers can be added and
/// subtracted in any order, and stay finite.
pub(super) const MAX_VALUE: f32 = 1e30;
/// Greatest number of batches or edges that one message may count.
const MAX_OBSERVED: u64 = 1 << 48;
/// Greatest loss that one message may count, so that sums of many are finite.
const MAX_LOSS: f64 = 1e290;

/// Encoder that appends to its buffer.
#[derive(Default)]
pub(super) struct Encoder(pub(super) Vec<u8>);

impl Encoder {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn int(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn long(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn floats(&mut self, values: &[f32]) {
        self.0.reserve(4 * values.len());
        self.0
            .extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    pub(super) fn rows(&mut self, rows: &RowUpdates) {
        for (row, values) in rows {
            self.int(*row);
            self.floats(values);
        }
    }

    pub(super) fn double(&mut self, number: f64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn observed(&mut self, observed: &ObservedBatches) {
        self.long(observed.batches);
        self.long(observed.edges);
        self.double(observed.loss);
    }

    pub(super) fn loss(&mut self, state: &LossState) {
        self.long(state.step);
        self.long(state.edges);
        self.double(state.loss);
        self.int(state.parameters.len() as u32);
        self.floats(&state.parameters);
    }

    pub(super) fn counted(&mut self, counted: &CountedMessages) {
        self.int(counted.len() as u32);
        for (token, number) in counted {
            self.long(token.0);
            self.long(*number);
        }
    }
}

/// Decoder of untrusted bytes. Each method returns `None` if the bytes end too early or have an invalid value.
pub(super) struct Decoder<'a>(pub(super) &'a [u8]);

impl<'a> Decoder<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn int(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    /// Reads the number of a message, a settlement or a version.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.long().filter(|number| *number <= MAX_NUMBER)
    }

    /// Returns the remaining bytes.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Reads `count` numbers, none of which may be so large that sums of them would not be finite.
    pub(super) fn floats(&mut self, count: usize) -> Option<Vec<f32>> {
        let (values, rest) = self.0.split_at_checked(4 * count)?;
        self.0 = rest;
        let (values, _) = values.as_chunks();
        let values: Vec<f32> = values.iter().map(|b| f32::from_le_bytes(*b)).collect();
        values
            .iter()
            .all(|value| value.abs() <= MAX_VALUE)
            .then_some(values)
    }

    /// Reads a loss, which must be finite and not so large that a sum would not be.
    fn double(&mut self) -> Option<f64> {
        let number = f64::from_bits(self.long()?);
        (number.abs() <= MAX_LOSS).then_some(number)
    }

    pub(super) fn observed(&mut self) -> Option<ObservedBatches> {
        let mut count = || self.long().filter(|count| *count <= MAX_OBSERVED);
        Some(ObservedBatches {
            batches: count()?,
            edges: count()?,
            loss: self.double()?,
        })
    }

    /// Reads the state of a loss that must have `parameters` parameters.
    pub(super) fn loss(&mut self, parameters: usize) -> Option<LossState> {
        let (step, edges, loss) = (self.number()?, self.number()?, self.double()?);
        if self.int()? as usize != parameters {
            return None;
        }
        Some(LossState {
            step,
            edges,
            loss,
            parameters: self.floats(parameters)?,
        })
    }

    /// Reads integers up to the end, at most `most`.
    pub(super) fn ints(&mut self, most: usize) -> Option<Vec<u32>> {
        let mut numbers = Vec::new();
        while !self.0.is_empty() {
            numbers.push(self.int()?);
        }
        (numbers.len() <= most).then_some(numbers)
    }

    pub(super) fn counted(&mut self) -> Option<CountedMessages> {
        let count = self.int()? as usize;
        if count > MOST_COUNTED {
            return None;
        }
        let one = |_| Some((Token(self.long()?), self.number()?));
        (0..count).map(one).collect()
    }

    /// Reads `count` rows, whose indices must be ascending and within `shape`, and whose values must be finite.
    pub(super) fn rows(&mut self, count: usize, shape: BlockShape) -> Option<RowUpdates> {
        let mut found = RowUpdates::new();
        for _ in 0..count {
            let row = self.int()?;
            let values = self.floats(shape.width)?;
            let is_next = found.last_key_value().is_none_or(|(last, _)| *last < row);
            if !is_next || row as usize >= shape.rows {
                return None;
            }
            found.insert(row, values);
        }
        Some(found)
    }

    /// Reads rows up to the end.
    pub(super) fn all_rows(&mut self, shape: BlockShape) -> Option<RowUpdates> {
        let bytes = 4 + 4 * shape.width;
        match self.0.len() % bytes {
            0 => self.rows(self.0.len() / bytes, shape),
            _ => None,
        }
    }
}
