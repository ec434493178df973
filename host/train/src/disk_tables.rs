//! Tables on disk: partitions of the checkpoint or of `init_path`, or random initial ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{Checkpoint, PartitionData, ReadCheckpoint, TargetCommit, Tensor, TensorRef};
use pbg_core::lock::lock;
use pbg_core::model::Optimizer;
use pbg_core::seed;
use pbg_kernels::device::OpenDevice;
use pbg_model::commit;
use pbg_model::compatibility::{OpenPurpose, check_compatibility};
use pbg_model::error::RunError;
use pbg_model::layout::{Layout, TableKey, TypeLayout};
use pbg_model::memory;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::rounding::{Point, Roundings};
use pbg_model::tables;
use pbg_model::trained::UntrainedNames;
use pbg_rows::params::Params;
use pbg_rows::table::{FeatureBags, Table};
use rand_distr::{Distribution, StandardNormal};

use crate::buffer::TableStore;
use crate::new_rows::NewRows;
use crate::own_vectors::OwnVectors;
/// Checks that the optimizer state of `init_path` can be converted, a partition at a time.
fn require_conversion(resolved: &ResolvedConfig, stored: Optimizer) -> Result<(), RunError> {
    let types = resolved.blueprint().layout.types.iter();
    let bytes = types.map(|layout| {
        let numbers = stored.state_width(layout.dimension) + layout.dimension;
        layout.rows.iter().max().unwrap_or(&0) * 4 * numbers as u64
    });
    match stored == resolved.config().optimizer {
        true => Ok(()),
        false => Ok(memory::require_more(
            "converting the optimizer state of init_path",
            bytes.max().unwrap_or(0),
            "use more partitions, or the optimizer of that checkpoint",
        )?),
    }
}

/// Initial state of tables: vectors of the user where a file has them, then `init_path`, otherwise random normal values.
pub struct InitialTables {
    /// The checkpoint of `init_path`.
    pub checkpoint: Option<ReadCheckpoint>,
    /// Vectors from files.
    pub own: OwnVectors,
    /// Global embeddings of the checkpoint of `init_path` that the rows of a type have taken in, by type. Vectors from a
    /// file are whole embeddings, so the type starts with a global embedding of zero.
    taken_in: BTreeMap<usize, Vec<f32>>,
    /// Rows of the dataset that the checkpoint lacks.
    new: NewRows,
    /// Rows and relations of the dataset that the checkpoint lacks; they are initialized at random.
    pub missing: UntrainedNames,
    scale: f32,
    seed: u64,
    /// Source of random roundings.
    pub roundings: Roundings,
}

impl InitialTables {
    /// Opens the initial state of a run. If the run does not begin now, its checkpoint is complete, and neither
    /// `init_path` nor vectors are opened.
    ///
    /// # Errors
    /// When the checkpoint of `init_path` or a file of vectors cannot be read or does not fit.
    pub fn new(resolved: &ResolvedConfig, begins: bool) -> Result<Self, RunError> {
        let config = resolved.config();
        let (mut checkpoint, mut new, mut missing, mut taken_in) = Default::default();
        let own = match begins {
            true => OwnVectors::open(resolved)?,
            false => OwnVectors::default(),
        };
        if let Some(path) = config.init_path.as_ref().filter(|_| begins) {
            let opened = ReadCheckpoint::open(Path::new(path))?;
            let admitted =
                check_compatibility(resolved, opened.path(), opened.run(), &OpenPurpose::Start)?;
            if let Some(earlier) = &admitted.earlier {
                new = NewRows::since(earlier, resolved)?;
                missing = UntrainedNames::of(earlier, &resolved.ids()?);
            }
            require_conversion(resolved, opened.run().optimizer)?;
            taken_in = global_embeddings(&opened.model()?, &own, &resolved.blueprint().layout);
            checkpoint = Some(opened);
        }
        Ok(Self {
            checkpoint,
            own,
            taken_in,
            new,
            missing,
            scale: config.init_scale,
            seed: config.seed,
            roundings: Roundings::new(config),
        })
    }

    /// Reads the initial parameters from the checkpoint of `init_path`, if there is one.
    ///
    /// # Errors
    /// When the checkpoint cannot be read, or does not fit the model.
    pub fn read_params(&self, layout: &Layout, params: &mut Params) -> Result<(), RunError> {
        let Some(init) = &self.checkpoint else {
            return Ok(());
        };
        let mut tensors = init.model()?;
        for &type_index in self.taken_in.keys() {
            // With the accumulators of the tensor.
            let name = global_embedding(&layout.types[type_index]);
            tensors.retain(|tensor| !tensor.name.starts_with(&name));
        }
        commit::read_model(tensors, params)
    }

    /// Returns the initial state of a partition, which depends only on the seed, the type and the partition.
    ///
    /// # Errors
    /// When the partition of `init_path` or the vectors cannot be read.
    pub fn partition(
        &self,
        layout: &TypeLayout,
        type_index: usize,
        partition: u32,
    ) -> Result<PartitionData, RunError> {
        let key = (type_index, partition);
        let mut data = self.unrounded(layout, key)?;
        self.own.fill(key, &mut data)?;
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
        let mut data = tables::allocate_partition(layout, partition);
        if let Some(init) = &self.checkpoint
            && init.read_partition_into(&layout.name, partition, &mut data)?
        {
            self.new.append((type_index, partition), &mut data);
            data.convert(layout.optimizer);
            if let Some(global) = self.taken_in.get(&type_index) {
                for row in data.embeddings.chunks_exact_mut(data.dim) {
                    row.iter_mut().zip(global).for_each(|(x, g)| *x += g);
                }
            }
            return Ok(data);
        }
        let at = [type_index as u64, u64::from(partition)];
        let mut rng = seed::stream(self.seed, seed::StreamPurpose::Init, &at);
        let normal = StandardNormal;
        let drawn = (0..data.rows * data.dim)
            .map(|_| Distribution::<f32>::sample(&normal, &mut rng) * self.scale);
        data.embeddings.extend(drawn);
        let width = data.optimizer.state_width(data.dim);
        data.state.resize(data.rows * width, 0.0);
        Ok(data)
    }
}

/// Returns the name of the parameter with the global embedding of a type.
fn global_embedding(layout: &TypeLayout) -> String {
    format!("entities/{}/global_embedding", layout.name)
}

/// Returns the global embeddings among `tensors` of the types that have vectors of their own.
fn global_embeddings(
    tensors: &[Tensor],
    own: &OwnVectors,
    layout: &Layout,
) -> BTreeMap<usize, Vec<f32>> {
    let of_type = |type_index: usize| {
        let layout = &layout.types[type_index];
        let name = global_embedding(layout);
        let tensor = tensors.iter().find(|tensor| tensor.name == name)?;
        let fits = tensor.values.len() == layout.dimension;
        fits.then(|| (type_index, tensor.values.clone()))
    };
    own.types().filter_map(of_type).collect()
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
        let mut data = tables::allocate_partition(layout, partition);
        let read = self
            .checkpoint
            .read_partition_into(&layout.name, partition, &mut data)?;
        if !read {
            data = self.initial.partition(layout, type_index, partition)?;
        }
        let features = self.features[type_index].clone();
        tables::table(layout, partition, data, features)
    }

    /// Writes the initial state of one table that no bucket has touched, so that a committed checkpoint is complete.
    /// Returns whether there may be more such tables.
    fn complete(&self) -> Result<bool, RunError> {
        let mut untouched = lock(&self.untouched);
        while let Some((type_index, partition)) = untouched.as_mut().and_then(Vec::pop) {
            let layout = &self.layout.types[type_index];
            if self
                .checkpoint
                .commit_has_partition(&layout.name, partition)
            {
                continue;
            }
            let data = self.initial.partition(layout, type_index, partition)?;
            tables::with_data(layout, &data, |rows| {
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
        let rounding = self.initial.roundings.at(next, (type_index, partition));
        Ok(tables::with_rows(layout, table, rounding, |rows| {
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
        tables::copy_of(table, over)
    }

    fn trains_on_device(&self) -> bool {
        self.place.is_some()
    }

    fn download(&self, table: &Table) -> Result<(), RunError> {
        Ok(table.download()?)
    }
}
