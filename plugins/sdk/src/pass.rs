//! Buckets, and the pass over the grid of buckets that an order plans.

/// The edges whose left-hand side is in partition `lhs` and whose right-hand side is in partition
/// `rhs`.
///
/// ```
/// use pbg_plugin_sdk::Bucket;
/// assert_eq!(Bucket::new(1, 2).transposed(), Bucket::new(2, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket {
    /// Partition of the left-hand side.
    pub lhs: u32,
    /// Partition of the right-hand side.
    pub rhs: u32,
}

impl Bucket {
    /// Creates the bucket of left partition `lhs` and right partition `rhs`.
    ///
    /// ```
    /// assert_eq!(pbg_plugin_sdk::Bucket::new(3, 0).lhs, 3);
    /// ```
    #[must_use]
    pub const fn new(lhs: u32, rhs: u32) -> Self {
        Self { lhs, rhs }
    }

    /// Returns the bucket with its sides exchanged.
    ///
    /// ```
    /// use pbg_plugin_sdk::Bucket;
    /// assert_eq!(Bucket::new(4, 4).transposed(), Bucket::new(4, 4));
    /// ```
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self {
            lhs: self.rhs,
            rhs: self.lhs,
        }
    }
}

/// One side of an edge.
///
/// ```
/// assert_ne!(pbg_plugin_sdk::Side::Lhs, pbg_plugin_sdk::Side::Rhs);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Left-hand side: the head of a triple.
    Lhs,
    /// Right-hand side: the tail of a triple.
    Rhs,
}

/// One pass over the grid of buckets.
///
/// ```
/// use pbg_plugin_sdk::Pass;
/// let pass = Pass::uniform(3, 5, 1);
/// assert_eq!(pass.grid().len(), 15);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Number of partitions of the left-hand side, at least 1.
    pub lhs_partitions: u32,
    /// Number of partitions of the right-hand side, at least 1.
    pub rhs_partitions: u32,
    /// Whether left partition `p` and right partition `p` hold the same entities, so that loading one
    /// loads the other.
    pub shared: bool,
    /// Number of edges of each bucket, row by row: index `lhs * rhs_partitions + rhs`.
    pub edges: Vec<u64>,
    /// Bytes read when each left partition is loaded; 0 for partitions that always stay in memory.
    pub lhs_bytes: Vec<u64>,
    /// Bytes read when each right partition is loaded; equal to `lhs_bytes` when `shared`.
    pub rhs_bytes: Vec<u64>,
    /// Number of partitions that fit the buffer, at least 2.
    pub buffer_partitions: u32,
    /// Partitions that are in the buffer before the first bucket; if the sides are shared, all of
    /// them are listed as left partitions.
    pub resident: Vec<(Side, u32)>,
    /// Epoch, counted from 0.
    pub epoch: u32,
    /// Edge set within the epoch, counted from 0.
    pub edge_set: u32,
    /// Edge chunk within the edge set, counted from 0.
    pub edge_chunk: u32,
    /// Seed for everything random in this plan; differs from pass to pass.
    pub seed: u64,
}

impl Pass {
    /// Creates a pass for tests: 1000 edges per bucket, 1 MiB per partition, no resident partitions,
    /// a buffer of two, shared sides if the grid is square.
    ///
    /// ```
    /// let pass = pbg_plugin_sdk::Pass::uniform(4, 4, 7);
    /// assert!(pass.shared && pass.resident.is_empty());
    /// ```
    #[must_use]
    pub fn uniform(lhs_partitions: u32, rhs_partitions: u32, seed: u64) -> Self {
        let (lhs, rhs) = (lhs_partitions as usize, rhs_partitions as usize);
        Self {
            lhs_partitions,
            rhs_partitions,
            shared: lhs == rhs,
            edges: vec![1000; lhs * rhs],
            lhs_bytes: vec![1 << 20; lhs],
            rhs_bytes: vec![1 << 20; rhs],
            buffer_partitions: 2,
            resident: Vec::new(),
            epoch: 0,
            edge_set: 0,
            edge_chunk: 0,
            seed,
        }
    }

    /// Returns every bucket of the grid, row by row.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let grid = Pass::uniform(2, 2, 0).grid();
    /// assert_eq!(grid[1], Bucket::new(0, 1));
    /// ```
    #[must_use]
    pub fn grid(&self) -> Vec<Bucket> {
        let columns = self.rhs_partitions;
        (0..self.lhs_partitions)
            .flat_map(|lhs| (0..columns).map(move |rhs| Bucket { lhs, rhs }))
            .collect()
    }

    /// Returns the position of `bucket` in [`Pass::grid`] and in [`Pass::edges`].
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// assert_eq!(Pass::uniform(3, 5, 0).index(Bucket::new(1, 2)), 7);
    /// ```
    #[must_use]
    pub const fn index(&self, bucket: Bucket) -> usize {
        bucket.lhs as usize * self.rhs_partitions as usize + bucket.rhs as usize
    }

    /// Returns whether `bucket` is in the grid.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// assert!(!Pass::uniform(3, 5, 0).contains(Bucket::new(4, 2)));
    /// ```
    #[must_use]
    pub const fn contains(&self, bucket: Bucket) -> bool {
        bucket.lhs < self.lhs_partitions && bucket.rhs < self.rhs_partitions
    }

    /// Returns the number of edges of `bucket`, which must be in the grid.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// assert_eq!(Pass::uniform(3, 5, 0).edges_of(Bucket::new(1, 2)), 1000);
    /// ```
    #[must_use]
    pub fn edges_of(&self, bucket: Bucket) -> u64 {
        self.edges[self.index(bucket)]
    }

    /// Returns the number of partitions that two buckets share, which can stay in the buffer between them.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let pass = Pass::uniform(4, 4, 0);
    /// assert_eq!(pass.in_common(Bucket::new(0, 1), Bucket::new(1, 0)), 2);
    /// assert_eq!(pass.in_common(Bucket::new(0, 0), Bucket::new(0, 3)), 1);
    /// ```
    #[must_use]
    pub fn in_common(&self, a: Bucket, b: Bucket) -> u32 {
        if !self.shared {
            return u32::from(a.lhs == b.lhs) + u32::from(a.rhs == b.rhs);
        }
        let held = |p| p == a.lhs || p == a.rhs;
        u32::from(held(b.lhs)) + u32::from(b.rhs != b.lhs && held(b.rhs))
    }

    /// Returns the bytes of the partitions of `bucket` that are not resident; 0 if it has no edges.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass, Side};
    /// let mut pass = Pass::uniform(4, 4, 0);
    /// pass.resident = vec![(Side::Lhs, 1)];
    /// assert_eq!(pass.bytes_to_load(Bucket::new(0, 1)), 1 << 20);
    /// assert_eq!(pass.bytes_to_load(Bucket::new(1, 1)), 0);
    /// assert_eq!(pass.bytes_to_load(Bucket::new(3, 3)), 1 << 20);
    /// ```
    #[must_use]
    pub fn bytes_to_load(&self, bucket: Bucket) -> u64 {
        if self.edges_of(bucket) == 0 {
            return 0;
        }
        let rhs_side = if self.shared { Side::Lhs } else { Side::Rhs };
        let (lhs, rhs) = ((Side::Lhs, bucket.lhs), (rhs_side, bucket.rhs));
        let lacks = |key, bytes: u64| {
            if self.resident.contains(&key) {
                0
            } else {
                bytes
            }
        };
        let of_rhs = if lhs == rhs {
            0
        } else {
            lacks(rhs, self.rhs_bytes[bucket.rhs as usize])
        };
        lacks(lhs, self.lhs_bytes[bucket.lhs as usize]) + of_rhs
    }

    /// Returns the grid in layers around its first corner. Layer `i` holds the buckets whose smaller
    /// partition number is `i`: the corner `(i, i)` and, for every `j > i`, the mirrored pair
    /// `(j, i)`, `(i, j)`. Pairs stay together; their order, and the order within each, is random.
    ///
    /// ```
    /// use pbg_plugin_sdk::{Bucket, Pass};
    /// let pass = Pass::uniform(3, 3, 7);
    /// let layers = pass.shuffled_layers(&mut pass.rng());
    /// assert_eq!(layers.iter().map(Vec::len).collect::<Vec<_>>(), [5, 3, 1]);
    /// assert_eq!(layers[2], [Bucket::new(2, 2)]);
    /// ```
    #[must_use]
    pub fn shuffled_layers(&self, rng: &mut crate::Rng) -> Vec<Vec<Bucket>> {
        let layers = 0..self.lhs_partitions.min(self.rhs_partitions);
        layers
            .map(|corner| self.shuffled_layer(corner, rng))
            .collect()
    }

    fn shuffled_layer(&self, corner: u32, rng: &mut crate::Rng) -> Vec<Bucket> {
        let beyond = corner + 1..self.lhs_partitions.max(self.rhs_partitions);
        let pair = |far| vec![Bucket::new(far, corner), Bucket::new(corner, far)];
        let mut groups = vec![vec![Bucket::new(corner, corner)]];
        groups.extend(beyond.map(pair));
        for group in &mut groups {
            group.retain(|&bucket| self.contains(bucket));
            rng.shuffle(group);
        }
        rng.shuffle(&mut groups);
        groups.concat()
    }

    /// Returns the random number generator of this pass, seeded with [`Pass::seed`].
    ///
    /// ```
    /// let pass = pbg_plugin_sdk::Pass::uniform(4, 4, 7);
    /// assert_eq!(pass.rng().next_u64(), pass.rng().next_u64());
    /// ```
    #[must_use]
    pub fn rng(&self) -> crate::Rng {
        crate::Rng::new(self.seed)
    }
}
