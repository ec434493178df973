//! Draws without replacement, in proportion to weights.
//!
//! Each candidate gets an exponentially distributed time with its weight as the rate. In the order of their times, each
//! is drawn in proportion to the weights of those that are left (Efraimidis, Spirakis 2006). The logarithm is that of
//! `libm`, which rounds alike on every machine.

use rand::{Rng, RngExt};

/// Draws `count` candidates by their weights and appends them to `into`, in the order in which they are drawn. If fewer have
/// a weight above 0, the draws begin again with all of them once all are drawn. Nothing is drawn if no weight is above 0.
///
/// # Panics
/// If there are more weights than candidates.
pub fn draw_by_weights(
    candidates: &[u32],
    weights: &[f32],
    count: usize,
    rng: &mut impl Rng,
    into: &mut Vec<u32>,
) {
    let mut left = count;
    let mut times: Vec<(f64, u32)> = Vec::with_capacity(weights.len());
    while left > 0 {
        times.clear();
        for (&weight, index) in weights.iter().zip(0..) {
            // A number is drawn for every candidate, so that a weight of 0 does not change the times of the others.
            let exponential = -libm::log(1.0 - rng.random::<f64>());
            if weight > 0.0 {
                times.push((exponential / f64::from(weight), index));
            }
        }
        if times.is_empty() {
            return;
        }
        let earlier = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        let taken = left.min(times.len());
        if taken < times.len() {
            times.select_nth_unstable_by(taken, earlier);
        }
        times[..taken].sort_unstable_by(earlier);
        into.extend(
            times[..taken]
                .iter()
                .map(|&(_, index)| candidates[index as usize]),
        );
        left -= taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{StreamPurpose, stream};

    fn drawn(weights: &[f32], count: usize, seed: u64) -> Vec<u32> {
        let candidates: Vec<u32> = (10..10 + weights.len() as u32).collect();
        let (mut rng, mut into) = (stream(seed, StreamPurpose::Selection, &[]), Vec::new());
        draw_by_weights(&candidates, weights, count, &mut rng, &mut into);
        into
    }

    #[test]
    fn no_candidate_is_drawn_twice_before_all_are_drawn() {
        for seed in 0..100 {
            let mut all = drawn(&[1.0, 5.0, 0.0, 0.1, 2.0], 4, seed);
            all.sort_unstable();
            assert_eq!(all, [10, 11, 13, 14]);
            let again = drawn(&[1.0, 0.0, 3.0], 5, seed);
            let of = |entity| again.iter().filter(|&&drawn| drawn == entity).count();
            assert_eq!((of(10), of(11), of(12)).1, 0, "{again:?}");
            assert!(of(10) >= 2 && of(12) >= 2 && again.len() == 5, "{again:?}");
        }
        assert!(drawn(&[0.0, 0.0], 3, 0).is_empty());
    }

    #[test]
    fn the_first_draw_follows_the_weights() {
        let weights = [1.0, 2.0, 0.0, 5.0];
        let mut seen = [0_u32; 4];
        for seed in 0..20_000 {
            seen[drawn(&weights, 2, seed)[0] as usize - 10] += 1;
        }
        for (seen, weight) in seen.into_iter().zip(weights) {
            let expected = 20_000.0 * weight / 8.0;
            let deviation = 5.0 * (expected.max(1.0)).sqrt();
            assert!(
                (f64::from(seen) - f64::from(expected)).abs() <= f64::from(deviation),
                "{seen} {expected}"
            );
        }
    }

    #[test]
    fn extreme_weights_are_drawn_in_their_order() {
        assert_eq!(
            drawn(&[f32::MIN_POSITIVE, f32::MAX, 1.0], 3, 3),
            [11, 12, 10]
        );
    }
}
