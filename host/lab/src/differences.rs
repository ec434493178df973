//! Differences between the orders of a study, paired by seed, and how certain they are.
//!
//! Runs of two orders with the same seed start from the same embeddings and rank the same edges, so their difference varies
//! less than their results do. An interval of the mean difference is a percentile bootstrap over the seeds (Efron,
//! "Bootstrap methods: another look at the jackknife", 1979). Few seeds cannot be certain, which a bootstrap does not show;
//! so certainty is that of an exact test of signs (Fisher's randomisation test), which `n` seeds bound by `1 - 2^-n`.

use pbg_core::seed;
use serde::{Deserialize, Serialize};

use crate::study::{EpochPoint, OrderRuns, Study};

/// Number of resamples of an interval.
const RESAMPLES: usize = 10_000;

/// Largest number of seeds for which all signs are enumerated; for more, random ones are drawn.
const ENUMERATED: usize = 14;

/// Difference between two orders in a figure of the last epoch, over the seeds that both have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderDifference {
    /// Order whose figure is compared.
    pub order: String,
    /// Order whose figure is subtracted.
    pub baseline: String,
    /// Seeds that both orders have.
    pub seeds: Vec<u64>,
    /// Mean difference over the seeds.
    pub mean: f64,
    /// 95 % interval of the mean difference; `None` with fewer than two seeds.
    pub interval: Option<[f64; 2]>,
    /// Certainty that the figure is larger than the baseline's: 1 minus the p-value of a one-sided test.
    pub certainty: f64,
}

impl OrderDifference {
    /// Compares a figure of the last epochs of two orders; `None` if they have no seed in common.
    #[must_use]
    pub fn new(
        order: &OrderRuns,
        baseline: &OrderRuns,
        figure: impl Fn(&EpochPoint) -> f64,
    ) -> Option<Self> {
        let (mut seeds, mut differences) = (Vec::new(), Vec::new());
        for run in order.seeds() {
            let other = baseline.seeds().find(|other| other.seed == run.seed);
            let points = (run.epochs.last(), other.and_then(|run| run.epochs.last()));
            if let (Some(ours), Some(theirs)) = points {
                seeds.push(run.seed);
                differences.push(figure(ours) - figure(theirs));
            }
        }
        (!seeds.is_empty()).then(|| Self {
            order: order.order.clone(),
            baseline: baseline.order.clone(),
            mean: mean(&differences),
            interval: interval(&differences),
            certainty: certainty(&differences),
            seeds,
        })
    }
}

impl Study {
    /// Returns the differences of all other orders to the first one.
    #[must_use]
    pub fn differences(&self, figure: fn(&EpochPoint) -> f64) -> Vec<OrderDifference> {
        let Some((baseline, others)) = self.orders.split_first() else {
            return Vec::new();
        };
        let difference = |order| OrderDifference::new(order, baseline, figure);
        others.iter().filter_map(difference).collect()
    }

    /// Returns for each order the certainties that its figure is larger than those of the orders of the columns; `None` for
    /// the order itself and if no seed is common.
    #[must_use]
    pub fn certainties(&self, figure: fn(&EpochPoint) -> f64) -> Vec<Vec<Option<f64>>> {
        let certainty = |row: usize, column: usize| {
            let of = |index: usize| self.orders.get(index);
            let (order, other) = (of(row)?, of(column).filter(|_| row != column)?);
            Some(OrderDifference::new(order, other, figure)?.certainty)
        };
        let all = 0..self.orders.len();
        let row = |row| all.clone().map(|column| certainty(row, column)).collect();
        all.clone().map(row).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the 95 % percentile interval of the mean of resamples of `values`; `None` for fewer than two.
#[must_use]
pub fn interval(values: &[f64]) -> Option<[f64; 2]> {
    if values.len() < 2 {
        return None;
    }
    let mut random = Numbers::default();
    let mut draw = || {
        let place = random.next() as usize % values.len();
        values.get(place).copied().unwrap_or_default()
    };
    let resample = |_| values.iter().map(|_| draw()).sum::<f64>() / values.len() as f64;
    let mut means: Vec<f64> = (0..RESAMPLES).map(resample).collect();
    means.sort_by(f64::total_cmp);
    let quantile = |share: f64| means.get((share * RESAMPLES as f64) as usize).copied();
    Some([quantile(0.025)?, quantile(0.975)?])
}

/// Returns 1 minus the share of sign patterns under which the sum of `differences` is at least as large as it is.
fn certainty(differences: &[f64]) -> f64 {
    let sum: f64 = differences.iter().sum();
    // Sums of the same terms in another order differ by rounding.
    let slack = 1e-12 * differences.iter().map(|x| x.abs()).sum::<f64>();
    let (mut as_large, mut all) = (0_u64, 0_u64);
    let mut count = |is_flipped: &mut dyn FnMut(usize) -> bool| {
        let terms = differences.iter().enumerate();
        let flipped: f64 = terms
            .map(|(n, x)| if is_flipped(n) { -x } else { *x })
            .sum();
        as_large += u64::from(flipped >= sum - slack);
        all += 1;
    };
    if differences.len() <= ENUMERATED {
        for signs in 0..1_u64 << differences.len() {
            count(&mut |n| signs >> n & 1 == 1);
        }
    } else {
        let mut random = Numbers::default();
        count(&mut |_| false);
        for _ in 1..RESAMPLES {
            count(&mut |_| random.next() & 1 == 1);
        }
    }
    1.0 - as_large as f64 / all.max(1) as f64
}

/// The numbers of SplitMix64, always the same ones, so that the same values give the same interval every time.
#[derive(Default)]
struct Numbers {
    drawn: u64,
}

impl Numbers {
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        seed::split_mix(self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::SeedRun;

    fn order(name: &str, mrrs: &[f64]) -> OrderRuns {
        let run = |(seed, &mrr): (usize, &f64)| SeedRun {
            seed: seed as u64,
            epochs: vec![EpochPoint {
                mrr,
                ..EpochPoint::default()
            }],
            ..SeedRun::default()
        };
        OrderRuns {
            order: name.to_owned(),
            runs: mrrs.iter().enumerate().map(run).collect(),
        }
    }

    fn study(orders: Vec<OrderRuns>) -> Study {
        Study {
            orders,
            ..Study::default()
        }
    }

    #[test]
    fn a_difference_is_paired_by_seed() {
        // The orders differ by 0.01 with every seed, while the seeds differ by ten times as much.
        let seeds = [0.1, 0.2, 0.3, 0.4, 0.5];
        let study = study(vec![
            order("a", &seeds),
            order("b", &seeds.map(|mrr| mrr + 0.01)),
        ]);
        let differences = study.differences(|point| point.mrr);
        let [difference] = differences.as_slice() else {
            panic!("{differences:?}");
        };
        let [low, high] = difference.interval.unwrap();
        assert!((low - 0.01).abs() < 1e-9 && (high - 0.01).abs() < 1e-9);
        // All 5 seeds agree: the other 31 of 32 sign patterns have a smaller sum.
        assert!((difference.certainty - 31.0 / 32.0).abs() < 1e-9);
        assert_eq!(difference.seeds, [0, 1, 2, 3, 4]);
        let certainties = study.certainties(|point| point.mrr);
        assert_eq!(certainties[0][0], None);
        assert_eq!(certainties[0][1], Some(0.0));
    }

    #[test]
    fn seeds_that_only_one_order_has_do_not_count() {
        let study = study(vec![order("a", &[0.1]), order("b", &[0.2, 0.9])]);
        let differences = study.differences(|point| point.mrr);
        assert_eq!(differences[0].seeds, [0]);
        assert_eq!(differences[0].interval, None);
        // One seed is no more than a coin that fell once.
        assert!((differences[0].certainty - 0.5).abs() < 1e-9);
    }

    #[test]
    fn an_interval_is_about_two_standard_errors_wide() {
        // 40 values with mean 0 and standard deviation 1: the standard error is 0.158.
        let values: Vec<f64> = (0..40)
            .map(|n| if n % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let [low, high] = interval(&values).unwrap();
        assert!((low + 0.31).abs() < 0.03, "{low}");
        assert!((high - 0.31).abs() < 0.03, "{high}");
        assert_eq!(interval(&values), interval(&values));
    }

    #[test]
    fn many_seeds_are_sampled() {
        let agreeing = [0.5; 30];
        assert!(certainty(&agreeing) > 0.999);
        let undecided: Vec<f64> = (0..30)
            .map(|n| if n % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        assert!((certainty(&undecided) - 0.43).abs() < 0.05);
    }
}
