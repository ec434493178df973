//! The states of all buckets of a pass: two bits each.

use serde::{Deserialize, Serialize};

/// Where a bucket is in its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketState {
    /// Nobody has it.
    ToDo,
    /// A trainer has it.
    Leased,
    /// It is trained, and in the files of its partitions.
    Done,
    /// It has no edges in this pass. Nobody trains it, and it needs no partition.
    Empty,
}

impl BucketState {
    const ALL: [Self; 4] = [Self::ToDo, Self::Leased, Self::Done, Self::Empty];
}

/// The states of buckets by their index in the grid. As text it is hexadecimal, two buckets per digit, the earlier one
/// in the lower bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Text", try_from = "Text")]
pub struct Buckets {
    /// Four buckets per byte; bits behind the last bucket are 0.
    bits: Vec<u8>,
    len: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    count: usize,
    states: String,
}

impl Buckets {
    /// `len` buckets to do.
    #[must_use]
    pub fn to_do(len: usize) -> Self {
        let bits = vec![0; len.div_ceil(4)];
        Self { bits, len }
    }

    /// Buckets in these states, by index.
    #[must_use]
    pub fn of(states: &[BucketState]) -> Self {
        let mut buckets = Self::to_do(states.len());
        for (index, state) in states.iter().enumerate() {
            buckets.set(index, *state);
        }
        buckets
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// State of the bucket at `index`; none outside the grid.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<BucketState> {
        let byte = self.bits.get(index / 4).filter(|_| index < self.len)?;
        Some(BucketState::ALL[usize::from(byte >> (2 * (index % 4)) & 3)])
    }

    /// All states, by index.
    pub fn iter(&self) -> impl Iterator<Item = BucketState> + '_ {
        (0..self.len).filter_map(|index| self.get(index))
    }

    /// How many are in `state`.
    #[must_use]
    pub fn count(&self, state: BucketState) -> usize {
        self.iter().filter(|s| *s == state).count()
    }

    /// Whether nothing is left to train.
    #[must_use]
    pub fn all_done(&self) -> bool {
        self.iter()
            .all(|state| matches!(state, BucketState::Done | BucketState::Empty))
    }

    /// Sets the state of the bucket at `index`, which is in the grid.
    pub(super) fn set(&mut self, index: usize, state: BucketState) {
        let shift = 2 * (index % 4);
        let byte = &mut self.bits[index / 4];
        *byte = *byte & !(3 << shift) | (state as u8) << shift;
    }
}

impl From<Buckets> for Text {
    fn from(buckets: Buckets) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = buckets.bits.iter().flat_map(|b| [b & 15, b >> 4]);
        Self {
            count: buckets.len,
            states: digits.map(|d| char::from(DIGITS[usize::from(d)])).collect(),
        }
    }
}

impl TryFrom<Text> for Buckets {
    type Error = String;

    fn try_from(text: Text) -> Result<Self, String> {
        let Text { count, states } = text;
        let digit = |d: u8| match d {
            b'0'..=b'9' => Some(d - b'0'),
            b'a'..=b'f' => Some(d - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = states.as_bytes().as_chunks::<2>();
        let bits: Option<Vec<u8>> = pairs
            .iter()
            .map(|&[low, high]| Some(digit(low)? | digit(high)? << 4))
            .collect();
        let bits = bits
            .filter(|bits| rest.is_empty() && bits.len() == count.div_ceil(4))
            .ok_or_else(|| format!("the states of {count} buckets have another length"))?;
        let unused = bits.last().map_or(0, |last| match count % 4 {
            0 => 0,
            used => last >> (2 * used),
        });
        match unused {
            0 => Ok(Self { bits, len: count }),
            _ => Err(format!("there are states of more than {count} buckets")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_their_text() {
        for len in 0..20 {
            let mut buckets = Buckets::to_do(len);
            for index in 0..len {
                buckets.set(index, BucketState::ALL[(index * 7 + len) % 4]);
            }
            let text = serde_json::to_string(&buckets).unwrap();
            assert_eq!(serde_json::from_str::<Buckets>(&text).unwrap(), buckets);
            assert_eq!(buckets.get(len), None);
        }
    }

    #[test]
    fn text_that_is_no_states_is_refused() {
        for text in [
            r#"{"count":5,"states":"00"}"#,
            r#"{"count":3,"states":"0f"}"#,
            r#"{"count":4,"states":"0g"}"#,
            r#"{"count":4,"states":"000"}"#,
            r#"{"count":18446744073709551615,"states":""}"#,
        ] {
            serde_json::from_str::<Buckets>(text).unwrap_err();
        }
    }
}
