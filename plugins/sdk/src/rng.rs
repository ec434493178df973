//! Random number generator of plugins, seeded from the arguments.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Small deterministic random number generator (xoshiro256++). Its draws and shuffles are part of this
/// crate's interface: the same seed gives the same plan in every version.
///
/// ```
/// use pbg_plugin_sdk::Rng;
/// let mut cards = [1, 2, 3, 4, 5];
/// Rng::new(7).shuffle(&mut cards);
/// let mut again = [1, 2, 3, 4, 5];
/// Rng::new(7).shuffle(&mut again);
/// assert_eq!(cards, again);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// Creates a generator from `seed`.
    ///
    /// ```
    /// use pbg_plugin_sdk::Rng;
    /// assert_ne!(Rng::new(1).next_u64(), Rng::new(2).next_u64());
    /// ```
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns 64 random bits.
    ///
    /// ```
    /// let mut rng = pbg_plugin_sdk::Rng::new(1);
    /// assert_ne!(rng.next_u64(), rng.next_u64());
    /// ```
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number in `0..bound`, each equally likely.
    ///
    /// # Panics
    /// If `bound` is 0.
    ///
    /// ```
    /// let mut rng = pbg_plugin_sdk::Rng::new(1);
    /// assert!((0..100).all(|_| rng.below(6) < 6));
    /// ```
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "below(0): the bound must be at least 1");
        // Lemire's method: take the high half of a product, and reject the few draws that would
        // make some results more likely than others.
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns a number in `[0, 1)`, in steps of 2⁻⁵³.
    ///
    /// ```
    /// let x = pbg_plugin_sdk::Rng::new(1).unit();
    /// assert!((0.0..1.0).contains(&x));
    /// ```
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Puts `items` in random order, each order equally likely (Fisher and Yates).
    ///
    /// ```
    /// let mut order = [0, 1, 2, 3];
    /// pbg_plugin_sdk::Rng::new(3).shuffle(&mut order);
    /// order.sort();
    /// assert_eq!(order, [0, 1, 2, 3]);
    /// ```
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = self.below(end as u64 + 1) as usize;
            items.swap(end, other);
        }
    }

    /// Returns an index into `weights`, with probability proportional to its weight; `None` if all are 0.
    /// The sum must not exceed `u64::MAX`.
    ///
    /// ```
    /// let mut rng = pbg_plugin_sdk::Rng::new(1);
    /// assert_eq!(rng.weighted(&[0, 5, 0]), Some(1));
    /// assert_eq!(rng.weighted(&[0, 0]), None);
    /// ```
    pub fn weighted(&mut self, weights: &[u64]) -> Option<usize> {
        let total: u64 = weights.iter().sum();
        if total == 0 {
            return None;
        }
        let mut left = self.below(total);
        weights.iter().position(|&weight| {
            let found = left < weight;
            left = left.saturating_sub(weight);
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_is_the_published_one() {
        // First outputs of xoshiro256++ seeded with 0 through SplitMix64.
        let mut rng = Rng::new(0);
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(
            drawn,
            [
                5987356902031041503,
                7051070477665621255,
                6633766593972829180
            ]
        );
    }

    #[test]
    fn every_shuffle_of_three_is_about_as_likely() {
        let mut rng = Rng::new(42);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            rng.shuffle(&mut items);
            *seen.entry(items).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }

    #[test]
    fn weights_are_respected() {
        let mut rng = Rng::new(5);
        let hits = (0..4000)
            .filter(|_| rng.weighted(&[1, 0, 3]) == Some(2))
            .count();
        assert!((2850..3150).contains(&hits), "{hits}");
    }
}
