//! Random draws of a simulation.

use std::time::Duration;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// A sequence of random draws that follows from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.random()
    }

    /// Draws a number below `count`, which must not be zero.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    /// Returns true with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }

    /// Draws a number from 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        self.0.random()
    }

    /// Draws a duration up to `longest`; short ones are as likely as long ones on a logarithmic scale.
    pub(crate) fn duration(&mut self, longest: Duration) -> Duration {
        let share = (1e-4_f64).powf(self.0.random());
        longest.mul_f64(share)
    }

    /// Draws one of `values`.
    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}
