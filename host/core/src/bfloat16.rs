//! bfloat16, the upper half of a 32-bit float: the form of embeddings on disk with `storage = "bf16"`.
//!
//! Rounding is stochastic: a number between two neighbours is rounded up with the probability of its distance from the
//! lower one, in units of their distance, so that its mean stays the same. Rounding to the nearest would lose all
//! updates that are smaller than half the distance of neighbours, which is what most updates are once learning rates
//! are low (Gupta, Agrawal, Gopalakrishnan, Narayanan: "Deep Learning with Limited Numerical Precision", 2015, section
//! 3).
//!
//! The random numbers follow from a seed and the position of a number in its table, never from numbers rounded before.
//! A number that is already a bfloat16 stays unchanged, so rounding twice is the same as rounding once.

use multiversion::multiversion;

use crate::seed;

/// The lower half of a float.
const LOWER: u32 = 0xffff;
/// The exponent bits of infinity and NaN.
const EXPONENT: u32 = 0x7f80_0000;
/// NaN, as the upper half of a float.
const NAN: u16 = 0x7fc0;

/// Stochastic rounding of one table at one point of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StochasticRounding {
    seed: u64,
}

impl StochasticRounding {
    /// Creates the rounding with `seed`, which no other table and no other point of the run has.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Rounds row `row` in place. Returns whether any number changed.
    pub fn round(self, row: usize, values: &mut [f32]) -> bool {
        let changes = has_lower_halves(values);
        if changes {
            round(values, self.key(row));
        }
        changes
    }

    /// Writes the rounded numbers of row `row` to `out`.
    ///
    /// # Panics
    /// If `out` is shorter than `values`.
    pub fn narrow(self, row: usize, values: &[f32], out: &mut [u16]) {
        narrow(&mut out[..values.len()], values, self.key(row));
    }

    /// Rounds whole rows of `width` numbers in place, starting with row 0.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn round_all(self, width: usize, values: &mut [f32]) {
        for (row, values) in values.chunks_exact_mut(width).enumerate() {
            self.round(row, values);
        }
    }

    fn key(self, row: usize) -> [u32; 2] {
        let key = seed::derive(self.seed, seed::StreamPurpose::Rounding, &[row as u64]);
        [key as u32, (key >> 32) as u32]
    }
}

/// Converts bfloat16 numbers to floats.
///
/// # Panics
/// If the slices have different lengths.
pub fn widen(bits: &[u16], out: &mut [f32]) {
    assert_eq!(bits.len(), out.len(), "one float per bfloat16");
    widen_all(bits, out);
}

/// Hashes a column under a key, by a 32-bit hash with low bias (Wellons: "Prospecting for Hash Functions", 2018).
#[inline(always)]
fn noise(column: u32, key: [u32; 2]) -> u32 {
    let mut x = column.wrapping_mul(0x9e37_79b9) ^ key[0];
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15))
        .wrapping_add(key[1])
        .wrapping_mul(0x846c_a68b);
    x >> 16
}

/// Returns the upper half of a float, rounded up if the sum of its lower half and `noise` overflows 16 bits, but never
/// up to infinity.
#[inline(always)]
fn upper(value: f32, noise: u32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(noise);
    let kept = match rounded & EXPONENT == EXPONENT {
        true => bits,
        false => rounded,
    };
    match value.is_nan() {
        true => NAN,
        false => (kept >> 16) as u16,
    }
}

fn float(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn has_lower_halves(values: &[f32]) -> bool {
    let bits = values.iter().fold(0, |all, value| all | value.to_bits());
    bits & LOWER != 0
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn round(values: &mut [f32], key: [u32; 2]) {
    for (column, value) in (0..).zip(values) {
        *value = float(upper(*value, noise(column, key)));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn narrow(out: &mut [u16], values: &[f32], key: [u32; 2]) {
    for (column, (out, value)) in (0..).zip(out.iter_mut().zip(values)) {
        *out = upper(*value, noise(column, key));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn widen_all(bits: &[u16], out: &mut [f32]) {
    for (out, &bits) in out.iter_mut().zip(bits) {
        *out = float(bits);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rounded(value: f32, seed: u64) -> f32 {
        let mut values = [value];
        StochasticRounding::new(seed).round(0, &mut values);
        values[0]
    }

    proptest! {
        #[test]
        fn a_number_becomes_one_of_its_neighbours(bits: u32, seed: u64) {
            let value = f32::from_bits(bits);
            let found = rounded(value, seed);
            prop_assert_eq!(found.to_bits() & LOWER, 0);
            if value.is_nan() {
                prop_assert!(found.is_nan());
            } else {
                let lower = f32::from_bits(bits & !LOWER);
                let upper = f32::from_bits((bits & !LOWER).wrapping_add(1 << 16));
                prop_assert!(found == lower || found == upper && value != lower);
                prop_assert_eq!(found.is_finite(), value.is_finite());
            }
        }

        #[test]
        fn what_is_rounded_stays(values in prop::collection::vec(any::<f32>(), 0..40), seeds: [u64; 2]) {
            let mut once = values.clone();
            StochasticRounding::new(seeds[0]).round(3, &mut once);
            let mut twice = once.clone();
            let numbers = values.iter().all(|value| !value.is_nan());
            let changed = StochasticRounding::new(seeds[1]).round(3, &mut twice);
            prop_assert!(!changed);
            if numbers {
                prop_assert_eq!(&twice, &once);
                let mut bits = vec![0; values.len()];
                StochasticRounding::new(seeds[0]).narrow(3, &values, &mut bits);
                let mut wide = vec![0.0; values.len()];
                widen(&bits, &mut wide);
                prop_assert_eq!(wide, once);
            }
        }
    }

    #[test]
    fn the_mean_stays() {
        let mut values = vec![1.0 + 0.3 / 128.0; 40_000];
        StochasticRounding::new(5).round_all(100, &mut values);
        let up = values.iter().filter(|&&value| value > 1.0).count();
        // Three standard deviations of 40,000 draws with probability 0.3.
        assert!((up as f64 / 40_000.0 - 0.3).abs() < 0.007, "{up}");
        let rows = values
            .chunks(100)
            .map(|row| row.iter().filter(|&&v| v > 1.0).count());
        let squares: f64 = rows.map(|n| (n as f64 - 30.0).powi(2)).sum();
        // The variance between rows is that of independent draws, 100 x 0.3 x 0.7.
        assert!((squares / 400.0 - 21.0).abs() < 5.0, "{squares}");
    }

    #[test]
    fn draws_follow_from_seed_and_place() {
        let values: Vec<f32> = (0..64).map(|i| 1.0 + i as f32 * 1e-4).collect();
        let draw = |seed, row| {
            let mut values = values.clone();
            StochasticRounding::new(seed).round(row, &mut values);
            values
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
