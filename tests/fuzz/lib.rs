//! Nearly valid input: valid bytes, text and JSON, changed in ways that readers tend to mishandle.

use pbg_core::seed::split_mix;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::Value;

/// Pseudorandom numbers that depend only on the seed.
#[derive(Clone, Debug)]
pub struct Dice(SplitMix64);

impl Dice {
    /// Creates the sequence of `seed`; every seed has its own.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Without this, neighbouring seeds would draw the same numbers, shifted by one.
        Self(SplitMix64::from_seed(split_mix(seed).to_le_bytes()))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }

    /// Returns a number from `least` to `most`.
    pub fn from(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// Returns true once in `times` calls, on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of `of`.
    ///
    /// # Panics
    /// Panics if `of` is empty.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Numbers at which arithmetic tends to go wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// Words with a meaning for at least one reader.
const WORDS: [&str; 20] = [
    "\t",
    "\n",
    "\r\n",
    "\"",
    "\0",
    "\u{feff}",
    "\u{61c}",
    "\u{1b}[2J",
    "nan",
    "-inf",
    "1e999",
    "-1",
    "[",
    "]]",
    "{",
    "=",
    "../..",
    "''",
    "#",
    "\\u0000",
];

/// Returns bytes like `valid`, changed in one to six places; some changes copy parts of `other`.
#[must_use]
pub fn bytes(dice: &mut Dice, valid: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..=dice.below(6) {
        change(dice, &mut bytes, other);
    }
    bytes
}

fn change(dice: &mut Dice, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = dice.below(bytes.len());
    let end = (at + 1 + dice.below(16)).min(bytes.len());
    match dice.below(9) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
        1 if !bytes.is_empty() => bytes[at] = dice.bits() as u8,
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at.min(end)..end)),
        4 => {
            let again = bytes[at.min(end)..end].to_vec();
            bytes.splice(at..at, again);
        }
        5 => {
            let number = dice.pick(&EDGES).to_le_bytes();
            let size = (1_usize << dice.below(4)).min(bytes.len() - at);
            bytes[at..at + size].copy_from_slice(&number[..size]);
        }
        6 => {
            let word = dice.pick(&WORDS).bytes();
            bytes.splice(at..at, word);
        }
        7 => {
            let from = dice.below(other.len());
            let to = (from + 1 + dice.below(64)).min(other.len());
            bytes.splice(at..end.max(at), other[from.min(to)..to].iter().copied());
        }
        _ => bytes.extend(std::iter::repeat_n(dice.bits() as u8, dice.below(40))),
    }
}

/// Returns text like `valid`.
#[must_use]
pub fn text(dice: &mut Dice, valid: &str, other: &str) -> String {
    let bytes = bytes(dice, valid.as_bytes(), other.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Changes one to three values somewhere in a document.
pub fn json(dice: &mut Dice, document: &mut Value) {
    for _ in 0..=dice.below(3) {
        let leaves = count(document);
        let mut left = dice.below(leaves);
        change_value(dice, document, &mut left);
    }
}

/// Returns the number of values in a document, including arrays and objects.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(count).sum(),
        _ => 0,
    }
}

/// Changes the value that is reached after `left` others; returns whether that is done.
fn change_value(dice: &mut Dice, value: &mut Value, left: &mut usize) -> bool {
    if *left == 0 {
        *value = instead(dice, value);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|item| change_value(dice, item, left)),
        Value::Object(entries) => entries
            .values_mut()
            .any(|entry| change_value(dice, entry, left)),
        _ => false,
    }
}

fn instead(dice: &mut Dice, value: &Value) -> Value {
    match (dice.below(8), value) {
        (0, _) => Value::Null,
        (1, _) => Value::from(-1),
        (2, _) => Value::from(1e300),
        (3, Value::Array(items)) => items.iter().chain(items).cloned().collect(),
        (4, Value::Array(items)) => items.iter().skip(1).cloned().collect(),
        (3, Value::String(name)) => Value::from(format!("{name}/../{}", dice.pick(&WORDS))),
        (4, Value::String(_)) => Value::from(""),
        (3 | 4, Value::Number(number)) => {
            let near = number.as_u64().unwrap_or(0);
            Value::from(near.wrapping_add([1, 2, u64::MAX, near][dice.below(4)]))
        }
        (5, _) => Value::Array(vec![value.clone()]),
        _ => Value::from(*dice.pick(&EDGES)),
    }
}
