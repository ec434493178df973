//! Partition loads of a plan, counted as the host counts them.

use crate::{Bucket, Pass};

/// Partition traffic of a plan.
///
/// ```
/// use pbg_plugin_sdk::Pass;
/// let pass = Pass::uniform(8, 8, 0);
/// assert_eq!(pass.traffic(&pass.grid()).swaps, 60);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of partitions loaded into the buffer.
    pub loads: u64,
    /// Number of loads that evicted another partition: the "swaps" of the literature.
    pub swaps: u64,
    /// Bytes loaded.
    pub bytes: u64,
}

/// Position of the next use of a partition that is not used again.
const NEVER: usize = usize::MAX;

impl Pass {
    /// Returns the traffic of `plan`, which may be any sequence of buckets of the grid, with this
    /// pass's buffer size and resident partitions. The partition whose next use is furthest away is
    /// evicted, among several the one with the lowest number (Belady, "A study of replacement
    /// algorithms for a virtual-storage computer", 1966); no rule loads fewer partitions for a known
    /// plan.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let mut pass = Pass::uniform(3, 3, 0);
    /// let plan = [Bucket::new(0, 1), Bucket::new(1, 2), Bucket::new(2, 2)];
    /// let traffic = pass.traffic(&plan);
    /// assert_eq!((traffic.loads, traffic.swaps, traffic.bytes), (3, 1, 3 << 20));
    /// ```
    #[must_use]
    pub fn traffic(&self, plan: &[Bucket]) -> Traffic {
        let mut traffic = Traffic::default();
        self.replay(plan, |_, loaded, evicted| {
            traffic.loads += 1;
            traffic.swaps += u64::from(evicted.is_some());
            traffic.bytes += self.bytes(loaded);
        });
        traffic
    }

    /// Calls `load(position, loaded, evicted)` for each partition that `plan` loads, in order;
    /// nothing is evicted while the buffer fills.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let pass = Pass::uniform(3, 3, 0);
    /// let mut events = Vec::new();
    /// pass.replay(&[Bucket::new(0, 1), Bucket::new(1, 2)], |at, loaded, evicted| {
    ///     events.push((at, loaded, evicted));
    /// });
    /// assert_eq!(events, [(0, 0, None), (0, 1, None), (1, 2, Some(0))]);
    /// ```
    pub fn replay(&self, plan: &[Bucket], mut load: impl FnMut(usize, usize, Option<usize>)) {
        self.replay_while(plan, &mut |at, loaded, evicted| {
            load(at, loaded, evicted);
            true
        });
    }

    /// Returns the bytes that `plan` loads if they are fewer than `limit`. It stops counting at the limit, so that plans
    /// that read far more are cheap to discard.
    ///
    /// ```
    /// use pbg_plugin_sdk::Pass;
    /// let pass = Pass::uniform(3, 3, 0);
    /// let bytes = pass.traffic(&pass.grid()).bytes;
    /// assert_eq!(pass.bytes_below(&pass.grid(), bytes + 1), Some(bytes));
    /// assert_eq!(pass.bytes_below(&pass.grid(), bytes), None);
    /// ```
    #[must_use]
    pub fn bytes_below(&self, plan: &[Bucket], limit: u64) -> Option<u64> {
        let mut bytes = 0;
        self.replay_while(plan, &mut |_, loaded, _| {
            bytes += self.bytes(loaded);
            bytes < limit
        });
        (bytes < limit).then_some(bytes)
    }

    /// Calls `load` as [`Pass::replay`] does, until it returns false. It is a `dyn` function so that all callers share one
    /// instance.
    fn replay_while(
        &self,
        plan: &[Bucket],
        load: &mut dyn FnMut(usize, usize, Option<usize>) -> bool,
    ) {
        let later = self.later_uses(plan);
        let mut resident: Vec<usize> = self.resident_partitions().collect();
        let mut held = vec![false; self.partitions()];
        resident
            .iter()
            .for_each(|&partition| held[partition] = true);
        let mut next_use = self.first_uses(plan);
        for (position, &bucket) in plan.iter().enumerate() {
            // Update the next use of all partitions of the bucket before choosing a victim.
            for (end, partition) in self.needs(bucket).enumerate() {
                next_use[partition] = later[position][end];
            }
            for partition in self.needs(bucket) {
                if held[partition] {
                    continue;
                }
                let mut evicted = None;
                if resident.len() >= self.buffer_partitions as usize {
                    let victim = (0..resident.len())
                        .filter(|&slot| self.needs(bucket).all(|p| p != resident[slot]))
                        .max_by_key(|&slot| {
                            (next_use[resident[slot]], std::cmp::Reverse(resident[slot]))
                        });
                    evicted = victim.map(|slot| resident.swap_remove(slot));
                }
                evicted
                    .into_iter()
                    .for_each(|partition| held[partition] = false);
                held[partition] = true;
                resident.push(partition);
                if !load(position, partition, evicted) {
                    return;
                }
            }
        }
    }

    /// Returns for each position the next use of the first and of the second partition that it needs.
    fn later_uses(&self, plan: &[Bucket]) -> Vec<[usize; 2]> {
        let mut next = vec![NEVER; self.partitions()];
        let mut later = vec![[NEVER; 2]; plan.len()];
        for (position, &bucket) in plan.iter().enumerate().rev() {
            for (end, partition) in self.needs(bucket).enumerate() {
                later[position][end] = std::mem::replace(&mut next[partition], position);
            }
        }
        later
    }

    fn first_uses(&self, plan: &[Bucket]) -> Vec<usize> {
        let mut first = vec![NEVER; self.partitions()];
        for (position, &bucket) in plan.iter().enumerate().rev() {
            for partition in self.needs(bucket) {
                first[partition] = position;
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Side;

    #[test]
    fn swaps_of_the_lexicographic_order_are_the_published_ones() {
        for (p, c, swaps) in [
            (8, 2, 60),
            (16, 2, 252),
            (8, 4, 37),
            (16, 4, 205),
            (16, 8, 136),
        ] {
            let mut pass = Pass::uniform(p, p, 0);
            pass.buffer_partitions = c;
            let traffic = pass.traffic(&pass.grid());
            assert_eq!(traffic.swaps, swaps, "p={p} c={c}");
            assert_eq!(traffic.loads, swaps + u64::from(c));
        }
    }

    #[test]
    fn what_is_resident_or_never_swapped_is_not_loaded() {
        let mut pass = Pass::uniform(1, 3, 0);
        pass.lhs_bytes = vec![0];
        pass.resident = vec![(Side::Rhs, 2)];
        let traffic = pass.traffic(&pass.grid());
        assert_eq!((traffic.loads, traffic.swaps), (2, 1));
        pass.edges = vec![0, 0, 9];
        assert_eq!(pass.traffic(&pass.grid()), Traffic::default());
    }
}
