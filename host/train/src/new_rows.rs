//! Rows for names that a checkpoint lacks because the dataset has grown since it was trained.

use std::collections::BTreeMap;

use pbg_checkpoint::{Checkpoint, PartitionData, TargetCommit};
use pbg_core::bfloat16::StochasticRounding;
use pbg_core::model::EmbeddingFormat;
use pbg_core::seed::{self, StreamPurpose};
use pbg_dataset::IdSpace;
use pbg_model::error::RunError;
use pbg_model::layout::{TableKey, TypeLayout};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::tables;
use rand_distr::{Distribution, StandardNormal};

/// Rows that follow those of an earlier dataset and have to be initialized. Each row depends only on the seed and its
/// name, not on the other new rows.
#[derive(Debug, Default)]
pub struct NewRows {
    /// Seed of each new row, in the order of offsets.
    seeds: BTreeMap<TableKey, Vec<u64>>,
    scale: f32,
    storage: EmbeddingFormat,
}

impl NewRows {
    /// Finds the rows that the dataset has and `earlier` lacks.
    ///
    /// # Errors
    /// When a dictionary is damaged.
    pub fn since(earlier: &IdSpace, resolved: &ResolvedConfig) -> Result<Self, RunError> {
        let config = resolved.config();
        let mut seeds: BTreeMap<TableKey, Vec<u64>> = BTreeMap::new();
        for (index, layout) in resolved.blueprint().layout.types.iter().enumerate() {
            let Some(known) = earlier.rows.get(&layout.name) else {
                continue;
            };
            let count = |partition: u32| u64::from(known.count(partition));
            if (0..).zip(&layout.rows).all(|(p, &rows)| rows == count(p)) {
                continue;
            }
            let of_type = seed::of_text(config.seed, StreamPurpose::NewRow, layout.name.as_bytes());
            let mut visit = |partition: u32, offset: u32, name: &str| {
                if u64::from(offset) >= count(partition) {
                    let seed = seed::of_text(of_type, StreamPurpose::NewRow, name.as_bytes());
                    seeds.entry((index, partition)).or_default().push(seed);
                }
            };
            resolved.dataset().visit_rows(&layout.name, &mut visit)?;
        }
        let scale = config.init_scale;
        let storage = config.storage;
        Ok(Self {
            seeds,
            scale,
            storage,
        })
    }

    /// Appends the new rows of a table to `data` if it lacks them. Returns whether it did.
    pub fn append_if_missing(
        &self,
        key: TableKey,
        layout: &TypeLayout,
        data: &mut PartitionData,
    ) -> bool {
        let new = self.count(key);
        let lacks_them = new > 0 && (data.rows + new) as u64 == layout.rows[key.1 as usize];
        if lacks_them {
            self.append(key, data);
        }
        lacks_them
    }

    /// Whether there are no new rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seeds.is_empty()
    }

    /// Returns the number of new rows of a table.
    #[must_use]
    pub fn count(&self, key: TableKey) -> usize {
        self.seeds.get(&key).map_or(0, Vec::len)
    }

    /// Initializes the new rows of a table and appends them to `data`.
    pub(crate) fn append(&self, key: TableKey, data: &mut PartitionData) {
        for &seed in self.seeds.get(&key).into_iter().flatten() {
            let mut rng = seed::stream(seed, StreamPurpose::NewRow, &[]);
            let normal = StandardNormal;
            let row =
                (0..data.dim).map(|_| Distribution::<f32>::sample(&normal, &mut rng) * self.scale);
            let first = data.embeddings.len();
            data.embeddings.extend(row);
            if self.storage == EmbeddingFormat::Bf16 {
                StochasticRounding::new(seed).round(0, &mut data.embeddings[first..]);
            }
            let width = data.optimizer.state_width(data.dim);
            data.state.resize(data.state.len() + width, 0.0);
            data.rows += 1;
        }
    }

    /// Rewrites the partitions of `checkpoint` that lack rows, with the new rows. They belong to the next commit.
    ///
    /// # Errors
    /// When a partition cannot be read or written, or does not have the rows of the earlier dataset.
    pub(crate) fn add_to(
        &self,
        checkpoint: &Checkpoint,
        types: &[TypeLayout],
    ) -> Result<(), RunError> {
        for &(index, partition) in self.seeds.keys() {
            let layout = &types[index];
            let mut data = tables::allocate_partition(layout, partition);
            let name = &layout.name;
            if !checkpoint.read_partition_into(name, partition, &mut data)? {
                continue;
            }
            self.append((index, partition), &mut data);
            tables::check_shape(layout, partition, &data)?;
            tables::with_data(layout, &data, |rows| {
                checkpoint.write_rows(name, partition, rows, TargetCommit::Next)
            })?;
        }
        Ok(())
    }
}
