//! Rows for names that a checkpoint has not met: the dataset has grown since it was trained.

use std::collections::BTreeMap;

use pbg_core::bfloat16::Rounding;
use pbg_core::model::Storage;
use pbg_core::seed::{self, Purpose};
use pbg_store::checkpoint::{Belongs, Checkpoint, PartitionData};
use pbg_store::dataset::Ids;
use rand_distr::{Distribution, StandardNormal};

use crate::error::RunError;
use crate::layout::{TableKey, TypeLayout};
use crate::resolved::Resolved;
use crate::tables;

/// The rows behind those of an earlier dataset, to be drawn: each from the seed and its name alone,
/// whatever else is new.
#[derive(Debug, Default)]
pub(crate) struct NewRows {
    /// A seed per new row, in the order of offsets.
    seeds: BTreeMap<TableKey, Vec<u64>>,
    scale: f32,
    storage: Storage,
}

impl NewRows {
    /// The rows that the dataset has and `earlier` has not.
    ///
    /// # Errors
    /// When a dictionary is damaged.
    pub(crate) fn behind(earlier: &Ids, resolved: &Resolved) -> Result<Self, RunError> {
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
            let of_type = seed::of_text(config.seed, Purpose::NewRow, layout.name.as_bytes());
            let mut visit = |partition: u32, offset: u32, name: &str| {
                if u64::from(offset) >= count(partition) {
                    let seed = seed::of_text(of_type, Purpose::NewRow, name.as_bytes());
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

    /// Draws the new rows of a table behind those in `data`, if it lacks them. Says whether it did.
    pub(crate) fn complete(
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

    /// Whether nothing is new.
    pub(crate) fn is_empty(&self) -> bool {
        self.seeds.is_empty()
    }

    /// How many rows of a table are new.
    pub(crate) fn count(&self, key: TableKey) -> usize {
        self.seeds.get(&key).map_or(0, Vec::len)
    }

    /// Draws the new rows of a table behind those in `data`.
    pub(crate) fn append(&self, key: TableKey, data: &mut PartitionData) {
        for &seed in self.seeds.get(&key).into_iter().flatten() {
            let mut rng = seed::stream(seed, Purpose::NewRow, &[]);
            let normal = StandardNormal;
            let row =
                (0..data.dim).map(|_| Distribution::<f32>::sample(&normal, &mut rng) * self.scale);
            let first = data.embeddings.len();
            data.embeddings.extend(row);
            if self.storage == Storage::Bf16 {
                Rounding::new(seed).round(0, &mut data.embeddings[first..]);
            }
            let accumulators = data.optimizer.accumulators(data.dim);
            data.adagrad.resize(data.adagrad.len() + accumulators, 0.0);
            data.rows += 1;
        }
    }

    /// Writes the partitions of `checkpoint` that lack rows again, with them. They belong to the next
    /// commit.
    ///
    /// # Errors
    /// When a partition cannot be read or written, or has not the rows of the earlier dataset.
    pub(crate) fn add_to(
        &self,
        checkpoint: &Checkpoint,
        types: &[TypeLayout],
    ) -> Result<(), RunError> {
        for &(index, partition) in self.seeds.keys() {
            let layout = &types[index];
            let mut data = tables::memory_for(layout, partition);
            let name = &layout.name;
            if !checkpoint.read_partition_into(name, partition, &mut data)? {
                continue;
            }
            self.append((index, partition), &mut data);
            tables::check_shape(layout, partition, &data)?;
            tables::with_data(layout, &data, |rows| {
                checkpoint.write_rows(name, partition, rows, Belongs::ToNext)
            })?;
        }
        Ok(())
    }
}
