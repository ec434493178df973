//! Tables on disk: the checkpoint's partitions, those of `init_path`, or freshly drawn ones.

use std::path::Path;

use pbg_core::seed;
use pbg_gemm::pages;
use pbg_kernels::device::Place;
use pbg_kernels::table::{Features, Table};
use pbg_store::checkpoint::{Checkpoint, PartitionData, ReadCheckpoint};
use rand_distr::{Distribution, StandardNormal};

use crate::buffer::TableStore;
use crate::error::RunError;
use crate::grow::NewRows;
use crate::identity::{Purpose, admit};
use crate::layout::{TableKey, TypeLayout};
use crate::resolved::Resolved;

/// The first state of tables: those of `init_path` where it has them, else normal draws.
pub(crate) struct Initial {
    init: Option<ReadCheckpoint>,
    /// What the dataset has and the one of `init` had not.
    new: NewRows,
    scale: f32,
    seed: u64,
}

impl Initial {
    /// That of a run; where it goes on, its checkpoint is complete and `init_path` is not opened.
    pub(crate) fn new(resolved: &Resolved, begins: bool) -> Result<Self, RunError> {
        let config = resolved.config();
        let (mut init, mut new) = (None, NewRows::default());
        if let Some(path) = config.init_path.as_ref().filter(|_| begins) {
            let opened = ReadCheckpoint::open(Path::new(path))?;
            let admitted = admit(resolved, opened.path(), opened.run(), &Purpose::Start)?;
            if let Some(earlier) = &admitted.earlier {
                new = NewRows::behind(earlier, resolved)?;
            }
            init = Some(opened);
        }
        Ok(Self {
            init,
            new,
            scale: config.init_scale,
            seed: config.seed,
        })
    }

    /// The checkpoint of `init_path`.
    pub(crate) fn checkpoint(&self) -> Option<&ReadCheckpoint> {
        self.init.as_ref()
    }

    /// The initial state of one partition. Depends on the seed, the type and the partition only.
    fn partition(
        &self,
        layout: &TypeLayout,
        type_index: usize,
        partition: u32,
    ) -> Result<PartitionData, RunError> {
        let mut data = room(layout, partition);
        if let Some(init) = &self.init
            && init.read_partition_into(&layout.name, partition, &mut data)?
        {
            self.new.append((type_index, partition), &mut data);
            return Ok(data);
        }
        let at = [type_index as u64, u64::from(partition)];
        let mut rng = seed::stream(self.seed, seed::Purpose::Init, &at);
        let normal = StandardNormal;
        let drawn = (0..data.rows * data.dim)
            .map(|_| Distribution::<f32>::sample(&normal, &mut rng) * self.scale);
        data.embeddings.extend(drawn);
        data.row_adagrad.resize(data.rows, 0.0);
        Ok(data)
    }
}

/// Room for a partition.
pub(crate) fn room(layout: &TypeLayout, partition: u32) -> PartitionData {
    let rows = layout.rows[partition as usize] as usize;
    PartitionData {
        rows,
        dim: layout.dimension,
        embeddings: pages::with_capacity(rows * layout.dimension),
        row_adagrad: pages::with_capacity(rows),
    }
}

/// Makes a table of what was read, after checking that it is the one the run wants.
pub(crate) fn table(
    layout: &TypeLayout,
    partition: u32,
    data: PartitionData,
    features: Option<Features>,
) -> Result<Table, RunError> {
    check_shape(layout, partition, &data)?;
    let mut table = Table::with_state(data.embeddings, data.row_adagrad, data.dim);
    table.features = features;
    Ok(table)
}

/// Whether a partition has the shape that the run wants.
pub(crate) fn check_shape(
    layout: &TypeLayout,
    partition: u32,
    data: &PartitionData,
) -> Result<(), RunError> {
    let rows = layout.rows[partition as usize];
    if data.rows as u64 == rows && data.dim == layout.dimension {
        return Ok(());
    }
    Err(RunError::Mismatch(format!(
        "partition {partition} of {} is [{}, {}] in the checkpoint, but [{rows}, {}] in this run; use another \
         checkpoint_path, or the dataset and configuration it was trained with",
        layout.name, data.rows, data.dim, layout.dimension
    )))
}

/// The tables of a run in its checkpoint.
pub(crate) struct DiskTables {
    pub(crate) checkpoint: Checkpoint,
    initial: Initial,
    types: Vec<TypeLayout>,
    features: Vec<Option<Features>>,
    /// Where tables are trained, if not in main memory.
    place: Option<Place>,
}

impl DiskTables {
    pub(crate) fn new(
        resolved: &Resolved,
        checkpoint: Checkpoint,
        initial: Initial,
        place: Option<Place>,
    ) -> Result<Self, RunError> {
        let blueprint = resolved.blueprint();
        let features = blueprint.features(resolved.dataset())?;
        Ok(Self {
            checkpoint,
            initial,
            types: blueprint.layout.types.clone(),
            features,
            place,
        })
    }

    /// Gives every table that no bucket has touched its initial state on disk, so that a
    /// committed checkpoint is complete.
    pub(crate) fn complete(&self) -> Result<(), RunError> {
        for type_index in 0..self.types.len() {
            for partition in 0..self.types[type_index].rows.len() as u32 {
                let layout = &self.types[type_index];
                if !self.checkpoint.has_partition(&layout.name, partition) {
                    let data = self.initial.partition(layout, type_index, partition)?;
                    let name = layout.name.clone();
                    self.checkpoint.write_partition(
                        &name,
                        partition,
                        data.dim,
                        &data.embeddings,
                        &data.row_adagrad,
                    )?;
                }
            }
        }
        Ok(())
    }
}

impl TableStore for DiskTables {
    type Table = Table;

    fn load(&self, (type_index, partition): TableKey) -> Result<(Table, u64), RunError> {
        let layout = &self.types[type_index];
        let mut data = room(layout, partition);
        let read = self
            .checkpoint
            .read_partition_into(&layout.name, partition, &mut data)?;
        let bytes = match read {
            true => layout.bytes(partition),
            false => 0,
        };
        if !read {
            data = self.initial.partition(layout, type_index, partition)?;
        }
        let mut table = table(layout, partition, data, self.features[type_index].clone())?;
        if let Some(place) = self.place {
            table.upload(place)?;
        }
        Ok((table, bytes))
    }

    fn save(&self, (type_index, partition): TableKey, table: &mut Table) -> Result<u64, RunError> {
        let layout = &self.types[type_index];
        table.download()?;
        self.checkpoint.write_partition(
            &layout.name,
            partition,
            layout.dimension,
            table.embeddings.get_mut(),
            table.row_adagrad.get_mut(),
        )?;
        Ok(layout.bytes(partition))
    }
}
