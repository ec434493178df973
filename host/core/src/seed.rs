//! Every random stream is derived from the run's seed and from what the stream is for.
//!
//! Nothing depends on how often a generator was used before, so a run that was stopped anywhere
//! and resumed draws the same numbers as one that was not.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// What a stream is for. Two purposes never share a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Initial embeddings: entity type, partition.
    Init = 1,
    /// Which edges are held out: edge set, chunk, bucket (never the epoch).
    HoldOut = 2,
    /// Order of the trained edges: epoch, edge set, chunk, bucket.
    Shuffle = 3,
    /// A bucket order's plan: epoch, edge set, chunk.
    Order = 4,
    /// Relation draws: epoch, edge set, chunk, bucket, worker.
    Relations = 5,
    /// Negatives while training: epoch, edge set, chunk, bucket, worker.
    Negatives = 6,
    /// Negatives while evaluating held-out edges.
    EvalNegatives = 7,
    /// Candidates of a sampled evaluation.
    Candidates = 8,
    /// Order of the imported entities, which decides their partitions: the bytes of the name.
    Assign = 9,
    /// A made-up graph.
    Generate = 10,
    /// The first embedding of what a dataset gained since the run began: entity type, name.
    NewRow = 11,
    /// Stochastic rounding of embeddings: the point of the run, entity type, partition; then the row.
    Rounding = 12,
    /// Initial parameters of operators: relation, side, parameter, row.
    Operator = 13,
    /// Entities whose neighbours are looked for to measure an index: entity type.
    Neighbors = 14,
    /// Walks of several trainers through a pass, from the digest of its plan: how many trainers.
    Walk = 15,
}

/// A 64-bit seed for `purpose` and the coordinates `at`.
#[must_use]
pub fn derive(seed: u64, purpose: Purpose, at: &[u64]) -> u64 {
    let mut state = mix(seed ^ (purpose as u64).wrapping_mul(INCREMENT));
    for &coordinate in at {
        state = mix(state.wrapping_add(INCREMENT) ^ mix(coordinate));
    }
    state
}

/// A 64-bit seed for `purpose` and a text. It stays the same in all versions: ids depend on it.
#[must_use]
pub fn of_text(seed: u64, purpose: Purpose, text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<8>();
    let seed = words.iter().fold(seed, |seed, word| {
        derive(seed, purpose, &[u64::from_le_bytes(*word)])
    });
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let at = [u64::from_le_bytes(last), text.len() as u64];
    derive(seed, purpose, &at)
}

/// A generator for `purpose` and the coordinates `at`.
#[must_use]
pub fn stream(seed: u64, purpose: Purpose, at: &[u64]) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(derive(seed, purpose, at))
}

/// What SplitMix64 adds to its state for each number.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that SplitMix64 draws in `state`.
#[must_use]
pub const fn split_mix(state: u64) -> u64 {
    mix(state.wrapping_add(INCREMENT))
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that avalanches.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
