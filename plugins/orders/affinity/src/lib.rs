//! PBG's `AFFINITY` bucket order: the next bucket shares a partition with the last one.
//!
//! Source: Lerer et al., "PyTorch-BigGraph: A Large-scale Graph Embedding System" (2019), and
//! the order of that name in its implementation. A random walk:
//!
//! 1. Start with a random bucket `b`.
//! 2. If the mirror of `b`, `(b.rhs, b.lhs)`, is not yet planned, train it: it needs no new partition.
//! 3. Take an unused bucket that shares partition `b.lhs` or `b.rhs`, chosen with probability
//!    proportional to the lengths of their lists; if both lists are empty, a random bucket.
//!    That bucket is the new `b`. Repeat from 2.
//!
//! With a buffer of two, step 2 loads nothing and step 3 usually loads one partition.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, Rng, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Affinity;

impl Order for Affinity {
    fn metadata() -> Metadata {
        Metadata::new(
            "affinity",
            env!("CARGO_PKG_VERSION"),
            "A random walk whose next bucket shares a partition with the last one.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        let mut rng = pass.rng();
        let mut walk = Walk::new(pass, &mut rng);
        while let Some(bucket) = walk.step(&mut rng) {
            walk.take(bucket);
            walk.take(bucket.transposed());
            walk.last = Some(bucket);
        }
        Ok(walk.plan)
    }
}

/// State of the random walk: the plan so far, and shuffled lists of possible next buckets.
struct Walk<'a> {
    pass: &'a Pass,
    plan: Vec<Bucket>,
    used: Vec<bool>,
    /// All buckets, shuffled.
    all: Vec<Bucket>,
    /// For each partition number, the buckets that have it on either side. A diagonal bucket is in
    /// its list twice, once per side. Used buckets stay in a list until they are popped, and count
    /// for its length until then.
    touching: Vec<Vec<Bucket>>,
    /// The bucket whose partitions the next one should share.
    last: Option<Bucket>,
}

impl<'a> Walk<'a> {
    fn new(pass: &'a Pass, rng: &mut Rng) -> Self {
        let mut all = pass.grid();
        let partitions = pass.lhs_partitions.max(pass.rhs_partitions) as usize;
        let mut touching = vec![Vec::new(); partitions];
        for &bucket in &all {
            touching[bucket.lhs as usize].push(bucket);
            touching[bucket.rhs as usize].push(bucket);
        }
        rng.shuffle(&mut all);
        for list in &mut touching {
            rng.shuffle(list);
        }
        let used = vec![false; all.len()];
        Self {
            pass,
            plan: Vec::with_capacity(used.len()),
            used,
            all,
            touching,
            last: None,
        }
    }

    /// Plans `bucket` if it is in the grid and unused.
    fn take(&mut self, bucket: Bucket) {
        if self.is_left(bucket) {
            self.used[self.pass.index(bucket)] = true;
            self.plan.push(bucket);
        }
    }

    fn is_left(&self, bucket: Bucket) -> bool {
        self.pass.contains(bucket) && !self.used[self.pass.index(bucket)]
    }

    /// Returns an unused bucket, if possible one that shares a partition with the last one.
    fn step(&mut self, rng: &mut Rng) -> Option<Bucket> {
        if let Some(last) = self.last {
            let sides = [last.lhs as usize, last.rhs as usize];
            let lengths = |walk: &Self| sides.map(|side| walk.touching[side].len() as u64);
            while let Some(side) = rng.weighted(&lengths(self)) {
                while let Some(bucket) = self.touching[sides[side]].pop() {
                    if self.is_left(bucket) {
                        return Some(bucket);
                    }
                }
            }
        }
        while let Some(bucket) = self.all.pop() {
            if self.is_left(bucket) {
                return Some(bucket);
            }
        }
        None
    }
}

export_order!(Affinity);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Affinity>();
    }

    /// Returns whether two buckets have a partition number in common, on any side.
    fn touch(a: Bucket, b: Bucket) -> bool {
        [a.lhs, a.rhs].iter().any(|p| [b.lhs, b.rhs].contains(p))
    }

    proptest! {
        #[test]
        fn plans_are_permutations(lhs in 1_u32..12, rhs in 1_u32..12, seed: u64) {
            testing::assert_plan::<Affinity>(&Pass::uniform(lhs, rhs, seed));
        }

        #[test]
        fn a_mirrored_bucket_follows(lhs in 1_u32..9, rhs in 1_u32..9, seed: u64) {
            let pass = Pass::uniform(lhs, rhs, seed);
            let plan = testing::assert_plan::<Affinity>(&pass);
            let at = |bucket| plan.iter().position(|&b| b == bucket);
            for (position, &bucket) in plan.iter().enumerate() {
                let mirror = bucket.transposed();
                if mirror != bucket && pass.contains(mirror) {
                    prop_assert_eq!(at(mirror).map(|m| m.abs_diff(position)), Some(1));
                }
            }
        }

        #[test]
        fn the_walk_jumps_only_where_both_lists_ran_dry(size in 1_u32..9, seed: u64) {
            let plan = testing::assert_plan::<Affinity>(&Pass::uniform(size, size, seed));
            for (position, pair) in plan.windows(2).enumerate() {
                if !touch(pair[0], pair[1]) {
                    let rest = &plan[position + 1..];
                    prop_assert!(rest.iter().all(|&b| !touch(pair[0], b)));
                }
            }
        }
    }

    #[test]
    fn seeds_give_different_plans() {
        let plans: std::collections::BTreeSet<_> = (0..50)
            .map(|seed| testing::assert_plan::<Affinity>(&Pass::uniform(4, 4, seed)))
            .collect();
        assert_eq!(plans.len(), 50);
    }
}
