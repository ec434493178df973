//! Tables on disk: partitions of the checkpoint or of `init_path`, or random initial ones.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{
    Checkpoint, PartitionData, PartitionRows, ReadCheckpoint, TargetCommit, Tensor, TensorRef,
};
use pbg_core::bfloat16::StochasticRounding;
use pbg_core::model::{EmbeddingFormat, Optimizer};
use pbg_core::seed;
use pbg_gemm::pages;
use pbg_kernels::device::OpenDevice;
use pbg_kernels::rows::SharedRows;
use pbg_kernels::table::{FeatureBags, Table};
use rand_distr::{Distribution, StandardNormal};

use crate::buffer::TableStore;
use crate::compatibility::{OpenPurpose, check_compatibility};
use crate::error::{CheckpointMismatch, RunError};
use crate::layout::{Layout, TableKey, TypeLayout};
use crate::new_rows::NewRows;
use crate::resolved::ResolvedConfig;
use crate::rounding::{Point, Roundings};
use crate::trained::UntrainedNames;

/// Initial state of tables: from `init_path` where it has them, otherwise random normal values.
pub(crate) struct InitialTables {
    init: Option<ReadCheckpoint>,
    /// Rows of the dataset that `init` lacks.
    new: NewRows,
    missing: UntrainedNames,
    scale: f32,
    seed: u64,
    roundings: Roundings,
}

impl InitialTables {
    /// Opens the initial state of a run. If the run does not begin now, its checkpoint is complete and `init_path` is
    /// not opened.
    pub(crate) fn new(resolved: &ResolvedConfig, begins: bool) -> Result<Self, RunError> {
        let config = resolved.config();
        let (mut init, mut new, mut missing) = Default::default();
        if let Some(path) = config.init_path.as_ref().filter(|_| begins) {
            let opened = ReadCheckpoint::open(Path::new(path))?;
            let admitted =
                check_compatibility(resolved, opened.path(), opened.run(), &OpenPurpose::Start)?;
            if let Some(earlier) = &admitted.earlier {
                new = NewRows::since(earlier, resolved)?;
                missing = UntrainedNames::of(earlier, &resolved.ids()?);
            }
            init = Some(opened);
        }
        Ok(Self {
            init,
            new,
            missing,
            scale: config.init_scale,
            seed: config.seed,
            roundings: Roundings::new(config),
        })
    }

    /// Returns the checkpoint of `init_path`.
    pub(crate) fn checkpoint(&self) -> Option<&ReadCheckpoint> {
        self.init.as_ref()
    }

    /// Returns the rows and relations of the dataset that the checkpoint of `init_path` lacks; they are initialized at
    /// random.
    pub(crate) fn missing(&self) -> &UntrainedNames {
        &self.missing
    }

    /// Returns the source of random roundings.
    pub(crate) fn roundings(&self) -> Roundings {
        self.roundings
    }

    /// Returns the initial state of a partition, which depends only on the seed, the type and the partition.
    pub(crate) fn partition(
        &self,
        layout: &TypeLayout,
        type_index: usize,
        partition: u32,
    ) -> Result<PartitionData, RunError> {
        let key = (type_index, partition);
        let mut data = self.unrounded(layout, key)?;
        if let Some(rounding) = self.roundings.at(Point::Beginning, key) {
            rounding.round_all(data.dim, &mut data.embeddings);
        }
        Ok(data)
    }

    fn unrounded(
        &self,
        layout: &TypeLayout,
        (type_index, partition): TableKey,
    ) -> Result<PartitionData, RunError> {
        let mut data = allocate_partition(layout, partition);
        if let Some(init) = &self.init
            && init.read_partition_into(&layout.name, partition, &mut data)?
        {
            self.new.append((type_index, partition), &mut data);
            data.convert(layout.optimizer);
            return Ok(data);
        }
        let at = [type_index as u64, u64::from(partition)];
        let mut rng = seed::stream(self.seed, seed::StreamPurpose::Init, &at);
        let normal = StandardNormal;
        let drawn = (0..data.rows * data.dim)
            .map(|_| Distribution::<f32>::sample(&normal, &mut rng) * self.scale);
        data.embeddings.extend(drawn);
        let accumulators = data.optimizer.accumulators(data.dim);
        data.adagrad.resize(data.rows * accumulators, 0.0);
        Ok(data)
    }
}

/// Allocates memory for a partition.
pub(crate) fn allocate_partition(layout: &TypeLayout, partition: u32) -> PartitionData {
    let rows = layout.rows[partition as usize] as usize;
    PartitionData {
        rows,
        dim: layout.dimension,
        embeddings: pages::with_capacity(rows * layout.dimension),
        optimizer: layout.optimizer,
        adagrad: pages::with_capacity(rows * layout.optimizer.accumulators(layout.dimension)),
    }
}

/// Makes a table of the data of a partition, after checking its shape.
pub(crate) fn table(
    layout: &TypeLayout,
    partition: u32,
    data: PartitionData,
    features: Option<FeatureBags>,
) -> Result<Table, RunError> {
    check_shape(layout, partition, &data)?;
    let state = (data.optimizer, data.adagrad);
    let mut table = Table::with_optimizer(data.embeddings, state, data.dim);
    table.features = features;
    Ok(table)
}

/// Calls `write` with the current values of a table, rounded if it is stored rounded. Other threads may read it
/// meanwhile.
pub(crate) fn with_rows<T>(
    layout: &TypeLayout,
    table: &Table,
    rounding: Option<StochasticRounding>,
    write: impl FnOnce(&PartitionRows<'_>) -> T,
) -> T {
    write(&PartitionRows {
        rows: table.embeddings.rows(),
        dim: layout.dimension,
        embeddings: &|row, out| table.embeddings.read_rows(row, out),
        optimizer: layout.optimizer,
        adagrad: &|row, out| table.adagrad.read_rows(row, out),
        rounding,
    })
}

/// Calls `write` with a partition that is not in a table, rounded if it is stored rounded.
pub(crate) fn with_data<T>(
    layout: &TypeLayout,
    data: &PartitionData,
    write: impl FnOnce(&PartitionRows<'_>) -> T,
) -> T {
    // The values are rounded already, so the seed has no effect.
    let rounding = (layout.storage == EmbeddingFormat::Bf16).then(|| StochasticRounding::new(0));
    let accumulators = data.optimizer.accumulators(data.dim);
    write(&PartitionRows {
        rows: data.rows,
        dim: data.dim,
        embeddings: &|row, out| {
            out.copy_from_slice(&data.embeddings[row * data.dim..][..out.len()])
        },
        optimizer: data.optimizer,
        adagrad: &|row, out| {
            out.copy_from_slice(&data.adagrad[row * accumulators..][..out.len()]);
        },
        rounding,
    })
}

/// Copies a table in main memory, reusing the memory of `over` if there is one. Features are shared.
pub(crate) fn copy_of(table: &Table, over: Option<Table>) -> Table {
    let (embeddings, adagrad) = over.map_or_else(Default::default, |over| {
        (Some(over.embeddings), Some(over.adagrad))
    });
    let dimension = table.embeddings.width();
    let optimizer = match table.adagrad.width() {
        1 => Optimizer::RowAdagrad,
        _ => Optimizer::Adagrad,
    };
    let embeddings = values_of(&table.embeddings, embeddings);
    let state = values_of(&table.adagrad, adagrad);
    let mut copy = Table::with_optimizer(embeddings, (optimizer, state), dimension);
    copy.features = table.features.clone();
    copy
}

/// Copies all `rows`, reusing the memory of `over` if there is one.
fn values_of(rows: &SharedRows, over: Option<SharedRows>) -> Vec<f32> {
    let len = rows.rows() * rows.width();
    let mut values = over.map_or_else(|| pages::with_capacity(len), SharedRows::into_vec);
    // Only fresh memory is initialized by this.
    values.resize(len, 0.0);
    rows.read_rows(0, &mut values);
    values
}

/// Checks that a partition has the expected shape.
pub(crate) fn check_shape(
    layout: &TypeLayout,
    partition: u32,
    data: &PartitionData,
) -> Result<(), CheckpointMismatch> {
    let rows = layout.rows[partition as usize];
    if data.rows as u64 == rows && data.dim == layout.dimension {
        return Ok(());
    }
    Err(CheckpointMismatch::Rows {
        entity_type: layout.name.clone(),
        partition,
        stored: [data.rows as u64, data.dim as u64],
        expected: [rows, layout.dimension as u64],
    })
}

/// Tables of a run, stored in its checkpoint.
pub(crate) struct DiskTables {
    pub(crate) checkpoint: Checkpoint,
    initial: InitialTables,
    layout: Layout,
    features: Vec<Option<FeatureBags>>,
    /// Device that trains the tables, if not the processor cores.
    place: Option<Arc<dyn OpenDevice>>,
    /// Tables that the commit under way may lack because no bucket has touched them; `None` once a commit has contained
    /// all tables.
    untouched: Mutex<Option<Vec<TableKey>>>,
}

/// Content of a commit besides its tables.
pub(crate) struct CommitContent {
    pub(crate) run: RunInfo,
    /// Bytes of `metrics.jsonl` that belong to the commit.
    pub(crate) metrics_length: u64,
    /// Parameters and their accumulators.
    pub(crate) model: Vec<Tensor>,
}

impl DiskTables {
    pub(crate) fn new(
        resolved: &ResolvedConfig,
        checkpoint: Checkpoint,
        initial: InitialTables,
        place: Option<Arc<dyn OpenDevice>>,
    ) -> Result<Self, RunError> {
        let blueprint = resolved.blueprint();
        let features = blueprint.features(resolved.dataset())?;
        let layout = blueprint.layout.clone();
        Ok(Self {
            checkpoint,
            initial,
            untouched: Mutex::new(Some(layout.all_tables().collect())),
            layout,
            features,
            place,
        })
    }

    /// Reads a table as it was last written, into main memory only.
    pub(crate) fn read(&self, key: TableKey) -> Result<Table, RunError> {
        self.read_or_draw(key)
    }

    /// Reads a table as it was last written; if it never was, creates its initial state.
    fn read_or_draw(&self, (type_index, partition): TableKey) -> Result<Table, RunError> {
        let layout = &self.layout.types[type_index];
        let mut data = allocate_partition(layout, partition);
        let read = self
            .checkpoint
            .read_partition_into(&layout.name, partition, &mut data)?;
        if !read {
            data = self.initial.partition(layout, type_index, partition)?;
        }
        let features = self.features[type_index].clone();
        table(layout, partition, data, features)
    }

    /// Writes the initial state of one table that no bucket has touched, so that a committed checkpoint is complete.
    /// Returns whether there may be more such tables.
    fn complete(&self) -> Result<bool, RunError> {
        let mut untouched = self
            .untouched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while let Some((type_index, partition)) = untouched.as_mut().and_then(Vec::pop) {
            let layout = &self.layout.types[type_index];
            if self
                .checkpoint
                .commit_has_partition(&layout.name, partition)
            {
                continue;
            }
            let data = self.initial.partition(layout, type_index, partition)?;
            with_data(layout, &data, |rows| {
                self.checkpoint
                    .write_rows(&layout.name, partition, rows, TargetCommit::InProgress)
            })?;
            return Ok(true);
        }
        *untouched = None;
        Ok(false)
    }

    fn write(
        &self,
        (type_index, partition): TableKey,
        table: &Table,
        belongs: TargetCommit,
    ) -> Result<(), RunError> {
        let layout = &self.layout.types[type_index];
        let next = Point::Version(self.checkpoint.version() + 1);
        let rounding = self.initial.roundings().at(next, (type_index, partition));
        Ok(with_rows(layout, table, rounding, |rows| {
            self.checkpoint
                .write_rows(&layout.name, partition, rows, belongs)
        })?)
    }
}

impl TableStore for DiskTables {
    type Table = Table;
    type Cut = CommitContent;

    fn load(&self, key: TableKey) -> Result<Table, RunError> {
        let mut table = self.read_or_draw(key)?;
        if let Some(place) = &self.place {
            place.upload(&mut table)?;
        }
        Ok(table)
    }

    fn save(&self, key: TableKey, table: &Table) -> Result<(), RunError> {
        table.download()?;
        self.write(key, table, TargetCommit::Next)
    }

    fn begin(&self, cut: CommitContent) -> Result<(), RunError> {
        let tensors: Vec<TensorRef<'_>> = cut.model.iter().map(TensorRef::from).collect();
        self.checkpoint.write_model(&tensors)?;
        Ok(self.checkpoint.begin(cut.run, cut.metrics_length)?)
    }

    fn add(&self, key: TableKey, table: &Table) -> Result<(), RunError> {
        self.write(key, table, TargetCommit::InProgress)
    }

    fn continue_commit(&self) -> Result<Option<u64>, RunError> {
        if self.complete()? {
            return Ok(None);
        }
        Ok(self.checkpoint.commit_step()?)
    }

    fn copy(&self, table: &Table, over: Option<Table>) -> Table {
        copy_of(table, over)
    }

    fn trains_on_device(&self) -> bool {
        self.place.is_some()
    }

    fn download(&self, table: &Table) -> Result<(), RunError> {
        Ok(table.download()?)
    }
}
