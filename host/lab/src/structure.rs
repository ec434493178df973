//! Structure of a plan: pairs of partitions that a load brings together, buckets trained between swaps, and how evenly
//! the partitions advance.

use serde::{Deserialize, Serialize};

use crate::replay::{BufferReplay, index};
use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::plan::needed_partitions;
use pbg_core::strategy::Pass;

/// Pairs of different partitions that some bucket with edges needs together.
#[derive(Clone, Debug)]
pub struct PartitionPairs {
    units: usize,
    wanted: Vec<bool>,
}

impl PartitionPairs {
    /// Returns the pairs of a grid.
    #[must_use]
    pub fn new(pass: &Pass) -> Self {
        let units = pass.lhs_partitions as usize + pass.rhs_partitions as usize;
        let mut pairs = Self {
            units,
            wanted: vec![false; units * units],
        };
        for lhs in 0..pass.lhs_partitions {
            for rhs in 0..pass.rhs_partitions {
                let mut needed = needed_partitions(pass, Bucket::new(lhs, rhs));
                if let (Some(a), Some(b)) = (needed.next(), needed.next()) {
                    let at = pairs.at(index(pass, a), index(pass, b));
                    pairs.wanted[at] = true;
                }
            }
        }
        pairs
    }

    /// Returns the number of pairs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.wanted.iter().filter(|wanted| **wanted).count() as u64
    }

    fn at(&self, a: usize, b: usize) -> usize {
        a.min(b) * self.units + a.max(b)
    }

    /// Removes a pair. Returns whether it was in the set.
    fn meet(&mut self, a: usize, b: usize) -> bool {
        let at = self.at(a, b);
        std::mem::take(&mut self.wanted[at])
    }
}

/// Returns the mean number of pairs that a swap brings together for the first time, which is at most `buffer - 1`.
/// Returns 0 if there are no swaps.
#[must_use]
pub fn new_pairs_per_swap(pass: &Pass, replay: &BufferReplay) -> f64 {
    let mut pairs = PartitionPairs::new(pass);
    let mut held: Vec<Option<SidePartition>> = vec![None; replay.slots as usize];
    let mut met = 0_u64;
    let mut place = |slot: usize, group: SidePartition| {
        held[slot] = Some(group);
        let others = held.iter().flatten().filter(|&&other| other != group);
        others
            .filter(|&&other| pairs.meet(index(pass, group), index(pass, other)))
            .count() as u64
    };
    for (slot, &group) in replay.initial.iter().enumerate() {
        place(slot, group);
    }
    for load in &replay.loads {
        let new = place(load.slot as usize, load.group);
        if load.evicted.is_some() {
            met += new;
        }
    }
    ratio(met, replay.swaps())
}

/// Numbers of buckets with edges that are trained between two swaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BufferStates {
    /// Number of states of the buffer: one before the first swap, and one after each group of swaps for the same
    /// bucket.
    pub count: u64,
    /// Mean number of buckets per state.
    pub mean: f64,
    /// Largest number of buckets of a state.
    pub max: u64,
}

impl BufferStates {
    /// Computes the states of a replayed plan.
    #[must_use]
    pub fn new(pass: &Pass, plan: &[Bucket], replay: &BufferReplay) -> Self {
        let swaps = replay.loads.iter().filter(|load| load.evicted.is_some());
        let mut starts: Vec<usize> = swaps.map(|load| load.position).collect();
        starts.dedup();
        let ends = starts.iter().copied().chain([plan.len()]);
        let begins = [0].into_iter().chain(starts.iter().copied());
        let trained = |range: std::ops::Range<usize>| {
            let buckets = plan[range].iter();
            buckets
                .filter(|&&bucket| pass.edges[cell(pass, bucket)] > 0)
                .count() as u64
        };
        // If the first bucket swaps at once, as after a resume, there is no state before it.
        let sizes: Vec<u64> = begins
            .zip(ends)
            .filter(|(begin, end)| begin < end)
            .map(|(begin, end)| trained(begin..end))
            .collect();
        Self {
            count: sizes.len() as u64,
            mean: ratio(sizes.iter().sum(), sizes.len() as u64),
            max: sizes.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Unevenness of the partitions' progress. A partition's progress is the share of its buckets that are trained. The
/// bias after each bucket is the difference between the largest and the smallest progress.
///
/// Source: Waleffe et al., "MariusGNN" (EuroSys 2023). This is their edge permutation bias at the level of partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgressBias {
    /// Mean bias over the pass.
    pub mean: f64,
    /// Largest bias.
    pub max: f64,
    /// Samples: number of buckets trained so far, and the bias at that time.
    pub curve: Vec<(u64, f64)>,
}

/// Largest number of samples of the curve.
const SAMPLES: usize = 500;

impl ProgressBias {
    /// Computes the bias of `plan`. Buckets without edges do not count.
    #[must_use]
    pub fn new(pass: &Pass, plan: &[Bucket]) -> Self {
        let mut progress = Progress::new(pass, plan);
        let every = plan.len().div_ceil(SAMPLES).max(1);
        let mut bias = Self::default();
        let mut sum = 0.0;
        for (position, &bucket) in plan.iter().enumerate() {
            progress.train(pass, bucket);
            let now = progress.spread();
            sum += now;
            bias.max = bias.max.max(now);
            let done = position + 1;
            if done % every == 0 || done == plan.len() {
                bias.curve.push((done as u64, now));
            }
        }
        bias.mean = sum / plan.len().max(1) as f64;
        bias
    }
}

/// Progress of each partition, indexed by [`index`].
struct Progress {
    done: Vec<u64>,
    total: Vec<u64>,
    max: f64,
    min: f64,
    /// Number of partitions whose progress is at most `min`.
    last: usize,
}

impl Progress {
    fn new(pass: &Pass, plan: &[Bucket]) -> Self {
        let units = pass.lhs_partitions as usize + pass.rhs_partitions as usize;
        let mut total = vec![0; units];
        for &bucket in plan {
            for unit in touched(pass, bucket) {
                total[unit] += 1;
            }
        }
        let mut progress = Self {
            done: vec![0; units],
            total,
            max: 0.0,
            min: 0.0,
            last: 0,
        };
        progress.find_last();
        progress
    }

    fn share(&self, unit: usize) -> f64 {
        self.done[unit] as f64 / self.total[unit] as f64
    }

    fn train(&mut self, pass: &Pass, bucket: Bucket) {
        for unit in touched(pass, bucket) {
            let was_last = self.share(unit) <= self.min;
            self.done[unit] += 1;
            self.max = self.max.max(self.share(unit));
            self.last -= usize::from(was_last);
        }
        if self.last == 0 {
            self.find_last();
        }
    }

    /// Recomputes `min` and `last`. This is rarely needed: about once for every bucket of a partition.
    fn find_last(&mut self) {
        let units = || (0..self.total.len()).filter(|&unit| self.total[unit] > 0);
        let min = units().map(|unit| self.share(unit)).fold(1.0, f64::min);
        self.last = units().filter(|&unit| self.share(unit) <= min).count();
        self.min = min;
    }

    fn spread(&self) -> f64 {
        (self.max - self.min).max(0.0)
    }
}

/// Returns the partitions of a bucket with edges as indices of [`index`], regardless of the buffer.
fn touched(pass: &Pass, bucket: Bucket) -> impl Iterator<Item = usize> + use<> {
    let used = pass.edges[cell(pass, bucket)] > 0;
    let rhs = if pass.shared { Side::Lhs } else { Side::Rhs };
    let first = index(pass, (Side::Lhs, bucket.lhs));
    let second = index(pass, (rhs, bucket.rhs));
    let units = [Some(first), (second != first).then_some(second)];
    units.into_iter().flatten().filter(move |_| used)
}

/// Returns the index of a bucket in the grid.
#[must_use]
pub fn cell(pass: &Pass, bucket: Bucket) -> usize {
    bucket.lhs as usize * pass.rhs_partitions as usize + bucket.rhs as usize
}

/// Returns `sum / count`, or 0 if both are.
pub(crate) fn ratio(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_pass_and_plan, lexicographic, pass};

    proptest! {
        #[test]
        fn bias_is_the_spread_of_shares((pass, plan) in any_pass_and_plan()) {
            let bias = ProgressBias::new(&pass, &plan);
            let units = pass.lhs_partitions as usize + pass.rhs_partitions as usize;
            let count = |buckets: &[Bucket]| {
                let mut counts = vec![0_u64; units];
                for &bucket in buckets {
                    touched(&pass, bucket).for_each(|unit| counts[unit] += 1);
                }
                counts
            };
            let total = count(&plan);
            let mut largest = 0.0_f64;
            for done in 1..=plan.len() {
                let now = count(&plan[..done]);
                let shares: Vec<f64> = (0..units)
                    .filter(|&unit| total[unit] > 0)
                    .map(|unit| now[unit] as f64 / total[unit] as f64)
                    .collect();
                let (min, max) = shares.iter().fold((1.0_f64, 0.0_f64), |(a, b), &s| (a.min(s), b.max(s)));
                let expected = (max - min).max(0.0);
                largest = largest.max(expected);
                prop_assert!((bias.curve[done - 1].1 - expected).abs() < 1e-12);
            }
            prop_assert!((bias.max - largest).abs() < 1e-12);
        }

        #[test]
        fn every_bucket_is_in_one_state((pass, plan) in any_pass_and_plan()) {
            let replay = BufferReplay::new(&pass, &plan, pass.buffer_partitions);
            let states = BufferStates::new(&pass, &plan, &replay);
            let trained = plan.iter().filter(|&&b| pass.edges[cell(&pass, b)] > 0).count();
            prop_assert!((states.mean * states.count as f64 - trained as f64).abs() < 1e-6);
            prop_assert!(states.count <= replay.swaps() + 1);
        }

        #[test]
        fn a_swap_meets_at_most_the_rest_of_the_buffer((pass, plan) in any_pass_and_plan()) {
            let replay = BufferReplay::new(&pass, &plan, pass.buffer_partitions);
            let pairs = new_pairs_per_swap(&pass, &replay);
            prop_assert!(pairs <= f64::from(replay.slots - 1));
        }
    }

    #[test]
    fn all_pairs_of_the_last_row_have_met() {
        // With a buffer of 2, each swap of a row brings together one new pair until all pairs have met.
        let (pass, plan) = (pass(4, 2), lexicographic(4));
        let replay = BufferReplay::new(&pass, &plan, 2);
        let met = new_pairs_per_swap(&pass, &replay) * replay.swaps() as f64;
        assert!((met - 5.0).abs() < 1e-9, "{met}");
        assert_eq!(PartitionPairs::new(&pass).count(), 6);
    }

    #[test]
    fn bias_of_rows_one_after_the_other() {
        // From the second of the 8 rows on, the leading partition has trained 8 buckets more than a partition whose row
        // has not begun, of 15 buckets each. This difference stays the same until the last row.
        let bias = ProgressBias::new(&pass(8, 2), &lexicographic(8));
        assert!((bias.max - 8.0 / 15.0).abs() < 1e-9, "{bias:?}");
        assert_eq!(bias.curve.last(), Some(&(64, 0.0)));
    }
}
