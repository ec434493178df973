//! Concurrent bit set: a set of numbers below a limit, which threads fill together.

use std::sync::atomic::{AtomicU64, Ordering};

/// Set of numbers below a limit.
#[derive(Debug)]
pub(super) struct AtomicBitSet {
    words: Vec<AtomicU64>,
}

impl AtomicBitSet {
    /// Returns an empty set for numbers below `limit`.
    pub(super) fn new(limit: u64) -> Self {
        let words = 0..limit.div_ceil(64);
        Self {
            words: words.map(|_| AtomicU64::default()).collect(),
        }
    }

    /// Returns the size in bytes of a set for numbers below `limit`.
    pub(super) const fn bytes(limit: u64) -> u64 {
        limit.div_ceil(64) * 8
    }

    /// Adds a number.
    pub(super) fn add(&self, number: u64) {
        let (word, bit) = (&self.words[(number / 64) as usize], 1 << (number % 64));
        // Most numbers are in the set already, and a plain load keeps the cache line shared.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns whether a number is in the set.
    pub(super) fn has(&self, number: u64) -> bool {
        let word = self.words.get((number / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (number % 64) & 1 == 1)
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> u64 {
        let ones = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        self.words.iter().map(ones).sum()
    }
}
