//! Partitions of a pass as the buffer counts them: numbered across both sides.

use crate::{Bucket, Pass, Side};

impl Pass {
    /// Returns the number of partitions: those of one side if the sides are shared, otherwise those
    /// of both.
    ///
    /// ```
    /// use pbg_plugin_sdk::Pass;
    /// assert_eq!(Pass::uniform(4, 4, 0).partitions(), 4);
    /// assert_eq!(Pass::uniform(4, 5, 0).partitions(), 9);
    /// ```
    #[must_use]
    pub const fn partitions(&self) -> usize {
        let lhs = self.lhs_partitions as usize;
        if self.shared {
            lhs
        } else {
            lhs + self.rhs_partitions as usize
        }
    }

    /// Returns the number, below [`Pass::partitions`], of a partition of one side; left partitions
    /// come first.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Pass, Side};
    /// assert_eq!(Pass::uniform(4, 4, 0).partition(Side::Rhs, 1), 1);
    /// assert_eq!(Pass::uniform(4, 5, 0).partition(Side::Rhs, 1), 5);
    /// ```
    #[must_use]
    pub const fn partition(&self, side: Side, number: u32) -> usize {
        match side {
            Side::Rhs if !self.shared => self.lhs_partitions as usize + number as usize,
            _ => number as usize,
        }
    }

    /// Returns the left and the right partition of a bucket; for a bucket on the diagonal of a shared
    /// grid, the same one twice.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// assert_eq!(Pass::uniform(4, 5, 0).ends(Bucket::new(3, 3)), [3, 7]);
    /// ```
    #[must_use]
    pub const fn ends(&self, bucket: Bucket) -> [usize; 2] {
        [
            self.partition(Side::Lhs, bucket.lhs),
            self.partition(Side::Rhs, bucket.rhs),
        ]
    }

    /// Returns the buckets between two partitions. If the sides are shared, these are the two
    /// mirrored buckets, or the single one on the diagonal; otherwise one bucket if the partitions
    /// are on different sides.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let buckets = |pass: &Pass, a, b| pass.between(a, b).collect::<Vec<_>>();
    /// let shared = Pass::uniform(4, 4, 0);
    /// assert_eq!(buckets(&shared, 2, 1), [Bucket::new(2, 1), Bucket::new(1, 2)]);
    /// assert_eq!(buckets(&shared, 2, 2), [Bucket::new(2, 2)]);
    /// let two_types = Pass::uniform(4, 5, 0);
    /// assert_eq!(buckets(&two_types, 8, 0), [Bucket::new(0, 4)]);
    /// assert_eq!(buckets(&two_types, 1, 2), []);
    /// ```
    pub fn between(&self, a: usize, b: usize) -> impl Iterator<Item = Bucket> + use<> {
        let bucket = |lhs: usize, rhs: usize| Bucket::new(lhs as u32, rhs as u32);
        let lhs_partitions = self.lhs_partitions as usize;
        let (low, high) = (a.min(b), a.max(b));
        let [first, second] = if self.shared {
            [Some(bucket(a, b)), (a != b).then(|| bucket(b, a))]
        } else if low < lhs_partitions && lhs_partitions <= high {
            [Some(bucket(low, high - lhs_partitions)), None]
        } else {
            [None, None]
        };
        first.into_iter().chain(second)
    }

    /// Returns the bytes read when `partition` is loaded; 0 if it always stays in memory.
    ///
    /// ```
    /// assert_eq!(pbg_plugin_sdk::Pass::uniform(4, 5, 0).bytes(8), 1 << 20);
    /// ```
    #[must_use]
    pub fn bytes(&self, partition: usize) -> u64 {
        let lhs_partitions = self.lhs_bytes.len();
        if partition < lhs_partitions {
            self.lhs_bytes[partition]
        } else {
            self.rhs_bytes[partition - lhs_partitions]
        }
    }

    /// Returns the partitions that must be in the buffer while `bucket` is trained: its left and right
    /// partition, except those that always stay in memory; none for a bucket without edges.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let mut pass = Pass::uniform(2, 2, 0);
    /// pass.edges = vec![5, 5, 5, 0];
    /// assert_eq!(pass.needs(Bucket::new(0, 1)).collect::<Vec<_>>(), [0, 1]);
    /// assert_eq!(pass.needs(Bucket::new(0, 0)).collect::<Vec<_>>(), [0]);
    /// assert_eq!(pass.needs(Bucket::new(1, 1)).count(), 0);
    /// ```
    pub fn needs(&self, bucket: Bucket) -> impl Iterator<Item = usize> + use<> {
        let [lhs, rhs] = self.ends(bucket);
        let used = self.edges_of(bucket) > 0;
        let first = (used && self.bytes(lhs) > 0).then_some(lhs);
        let second = (used && rhs != lhs && self.bytes(rhs) > 0).then_some(rhs);
        first.into_iter().chain(second)
    }

    /// Returns the partitions that are in the buffer before the first bucket.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Pass, Side};
    /// let mut pass = Pass::uniform(2, 3, 0);
    /// pass.resident = vec![(Side::Rhs, 1)];
    /// assert_eq!(pass.resident_partitions().collect::<Vec<_>>(), [3]);
    /// ```
    pub fn resident_partitions(&self) -> impl Iterator<Item = usize> {
        self.resident
            .iter()
            .map(|&(side, number)| self.partition(side, number))
    }

    /// Returns `plan` with the partitions of each side renumbered at random; if the sides are shared,
    /// in the same way on both. With partitions of equal size the cost of the plan does not change,
    /// but which partitions are loaded more often depends on the seed.
    ///
    /// ```
    /// use pbg_plugin_sdk::Pass;
    /// let pass = Pass::uniform(4, 4, 7);
    /// let mut plan = pass.relabelled(&pass.grid(), &mut pass.rng());
    /// assert_ne!(plan, pass.grid());
    /// plan.sort_unstable();
    /// assert_eq!(plan, pass.grid());
    /// ```
    #[must_use]
    pub fn relabelled(&self, plan: &[Bucket], rng: &mut crate::Rng) -> Vec<Bucket> {
        let mut names = |partitions: u32| {
            let mut names: Vec<u32> = (0..partitions).collect();
            rng.shuffle(&mut names);
            names
        };
        let lhs = names(self.lhs_partitions);
        let rhs = if self.shared {
            lhs.clone()
        } else {
            names(self.rhs_partitions)
        };
        let renamed =
            |bucket: &Bucket| Bucket::new(lhs[bucket.lhs as usize], rhs[bucket.rhs as usize]);
        plan.iter().map(renamed).collect()
    }

    /// Returns `order` with mirrored buckets moved next to each other: each remaining bucket `(i, j)`
    /// is followed by those of `(j, i)`, `(i, i)`, `(j, j)` that remain. Two partitions are then
    /// loaded once for up to four buckets (Marius, branch `osdi2021`, `makeSymmetric`).
    ///
    /// If the sides are not shared, a mirrored bucket shares no partition, and the order is not
    /// changed. Buckets outside the grid are dropped; buckets that `order` lacks are not added.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let pass = Pass::uniform(2, 2, 0);
    /// let symmetric = pass.symmetric(&[Bucket::new(0, 1)]);
    /// assert_eq!(symmetric.len(), 4);
    /// assert_eq!(symmetric[1], Bucket::new(1, 0));
    /// ```
    #[must_use]
    pub fn symmetric(&self, order: &[Bucket]) -> Vec<Bucket> {
        let mut planned = vec![false; self.edges.len()];
        let mut plan = Vec::with_capacity(self.edges.len());
        let mut take = |bucket: Bucket| {
            if self.contains(bucket) && !std::mem::replace(&mut planned[self.index(bucket)], true) {
                plan.push(bucket);
            }
        };
        for &bucket in order {
            take(bucket);
            if self.shared {
                take(bucket.transposed());
                take(Bucket::new(bucket.lhs, bucket.lhs));
                take(Bucket::new(bucket.rhs, bucket.rhs));
            }
        }
        plan
    }
}
