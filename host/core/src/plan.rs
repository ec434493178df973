//! Validation of plans, their cost in partition loads, and eviction policies of the partition buffer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::graph::{Bucket, Side};
use crate::strategy::Pass;

/// Reason for which a plan is not an order of the grid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The number of buckets differs from that of the grid.
    #[error("the plan has {found} buckets, but the {lhs} x {rhs} grid has {expected}")]
    Length {
        /// Number of buckets in the plan.
        found: usize,
        /// Number of buckets in the grid.
        expected: usize,
        /// Number of left partitions.
        lhs: u32,
        /// Number of right partitions.
        rhs: u32,
    },
    /// A bucket is outside the grid.
    #[error("position {position} of the plan is bucket {bucket}, outside the {lhs} x {rhs} grid")]
    OutOfGrid {
        /// Position in the plan.
        position: usize,
        /// The bucket.
        bucket: Bucket,
        /// Number of left partitions.
        lhs: u32,
        /// Number of right partitions.
        rhs: u32,
    },
    /// A bucket occurs twice, so another one is missing.
    #[error("bucket {bucket} occurs twice in the plan, at positions {first} and {second}")]
    Repeated {
        /// The bucket.
        bucket: Bucket,
        /// First position.
        first: usize,
        /// Second position.
        second: usize,
    },
}

/// Checks that `plan` contains every bucket of the grid exactly once.
///
/// # Errors
/// Returns the first violation.
pub fn check(pass: &Pass, plan: &[Bucket]) -> Result<(), PlanError> {
    let (lhs, rhs) = (pass.lhs_partitions, pass.rhs_partitions);
    if plan.len() != pass.buckets() {
        return Err(PlanError::Length {
            found: plan.len(),
            expected: pass.buckets(),
            lhs,
            rhs,
        });
    }
    let mut seen = vec![usize::MAX; pass.buckets()];
    for (position, &bucket) in plan.iter().enumerate() {
        if bucket.lhs >= lhs || bucket.rhs >= rhs {
            return Err(PlanError::OutOfGrid {
                position,
                bucket,
                lhs,
                rhs,
            });
        }
        let slot = &mut seen[bucket.lhs as usize * rhs as usize + bucket.rhs as usize];
        if *slot != usize::MAX {
            return Err(PlanError::Repeated {
                bucket,
                first: *slot,
                second: position,
            });
        }
        *slot = position;
    }
    Ok(())
}

/// Cost of a plan in partition loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCost {
    /// Number of partitions read into the buffer, including those that fill it at first.
    pub loads: u64,
    /// Number of loads after the buffer was full for the first time: the "swaps" of the literature.
    pub swaps: u64,
    /// Bytes of all loads.
    pub bytes: u64,
}

/// Returns the key of a partition in the buffer. If the sides share their partitions, left and right have the same key.
#[must_use]
pub fn buffer_key(pass: &Pass, side: Side, partition: u32) -> (Side, u32) {
    if pass.shared {
        (Side::Lhs, partition)
    } else {
        (side, partition)
    }
}

/// Returns the partitions that `bucket` needs in the buffer: one or two; none if the bucket has no edges or its
/// partitions are never swapped.
pub fn needed_partitions(pass: &Pass, bucket: Bucket) -> impl Iterator<Item = (Side, u32)> + use<> {
    let bytes = |side, p: u32| match side {
        Side::Lhs => pass.lhs_bytes[p as usize],
        Side::Rhs => pass.rhs_bytes[p as usize],
    };
    let lhs = buffer_key(pass, Side::Lhs, bucket.lhs);
    let rhs = buffer_key(pass, Side::Rhs, bucket.rhs);
    let index = bucket.lhs as usize * pass.rhs_partitions as usize + bucket.rhs as usize;
    let used = pass.edges[index] > 0;
    let first = (used && bytes(Side::Lhs, bucket.lhs) > 0).then_some(lhs);
    let second = (used && bytes(Side::Rhs, bucket.rhs) > 0 && first != Some(rhs)).then_some(rhs);
    first.into_iter().chain(second)
}

/// Computes the partition loads of `plan` with the pass's buffer under Belady's eviction (furthest next use).
#[must_use]
pub fn cost(pass: &Pass, plan: &[Bucket]) -> PlanCost {
    let mut eviction = Belady::new(pass, plan);
    let mut resident: Vec<(Side, u32)> = pass.resident.clone();
    let mut cost = PlanCost::default();
    for (position, &bucket) in plan.iter().enumerate() {
        for key in needed_partitions(pass, bucket) {
            if resident.contains(&key) {
                continue;
            }
            if resident.len() >= pass.buffer_partitions as usize {
                let keep: Vec<_> = needed_partitions(pass, bucket).collect();
                if let Some(victim) = eviction.victim(&resident, &keep, position) {
                    resident.swap_remove(victim);
                }
                cost.swaps += 1;
            }
            resident.push(key);
            cost.loads += 1;
            cost.bytes += match key.0 {
                Side::Lhs => pass.lhs_bytes[key.1 as usize],
                Side::Rhs => pass.rhs_bytes[key.1 as usize],
            };
        }
    }
    cost
}

/// Belady's eviction policy for a known plan: evict the partition whose next use is furthest away.
#[derive(Clone, Debug)]
pub struct Belady {
    /// Ascending positions at which each partition is used: the left partitions, then the right ones.
    uses: Vec<Vec<usize>>,
    lhs_partitions: usize,
}

impl Belady {
    /// Prepares the policy for `plan`.
    #[must_use]
    pub fn new(pass: &Pass, plan: &[Bucket]) -> Self {
        let lhs_partitions = pass.lhs_partitions as usize;
        let mut uses = vec![Vec::new(); lhs_partitions + pass.rhs_partitions as usize];
        for (position, &bucket) in plan.iter().enumerate() {
            for (side, p) in needed_partitions(pass, bucket) {
                uses[Self::index(lhs_partitions, side, p)].push(position);
            }
        }
        Self {
            uses,
            lhs_partitions,
        }
    }

    fn index(lhs_partitions: usize, side: Side, partition: u32) -> usize {
        match side {
            Side::Lhs => partition as usize,
            Side::Rhs => lhs_partitions + partition as usize,
        }
    }

    /// Returns the position after `position` at which `key` is needed again; `usize::MAX` if it is not.
    #[must_use]
    pub fn next_use(&self, key: (Side, u32), position: usize) -> usize {
        let uses = &self.uses[Self::index(self.lhs_partitions, key.0, key.1)];
        let after = uses.partition_point(|&u| u <= position);
        uses.get(after).copied().unwrap_or(usize::MAX)
    }
}

/// Policy that decides which partition leaves a full buffer.
pub trait Eviction: fmt::Debug + Send + Sync {
    /// Called before the bucket at `position`, which needs `groups`, is trained.
    fn used(&mut self, groups: &[(Side, u32)], position: usize);

    /// Returns the index into `resident` of the partition to evict at `position`, never one of `keep`; `None` if all
    /// must stay.
    fn victim(
        &mut self,
        resident: &[(Side, u32)],
        keep: &[(Side, u32)],
        position: usize,
    ) -> Option<usize>;
}

impl Eviction for Belady {
    fn used(&mut self, _groups: &[(Side, u32)], _position: usize) {}

    fn victim(
        &mut self,
        resident: &[(Side, u32)],
        keep: &[(Side, u32)],
        position: usize,
    ) -> Option<usize> {
        (0..resident.len())
            .filter(|&i| !keep.contains(&resident[i]))
            .max_by_key(|&i| {
                (
                    self.next_use(resident[i], position),
                    std::cmp::Reverse(resident[i]),
                )
            })
    }
}

/// Policy that evicts the least recently used partition, for a future that is not known.
#[derive(Clone, Debug, Default)]
pub struct LeastRecentlyUsed {
    /// The least recently used first.
    used: Vec<(Side, u32)>,
}

impl Eviction for LeastRecentlyUsed {
    fn used(&mut self, groups: &[(Side, u32)], _position: usize) {
        self.used.retain(|group| !groups.contains(group));
        self.used.extend(groups);
    }

    fn victim(
        &mut self,
        resident: &[(Side, u32)],
        keep: &[(Side, u32)],
        _position: usize,
    ) -> Option<usize> {
        let age = |group| self.used.iter().position(|used| used == group);
        (0..resident.len())
            .filter(|&i| !keep.contains(&resident[i]))
            .min_by_key(|&i| age(&resident[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(partitions: u32, buffer: u32) -> Pass {
        Pass {
            lhs_partitions: partitions,
            rhs_partitions: partitions,
            shared: true,
            edges: vec![1; (partitions * partitions) as usize],
            lhs_bytes: vec![100; partitions as usize],
            rhs_bytes: vec![100; partitions as usize],
            buffer_partitions: buffer,
            resident: Vec::new(),
            epoch: 0,
            edge_set: 0,
            edge_chunk: 0,
            seed: 0,
        }
    }

    fn lexicographic(n: u32) -> Vec<Bucket> {
        (0..n)
            .flat_map(|l| (0..n).map(move |r| Bucket::new(l, r)))
            .collect()
    }

    #[test]
    fn swaps_of_the_lexicographic_order_are_the_published_ones() {
        for (p, c, swaps) in [
            (8, 2, 60),
            (16, 2, 252),
            (8, 4, 37),
            (16, 4, 205),
            (16, 8, 136),
        ] {
            assert_eq!(
                cost(&pass(p, c), &lexicographic(p)).swaps,
                swaps,
                "p={p} c={c}"
            );
        }
    }

    #[test]
    fn without_a_known_future_the_least_recent_leaves() {
        let mut eviction = LeastRecentlyUsed::default();
        let group = |p| (Side::Lhs, p);
        eviction.used(&[group(0), group(1)], 0);
        eviction.used(&[group(0), group(2)], 1);
        let resident = [group(2), group(1), group(0)];
        assert_eq!(eviction.victim(&resident, &[], 2), Some(1));
        assert_eq!(eviction.victim(&resident, &[group(1)], 2), Some(2));
        let unused = [group(2), group(7)];
        assert_eq!(
            eviction.victim(&unused, &[], 2),
            Some(1),
            "what was resident before the pass"
        );
        assert_eq!(eviction.victim(&unused[..1], &unused, 2), None);
    }

    #[test]
    fn a_bucket_without_edges_needs_nothing() {
        let mut pass = pass(4, 2);
        pass.edges = vec![0; 16];
        assert_eq!(cost(&pass, &lexicographic(4)), PlanCost::default());
    }

    #[test]
    fn every_broken_promise_is_named() {
        let pass = pass(2, 2);
        let plan = lexicographic(2);
        assert_eq!(check(&pass, &plan), Ok(()));
        assert!(matches!(
            check(&pass, &plan[1..]),
            Err(PlanError::Length { found: 3, .. })
        ));
        let mut repeated = plan.clone();
        repeated[3] = plan[0];
        assert!(matches!(
            check(&pass, &repeated),
            Err(PlanError::Repeated {
                first: 0,
                second: 3,
                ..
            })
        ));
        let mut outside = plan;
        outside[2].rhs = 2;
        assert!(matches!(
            check(&pass, &outside),
            Err(PlanError::OutOfGrid { position: 2, .. })
        ));
    }
}
