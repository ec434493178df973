//! The states of all buckets of a pass, packed into two bits each.

use serde::{Deserialize, Serialize};

/// State of a bucket in its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketState {
    /// Not leased and not trained yet.
    ToDo,
    /// Leased to a trainer.
    Leased,
    /// Trained, and stored in the files of its partitions.
    Done,
    /// Without edges in this pass. No trainer trains it, and it needs no partition.
    Empty,
}

impl BucketState {
    const ALL: [Self; 4] = [Self::ToDo, Self::Leased, Self::Done, Self::Empty];
}

/// The states of all buckets, by their index in the grid. Serialized as hexadecimal text, two buckets per digit, the
/// lower-numbered bucket in the lower bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Text", try_from = "Text")]
pub struct BucketStates {
    /// Four buckets per byte; the bits after the last bucket are 0.
    bits: Vec<u8>,
    len: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    count: usize,
    states: String,
}

impl BucketStates {
    /// Creates `len` buckets in state [`BucketState::ToDo`].
    #[must_use]
    pub fn to_do(len: usize) -> Self {
        let bits = vec![0; len.div_ceil(4)];
        Self { bits, len }
    }

    /// Creates buckets with the given states, in the order of their indices.
    #[must_use]
    pub fn of(states: &[BucketState]) -> Self {
        let mut buckets = Self::to_do(states.len());
        for (index, state) in states.iter().enumerate() {
            buckets.set(index, *state);
        }
        buckets
    }

    /// Returns the number of buckets.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no buckets.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the state of the bucket at `index`, or `None` outside the grid.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<BucketState> {
        let byte = self.bits.get(index / 4).filter(|_| index < self.len)?;
        Some(BucketState::ALL[usize::from(byte >> (2 * (index % 4)) & 3)])
    }

    /// Iterates over all states, in the order of the indices.
    pub fn iter(&self) -> impl Iterator<Item = BucketState> + '_ {
        (0..self.len).filter_map(|index| self.get(index))
    }

    /// Returns the number of buckets in `state`.
    #[must_use]
    pub fn count(&self, state: BucketState) -> usize {
        self.iter().filter(|s| *s == state).count()
    }

    /// Whether every bucket is done or empty.
    #[must_use]
    pub fn all_done(&self) -> bool {
        self.iter()
            .all(|state| matches!(state, BucketState::Done | BucketState::Empty))
    }

    /// Sets the state of the bucket at `index`, which must be in the grid.
    pub(super) fn set(&mut self, index: usize, state: BucketState) {
        let shift = 2 * (index % 4);
        let byte = &mut self.bits[index / 4];
        *byte = *byte & !(3 << shift) | (state as u8) << shift;
    }
}

impl From<BucketStates> for Text {
    fn from(buckets: BucketStates) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = buckets.bits.iter().flat_map(|b| [b & 15, b >> 4]);
        Self {
            count: buckets.len,
            states: digits.map(|d| char::from(DIGITS[usize::from(d)])).collect(),
        }
    }
}

impl TryFrom<Text> for BucketStates {
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
            .ok_or_else(|| format!("the states of {count} buckets have the wrong length"))?;
        let unused = bits.last().map_or(0, |last| match count % 4 {
            0 => 0,
            used => last >> (2 * used),
        });
        match unused {
            0 => Ok(Self { bits, len: count }),
            _ => Err(format!(
                "the text has bucket states after the last of {count} buckets"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_their_text() {
        for len in 0..20 {
            let mut buckets = BucketStates::to_do(len);
            for index in 0..len {
                buckets.set(index, BucketState::ALL[(index * 7 + len) % 4]);
            }
            let text = serde_json::to_string(&buckets).unwrap();
            assert_eq!(
                serde_json::from_str::<BucketStates>(&text).unwrap(),
                buckets
            );
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
            serde_json::from_str::<BucketStates>(text).unwrap_err();
        }
    }
}
