//! Derivation of every random stream from the run's seed and the purpose of the stream.
//!
//! Nothing depends on how often a generator was used before. So a run that was stopped at any point and resumed draws
//! the same numbers as an uninterrupted one.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Purpose of a random stream. Two purposes never share a stream. The comments name the coordinates of each stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum StreamPurpose {
    /// Initial embeddings: entity type, partition.
    Init = 1,
    /// Choice of held-out edges: edge set, chunk, bucket (never the epoch).
    HoldOut = 2,
    /// Order of the training edges: epoch, edge set, chunk, bucket.
    Shuffle = 3,
    /// Plan of a bucket order: epoch, edge set, chunk.
    Order = 4,
    /// Draws of a relation sampler: epoch, edge set, chunk, bucket, worker.
    Relations = 5,
    /// Negatives in training: epoch, edge set, chunk, bucket, worker.
    Negatives = 6,
    /// Negatives in the evaluation of held-out edges.
    EvalNegatives = 7,
    /// Candidates of a sampled evaluation.
    Candidates = 8,
    /// Order of the imported entities, which determines their partitions: the bytes of the name.
    Assign = 9,
    /// A generated graph.
    Generate = 10,
    /// Initial embeddings of rows added to a dataset since the run began: entity type, name.
    NewRow = 11,
    /// Stochastic rounding of embeddings: point of the run, entity type, partition; then the row.
    Rounding = 12,
    /// Initial parameters of operators: relation, side, parameter, row.
    Operator = 13,
    /// Entities whose neighbours are searched to measure an index: entity type.
    Neighbors = 14,
    /// Walks of several trainers through a pass, from the digest of its plan: number of trainers.
    Walk = 15,
    /// Negatives that a plugin selects: epoch, edge set, chunk, bucket, worker; then batch, side, chunk of the batch, use.
    Selection = 16,
}

/// Derives a 64-bit seed for `purpose` and the coordinates `at`.
#[must_use]
pub fn derive(seed: u64, purpose: StreamPurpose, at: &[u64]) -> u64 {
    let mut state = mix(seed ^ (purpose as u64).wrapping_mul(INCREMENT));
    for &coordinate in at {
        state = mix(state.wrapping_add(INCREMENT) ^ mix(coordinate));
    }
    state
}

/// Derives a 64-bit seed for `purpose` and a text. The result must stay the same in all versions, because ids depend on
/// it.
#[must_use]
pub fn of_text(seed: u64, purpose: StreamPurpose, text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<8>();
    let seed = words.iter().fold(seed, |seed, word| {
        derive(seed, purpose, &[u64::from_le_bytes(*word)])
    });
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let at = [u64::from_le_bytes(last), text.len() as u64];
    derive(seed, purpose, &at)
}

/// Creates a generator for `purpose` and the coordinates `at`.
#[must_use]
pub fn stream(seed: u64, purpose: StreamPurpose, at: &[u64]) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(derive(seed, purpose, at))
}

/// Increment of SplitMix64's state.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number that SplitMix64 draws in `state`.
#[must_use]
pub const fn split_mix(state: u64) -> u64 {
    mix(state.wrapping_add(INCREMENT))
}

/// Finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection with the avalanche property.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
