//! Building an index and measuring its recall.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_checkpoint::index::{self, GraphInfo, IndexBuild, Recall, TypeIndex};
use pbg_checkpoint::{ReadCheckpoint, row_sum};
use pbg_core::seed::{StreamPurpose, stream};
use pbg_index::{BuildOptions, NeighborGraph, Points, build_graph};
use pbg_kernels::rank::{PointSpace, Ranker};
use pbg_model::error::{CheckpointMismatch, RunError};
use pbg_model::layout::TableKey;
use pbg_model::memory;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;
use pbg_model::trained::{TrainedModel, UntrainedNames};
use rand::RngExt;
use serde::Serialize;

use super::beam_width::{BeamWidth, GOOD};
use super::needs::index_needs;
use super::options::{IndexOptions, IndexQueryOptions};
use super::part::WalkKind;
use super::{OpenIndex, global_crc32, indexed_name};
use crate::evaluate::predict::{RecallMeasurement, ResolvedQuestion};
use crate::without_operators;

/// Beam widths whose recall is measured.
const WIDTHS: [u32; 5] = [32, 64, 128, 256, 512];

/// Progress of building an index.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexProgress<'a> {
    /// Entities of a partition are being linked.
    Partition {
        /// The entity type.
        entity_type: &'a str,
        /// The partition, and the number of partitions.
        partition: [u32; 2],
        /// Number of linked entities, and number of entities.
        entities: [u32; 2],
    },
    /// The recall is being measured; the value is the finished fraction.
    Measuring(f64),
}

/// Result of indexing an entity type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BuiltType {
    /// Name of the entity type.
    pub entity_type: String,
    /// Number of entities.
    pub entities: u64,
    /// Number of partitions.
    pub partitions: u32,
    /// Seconds spent on linking.
    pub seconds: f64,
    /// Bytes of the index files.
    pub bytes: u64,
    /// Recall of walks, by width.
    pub recall: Vec<Recall>,
}

/// Result of building an index.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IndexReport {
    /// Folder of the index.
    pub folder: PathBuf,
    /// Version of the checkpoint that the index belongs to.
    pub version: u64,
    /// Version that a run has committed meanwhile, if its embeddings are different. Queries of that version find no
    /// index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<u64>,
    /// Indexed entity types.
    pub types: Vec<BuiltType>,
    /// Names of the dataset that the model has no embedding for.
    pub missing: UntrainedNames,
}

impl IndexReport {
    /// Returns warnings about indexes that are not used unless the user chooses a width, because no measured width has
    /// enough recall.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        let kinds = [
            (WalkKind::Neighbors, "neighbors"),
            (WalkKind::Predictions, "predictions"),
        ];
        let mut advice = Vec::new();
        for of in &self.types {
            for (kind, what) in kinds {
                let found = BeamWidth::of(&of.recall, kind, IndexQueryOptions::default());
                if let Some(recall) = found.recall().filter(|recall| *recall < GOOD) {
                    advice.push(format!(
                        "{what} of {}: walks find {recall:.3} of the ten best with width {}, less than the required {GOOD}; all \
                         entities are compared unless `--width` is given; higher `--links` and `--build-width` raise the \
                         recall",
                        of.entity_type, found.width
                    ));
                }
            }
        }
        advice
    }
}

/// Builds the index of the checkpoint, or of one of its entity types, and measures its recall.
///
/// # Errors
/// When the checkpoint cannot be read, the index cannot be written, there is too little memory, a value is not
/// finite, or `stop` is set. An earlier index is kept then.
pub fn build_index(
    resolved: &ResolvedConfig,
    options: &IndexOptions,
    stop: &AtomicBool,
    progress: &(dyn Fn(IndexProgress<'_>) + Sync),
) -> Result<IndexReport, RunError> {
    let needs = index_needs(resolved, options)?;
    let threads = options.threads.unwrap_or_else(cores).max(1);
    memory::require("the index", memory::total(&needs), threads)?;
    let trained = without_operators::plain(TrainedModel::open(resolved)?, options.comparator)?;
    let builder = Builder {
        resolved,
        trained: &trained,
        options,
        stop,
        progress,
    };
    let name = indexed_name(trained.blueprint.spec.comparator)?;
    let folder = index::folder(trained.checkpoint.path(), name);
    let mut building = IndexBuild::begin(&folder, name)?;
    let mut report = IndexReport {
        folder,
        version: trained.checkpoint.version(),
        newer: None,
        types: Vec::new(),
        missing: trained.missing.clone(),
    };
    let wanted = options.types(&trained.blueprint)?;
    for &type_index in &wanted {
        report.types.push(builder.link(type_index, &mut building)?);
    }
    if options.questions > 0 {
        for (type_index, built) in wanted.into_iter().zip(&mut report.types) {
            built.recall = builder.measure(type_index, &mut building)?;
        }
    }
    building.commit()?;
    report.newer = newer(&trained.checkpoint)?;
    Ok(report)
}

/// Returns the number of the current version if its embeddings differ from those of `held`.
fn newer(held: &ReadCheckpoint) -> Result<Option<u64>, RunError> {
    let now = ReadCheckpoint::open(held.path())?;
    let of = |version: &ReadCheckpoint, (name, partition): &(String, u32)| {
        version.partition_summary(name, *partition)
    };
    let mut partitions = held.manifest().partitions().into_iter();
    let differs = partitions.any(|at| of(held, &at) != of(&now, &at));
    Ok(differs.then(|| now.version()))
}

struct Builder<'b> {
    resolved: &'b ResolvedConfig,
    /// Model without operators.
    trained: &'b TrainedModel<'b>,
    options: &'b IndexOptions,
    stop: &'b AtomicBool,
    progress: &'b (dyn Fn(IndexProgress<'_>) + Sync),
}

impl Builder<'_> {
    fn threads(&self) -> usize {
        self.options.threads.unwrap_or_else(cores).max(1)
    }

    /// Links the entities of a type, partition by partition.
    fn link(&self, type_index: usize, building: &mut IndexBuild) -> Result<BuiltType, RunError> {
        let started = pbg_clock::now();
        let name = &self.trained.blueprint.layout.types[type_index].name;
        let mut built = TypeIndex {
            global_crc32: global_crc32(self.trained, type_index),
            ..TypeIndex::default()
        };
        for partition in 0..self.trained.partitions(type_index) {
            let graph = self.link_partition((type_index, partition), building)?;
            built.graphs.push(graph);
        }
        let graphs = built.graphs.iter();
        let files = &building.manifest().files;
        let sizes = graphs.clone().filter_map(|graph| files.get(&graph.file));
        let report = BuiltType {
            entity_type: name.clone(),
            entities: graphs.map(|graph| u64::from(graph.points)).sum(),
            partitions: built.graphs.len() as u32,
            seconds: started.elapsed().as_secs_f64(),
            bytes: sizes.map(|summary| summary.size).sum(),
            recall: Vec::new(),
        };
        building.set(name, built);
        Ok(report)
    }

    fn link_partition(
        &self,
        key: TableKey,
        building: &mut IndexBuild,
    ) -> Result<GraphInfo, RunError> {
        let name = &self.trained.blueprint.layout.types[key.0].name;
        let (points, sums) = self.points(key)?;
        let count = points.len() as u32;
        let options = BuildOptions {
            degree: self.options.degree as usize,
            beam_width: self.options.width as usize,
            threads: self.threads(),
        };
        let partition = [key.1, self.trained.partitions(key.0)];
        let tell = |linked| {
            (self.progress)(IndexProgress::Partition {
                entity_type: name,
                partition,
                entities: [linked, count],
            });
        };
        let NeighborGraph { entry, links } =
            build_graph(points, options, self.stop, &tell)?.ok_or(RunError::Interrupted)?;
        let summary = self.trained.checkpoint.partition_summary(name, key.1);
        let embeddings = summary.ok_or_else(|| CheckpointMismatch::NoPartition {
            checkpoint: self.trained.checkpoint.path().to_owned(),
            entity_type: name.clone(),
            partition: key.1,
        })?;
        Ok(building.write(name, key.1, (entry, &links), &sums, embeddings)?)
    }

    /// Returns the entities of a partition as points, and the checksums of the rows of its table.
    fn points(&self, key: TableKey) -> Result<(Points, Vec<u32>), RunError> {
        let spec = self.trained.blueprint.spec.clone();
        let table = self.trained.table(key.0, key.1)?;
        let mut row = vec![0.0; table.embeddings.width()];
        let sum = |at| {
            table.embeddings.read_row(at, &mut row);
            row_sum(&row)
        };
        let sums = (0..table.embeddings.rows()).map(sum).collect();
        let space = PointSpace::of(&spec, table.embeddings.width());
        let replacement = without_operators::replaced(key.0, &self.trained.params);
        let points = Ranker::new(spec.into())?.points(replacement, space, &table);
        if !points.iter().all(|x| x.is_finite()) {
            return Err(RunError::NotComparable { question: 0 });
        }
        Ok((Points::new(points, space.width()), sums))
    }

    /// Measures the recall of walks among the entities of a type.
    fn measure(
        &self,
        type_index: usize,
        building: &mut IndexBuild,
    ) -> Result<Vec<Recall>, RunError> {
        let name = &self.trained.blueprint.layout.types[type_index].name;
        let manifest = building.manifest().clone();
        let index = OpenIndex::unfinished(building)?;
        let tell = &mut |share| (self.progress)(IndexProgress::Measuring(share));
        let measured = |measured: RecallMeasurement<'_>,
                        asked: &[ResolvedQuestion],
                        tell: &mut dyn FnMut(f64)| match asked.is_empty() {
            true => Ok(None),
            false => measured
                .recall(asked, &index, &WIDTHS, self.stop, tell)
                .map(Some),
        };
        let threads = self.threads();
        // The version that was linked; a run may have committed newer ones since.
        let linked = || TrainedModel::of(self.resolved, Arc::clone(&self.trained.checkpoint));
        let plain = without_operators::plain(linked()?, self.options.comparator)?;
        let asked = self.entities(type_index);
        let plain = RecallMeasurement::new(plain, WalkKind::Neighbors, threads)?;
        let neighbors = measured(plain, &asked, tell)?;
        let trained = linked()?;
        let predictions = match trained.blueprint.spec.comparator {
            // Predictions cannot use the index of another comparator.
            own if own != self.trained.blueprint.spec.comparator => None,
            _ => {
                let trained = RecallMeasurement::new(trained, WalkKind::Predictions, threads)?;
                let mut asked = self.edges(&trained)?;
                // The known entity may be of a type that the index does not contain yet.
                asked.retain(|asked| {
                    let has = |of: usize| {
                        let name = &self.trained.blueprint.layout.types[of].name;
                        manifest.types.contains_key(name)
                    };
                    trained.type_of(asked) == type_index && has(trained.known_type(asked))
                });
                measured(trained, &asked, tell)?
            }
        };
        let at = |of: &Option<Vec<f64>>, at: usize| of.as_ref().map(|recall| recall[at]);
        let recall = WIDTHS.iter().enumerate().map(|(i, &width)| Recall {
            width,
            neighbors: at(&neighbors, i),
            predictions: at(&predictions, i),
        });
        let recall: Vec<Recall> = recall.collect();
        if let Some(of_type) = manifest.types.get(name) {
            let of_type = TypeIndex {
                questions: self.options.questions,
                recall: recall.clone(),
                ..of_type.clone()
            };
            building.set(name, of_type);
        }
        Ok(recall)
    }

    /// Draws entities whose neighbours are searched, by the seed.
    fn entities(&self, type_index: usize) -> Vec<ResolvedQuestion> {
        let seed = self.resolved.config().seed;
        let mut random = stream(seed, StreamPurpose::Neighbors, &[type_index as u64]);
        let trained = self.trained;
        let counts: Vec<u64> = (0..trained.partitions(type_index))
            .map(|partition| trained.entities(type_index, partition))
            .collect();
        let total: u64 = counts.iter().sum();
        let mut draw = || {
            let mut at = random.random_range(0..total);
            for (partition, &count) in (0..).zip(&counts) {
                if at < count {
                    return ResolvedQuestion::neighbors(type_index as u32, (partition, at as u32));
                }
                at -= count;
            }
            ResolvedQuestion::neighbors(type_index as u32, (0, 0))
        };
        let wanted = match total {
            0 => 0,
            _ => self.options.questions,
        };
        (0..wanted).map(|_| draw()).collect()
    }

    /// Draws edges of the first trained edge set, by the seed, and returns questions for both of their sides.
    fn edges(&self, trained: &RecallMeasurement<'_>) -> Result<Vec<ResolvedQuestion>, RunError> {
        let config = self.resolved.config();
        let questions = self.options.questions as usize;
        match config.edge_sets.first() {
            Some(set) => trained.questions(set, questions, config.seed),
            None => Ok(Vec::new()),
        }
    }
}
