//! Isotonic regression by pooling adjacent violators (Ayer et al. 1955; Zadrozny and Elkan 2002 for probabilities).

use serde::{Deserialize, Serialize};

use super::samples::LabelledScore;

/// Ascending curve from scores to probabilities, linear between its points and constant beyond them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreCurve {
    scores: Vec<f32>,
    probabilities: Vec<f64>,
}

/// Samples with consecutive scores that have one probability.
#[derive(Clone, Copy)]
struct Pool {
    first: f32,
    last: f32,
    edges: f64,
    count: f64,
}

impl Pool {
    fn mean(&self) -> f64 {
        self.edges / self.count
    }
}

impl ScoreCurve {
    /// Fits the curve with the smallest squared error.
    pub(super) fn fit<'s>(samples: impl Iterator<Item = &'s LabelledScore>) -> Self {
        let mut sorted: Vec<(f32, bool)> = samples.map(|of| (of.score, of.is_edge)).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        // Samples with the same score have the same probability.
        let tied = sorted.chunk_by(|a, b| a.0 == b.0).map(|tied| Pool {
            first: tied[0].0,
            last: tied[0].0,
            edges: tied.iter().filter(|(_, is_edge)| *is_edge).count() as f64,
            count: tied.len() as f64,
        });
        let mut pools: Vec<Pool> = Vec::new();
        for mut new in tied {
            while let Some(&before) = pools.last() {
                if before.mean() < new.mean() {
                    break;
                }
                new = Pool {
                    first: before.first,
                    last: new.last,
                    edges: before.edges + new.edges,
                    count: before.count + new.count,
                };
                pools.pop();
            }
            pools.push(new);
        }
        let mut curve = Self::default();
        for pool in pools {
            curve.scores.push(pool.first);
            curve.probabilities.push(pool.mean());
            if pool.last > pool.first {
                curve.scores.push(pool.last);
                curve.probabilities.push(pool.mean());
            }
        }
        curve
    }

    /// Returns the probability for a score.
    #[must_use]
    pub fn probability(&self, score: f32) -> f64 {
        let after = self.scores.partition_point(|&point| point <= score);
        let at = |place: usize| (self.scores.get(place), self.probabilities.get(place));
        match (at(after.wrapping_sub(1)), at(after)) {
            ((Some(&low), Some(&from)), (Some(&high), Some(&to))) => {
                let share = f64::from(score - low) / f64::from(high - low);
                from + share * (to - from)
            }
            ((_, Some(&only)), _) | (_, (_, Some(&only))) => only,
            _ => 0.0,
        }
    }

    /// Whether scores and probabilities ascend, as those of a fitted curve do.
    pub(super) fn is_valid(&self) -> bool {
        let probabilities = &self.probabilities;
        !self.scores.is_empty()
            && self.scores.len() == probabilities.len()
            && self.scores.iter().all(|score| score.is_finite())
            && self.scores.is_sorted_by(|a, b| a < b)
            && probabilities.is_sorted()
            && probabilities.iter().all(|p| (0.0..=1.0).contains(p))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples(of: &[(i8, bool)]) -> Vec<LabelledScore> {
        let sample = |&(score, is_edge): &(i8, bool)| LabelledScore {
            edge: 0,
            score: f32::from(score) / 2.0,
            is_edge,
        };
        of.iter().map(sample).collect()
    }

    proptest! {
        /// The curve is the best ascending one: by the definition of isotonic regression as the largest mean of a lower
        /// set among the smallest means of upper sets.
        #[test]
        fn the_curve_is_the_least_squares_fit(of in prop::collection::vec((-6_i8..6, any::<bool>()), 1..60)) {
            let curve = ScoreCurve::fit(samples(&of).iter());
            prop_assert!(curve.is_valid());
            for &(score, _) in &of {
                let mean = |from: i8, to: i8| {
                    let within = of.iter().filter(|(s, _)| (from..=to).contains(s));
                    let (edges, count) = within.fold((0.0, 0.0), |(e, c), (_, is)| {
                        (e + f64::from(u8::from(*is)), c + 1.0)
                    });
                    if count == 0.0 { None } else { Some(edges / count) }
                };
                // The largest over lower ends of the smallest over upper ends.
                let lows = of.iter().map(|(s, _)| *s).filter(|&s| s <= score);
                let expected = lows.map(|low| {
                    let highs = of.iter().map(|(s, _)| *s).filter(|&s| s >= score);
                    highs.filter_map(|high| mean(low, high)).fold(f64::INFINITY, f64::min)
                }).fold(f64::NEG_INFINITY, f64::max);
                let found = curve.probability(f32::from(score) / 2.0);
                prop_assert!((found - expected).abs() < 1e-9, "{} at {}, not {}", found, score, expected);
            }
        }
    }

    #[test]
    fn scores_between_and_beyond_the_points_have_probabilities() {
        let curve =
            ScoreCurve::fit(samples(&[(0, false), (2, false), (4, true), (8, true)]).iter());
        for (score, expected) in [(-9.0, 0.0), (1.0, 0.0), (1.5, 0.5), (2.0, 1.0), (99.0, 1.0)] {
            assert_eq!(curve.probability(score), expected, "{score}");
        }
        let one = ScoreCurve::fit(samples(&[(3, true)]).iter());
        assert_eq!((one.probability(0.0), one.probability(9.0)), (1.0, 1.0));
    }
}
