//! Entity types, their partitions, the tables that a bucket needs, and the units of the buffer.
//!
//! The buffer swaps *groups*: all tables that partition `p` of one side needs. Where an entity type is partitioned on
//! both sides, left and right group `p` are the same. Types with a single partition belong to no group and stay in
//! memory throughout.

use pbg_config::Config;
use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::model::{EmbeddingFormat, Optimizer};
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, StreamPurpose};
use pbg_core::strategy::Pass;

/// Layout of one entity type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeLayout {
    /// Name.
    pub name: String,
    /// Dimension of its embeddings.
    pub dimension: usize,
    /// Number of rows in each partition's table: entities, or features of a featurized type.
    pub rows: Vec<u64>,
    /// Format of the embeddings on disk.
    pub storage: EmbeddingFormat,
    /// Optimizer, which determines the accumulators.
    pub optimizer: Optimizer,
    /// Whether training leaves its embeddings as they are.
    pub frozen: bool,
    /// Whether some relation has the type on the left.
    pub on_lhs: bool,
    /// Whether some relation has the type on the right.
    pub on_rhs: bool,
}

impl TypeLayout {
    /// Whether the type has several partitions.
    #[must_use]
    pub fn partitioned(&self) -> bool {
        self.rows.len() > 1
    }

    /// Returns the bytes of one partition in memory: embeddings and accumulators.
    #[must_use]
    pub fn bytes(&self, partition: u32) -> u64 {
        self.bytes_with(partition, EmbeddingFormat::F32)
    }

    /// Returns the bytes of one partition on disk.
    #[must_use]
    pub fn stored_bytes(&self, partition: u32) -> u64 {
        self.bytes_with(partition, self.storage)
    }

    fn bytes_with(&self, partition: u32, storage: EmbeddingFormat) -> u64 {
        let state = self.optimizer.state_width(self.dimension) as u64;
        let row = storage.bytes() * self.dimension as u64 + 4 * state;
        self.rows[partition as usize] * row
    }

    /// Whether some relation has the type on `side`.
    #[must_use]
    pub fn on(&self, side: Side) -> bool {
        match side {
            Side::Lhs => self.on_lhs,
            Side::Rhs => self.on_rhs,
        }
    }
}

/// Fixed tables of at most this many bytes are copied while a commit writes them.
const MODERATE: u64 = 256 << 20;

/// A table: an entity type (index into [`Layout::types`]) and a partition.
pub type TableKey = (usize, u32);

/// Tables of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Entity types in the order of the configuration.
    pub types: Vec<TypeLayout>,
    /// Number of left partitions of the grid.
    pub lhs_partitions: u32,
    /// Number of right partitions of the grid.
    pub rhs_partitions: u32,
    /// Whether left and right group `p` are the same.
    pub shared: bool,
}

impl Layout {
    /// Creates the layout of `config`, with tables of `rows(type)[partition]` rows.
    ///
    /// The configuration must be valid, so that the partitioned types of a side agree.
    #[must_use]
    pub fn new(config: &Config, rows: impl Fn(&str) -> Vec<u64>) -> Self {
        let types = config.entities.iter().map(|(name, entity)| TypeLayout {
            name: name.clone(),
            dimension: entity.dimension.unwrap_or(config.dimension) as usize,
            rows: rows(name),
            storage: config.storage,
            optimizer: config.optimizer,
            frozen: entity.frozen,
            on_lhs: config.relations.iter().any(|r| r.lhs == *name),
            on_rhs: config.relations.iter().any(|r| r.rhs == *name),
        });
        let types: Vec<TypeLayout> = types.collect();
        let partitions = |side: Side| {
            let types = types.iter().filter(|t| t.on(side));
            types.map(|t| t.rows.len() as u32).max().unwrap_or(1)
        };
        let is_shared = |t: &TypeLayout| t.partitioned() && t.on_lhs && t.on_rhs;
        Self {
            lhs_partitions: partitions(Side::Lhs),
            rhs_partitions: partitions(Side::Rhs),
            shared: types.iter().any(is_shared),
            types,
        }
    }

    /// Returns the buckets of the grid, row by row.
    pub fn grid(&self) -> impl Iterator<Item = Bucket> + use<> {
        let (lhs, rhs) = (self.lhs_partitions, self.rhs_partitions);
        (0..lhs).flat_map(move |l| (0..rhs).map(move |r| Bucket::new(l, r)))
    }

    /// Returns the number of buckets of the grid.
    pub fn buckets(&self) -> u64 {
        u64::from(self.lhs_partitions) * u64::from(self.rhs_partitions)
    }

    /// Returns the tables that stay in memory throughout.
    pub fn fixed_tables(&self) -> impl Iterator<Item = TableKey> + '_ {
        let types = self.types.iter().enumerate();
        let fixed = types.filter(|(_, t)| !t.partitioned());
        fixed.map(|(i, _)| (i, 0))
    }

    /// Returns the tables that are loaded together with `group`.
    pub fn group_tables(&self, group: SidePartition) -> impl Iterator<Item = TableKey> + '_ {
        let (side, partition) = group;
        let types = self.types.iter().enumerate();
        let loaded = types.filter(move |(_, t)| t.partitioned() && (self.shared || t.on(side)));
        loaded.map(move |(i, _)| (i, partition))
    }

    /// Returns every table of the run.
    pub fn all_tables(&self) -> impl Iterator<Item = TableKey> + '_ {
        let types = self.types.iter().enumerate();
        types.flat_map(|(i, t)| (0..t.rows.len() as u32).map(move |p| (i, p)))
    }

    /// Returns the bytes that are read to load `group` and written to save it.
    #[must_use]
    pub fn stored_group_bytes(&self, group: SidePartition) -> u64 {
        let tables = self.group_tables(group);
        tables.map(|(t, p)| self.types[t].stored_bytes(p)).sum()
    }

    /// Returns the bytes of `group` in memory.
    #[must_use]
    pub fn group_bytes(&self, group: SidePartition) -> u64 {
        let tables = self.group_tables(group);
        tables.map(|(t, p)| self.types[t].bytes(p)).sum()
    }

    /// Returns the bytes of the tables that may be copied so that training goes on while a commit writes them: the two
    /// largest groups and fixed tables of moderate size. Training waits until a commit has written larger tables.
    /// Returns 0 if storage does not work in parallel (`beside`).
    #[must_use]
    pub fn copies(&self, beside: bool) -> u64 {
        if !beside {
            return 0;
        }
        let rhs = if self.shared { 0 } else { self.rhs_partitions };
        let lhs = (0..self.lhs_partitions).map(|p| (Side::Lhs, p));
        let groups = lhs.chain((0..rhs).map(|p| (Side::Rhs, p)));
        let mut groups: Vec<u64> = groups.map(|group| self.group_bytes(group)).collect();
        groups.sort_unstable_by(|a, b| b.cmp(a));
        let fixed = self.fixed_tables().map(|(t, p)| self.types[t].bytes(p));
        let fixed = fixed.sum::<u64>();
        let fixed = if fixed <= MODERATE { fixed } else { 0 };
        fixed + groups.iter().take(2).sum::<u64>()
    }

    /// Returns the partition of entity type `type_index` that `bucket` uses on `side`.
    #[must_use]
    pub fn partition(&self, type_index: usize, side: Side, bucket: Bucket) -> u32 {
        match (self.types[type_index].partitioned(), side) {
            (false, _) => 0,
            (true, Side::Lhs) => bucket.lhs,
            (true, Side::Rhs) => bucket.rhs,
        }
    }

    /// Returns the description of pass `id` that a bucket order plans.
    #[must_use]
    pub fn pass(
        &self,
        config: &Config,
        id: PassId,
        edges: Vec<u64>,
        resident: Vec<SidePartition>,
    ) -> Pass {
        let bytes = |side, n: u32| (0..n).map(|p| self.stored_group_bytes((side, p))).collect();
        let at = [
            u64::from(id.epoch),
            u64::from(id.edge_set),
            u64::from(id.edge_chunk),
        ];
        Pass {
            lhs_partitions: self.lhs_partitions,
            rhs_partitions: self.rhs_partitions,
            shared: self.shared,
            edges,
            lhs_bytes: bytes(Side::Lhs, self.lhs_partitions),
            rhs_bytes: bytes(Side::Rhs, self.rhs_partitions),
            buffer_partitions: config.buffer_partitions,
            resident,
            epoch: id.epoch,
            edge_set: id.edge_set,
            edge_chunk: id.edge_chunk,
            seed: seed::derive(config.seed, StreamPurpose::Order, &at),
        }
    }
}
