//! PBG's `affinity` order: a random walk over buckets that share a partition.

use pbg_plugin_sdk::{Bucket, Pass, Rng};

/// Returns the plan of `affinity`.
#[must_use]
pub fn plan(pass: &Pass) -> Vec<Bucket> {
    let mut rng = pass.rng();
    let mut walk = Walk::new(pass, &mut rng);
    while let Some(bucket) = walk.step(&mut rng) {
        walk.take(bucket);
        walk.take(bucket.transposed());
        walk.last = Some(bucket);
    }
    walk.plan
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
