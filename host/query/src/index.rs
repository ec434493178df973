//! Indexes: finding the nearest of very many entities without comparing all of them.
//!
//! A graph of each partition links entities that are near each other (`pbg-index`). A walk over it reads single rows of
//! the checkpoint, scores them as every other command does, and follows rising scores. So each entity that it finds has
//! the same score as without an index, bit by bit; the walk may only miss entities. The recall is measured when the
//! index is built.

mod beam_width;
mod build;
mod needs;
mod options;
mod part;
pub(crate) mod query_needs;

use std::sync::Arc;

use pbg_checkpoint::index::{self, IndexBuild, IndexError, OpenIndexFiles, TypeIndex};
use pbg_checkpoint::row_sum;
use pbg_core::model::Comparator;
use pbg_model::error::RunError;
use pbg_model::layout::TableKey;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::trained::TrainedModel;

pub use beam_width::{BeamWidth, ExactReason};
pub use build::{BuiltType, IndexProgress, IndexReport, build_index};
pub use needs::index_needs;
pub use options::{IndexOptions, IndexQueryOptions};
pub use part::WalkKind;
pub(crate) use part::{IndexPartition, IndexWalker};

/// Index of the embeddings of a checkpoint.
#[derive(Clone)]
pub(crate) struct OpenIndex(Arc<OpenIndexFiles>);

impl OpenIndex {
    /// Opens the index of `trained` for `comparator`.
    ///
    /// # Errors
    /// When there is no index, it is damaged, or the checkpoint has other embeddings now.
    pub(crate) fn open(
        trained: &TrainedModel<'_>,
        comparator: Comparator,
    ) -> Result<Self, RunError> {
        let name = indexed_name(comparator)?;
        let folder = index::folder(trained.checkpoint.path(), name);
        let Some(opened) = OpenIndexFiles::find(&folder)? else {
            let how = match comparator == trained.blueprint.spec.comparator {
                true => String::new(),
                false => format!(" with `--comparator {name}`"),
            };
            return Err(IndexError::Missing { path: folder, how }.into());
        };
        let opened = Self(Arc::new(opened));
        for type_index in 0..trained.blueprint.layout.types.len() {
            let name = &trained.blueprint.layout.types[type_index].name;
            if let Some(of_type) = opened.0.manifest().types.get(name) {
                opened.compare(trained, type_index, of_type)?;
            }
        }
        Ok(opened)
    }

    /// Whether predictions by the index of a checkpoint compare all entities, because walks do not find enough entities
    /// of some type and no width was chosen. A missing index is reported later.
    pub(crate) fn compares_all(resolved: &ResolvedConfig, with: IndexQueryOptions) -> bool {
        let Ok(name) = indexed_name(resolved.blueprint().spec.comparator) else {
            return false;
        };
        let folder = index::folder(resolved.config().checkpoint_path.as_ref(), name);
        let Ok(Some(manifest)) = index::read(&folder) else {
            return false;
        };
        let mut types = manifest.types.values();
        types.any(|of| !BeamWidth::of(&of.recall, WalkKind::Predictions, with).is_used(with))
    }

    /// Opens an index that is being built.
    fn unfinished(building: &IndexBuild) -> Result<Self, IndexError> {
        let manifest = building.manifest().clone();
        Ok(Self(Arc::new(OpenIndexFiles::of(
            building.folder(),
            manifest,
        )?)))
    }

    /// Checks that the graphs of a type belong to the current embeddings.
    fn compare(
        &self,
        trained: &TrainedModel<'_>,
        type_index: usize,
        of_type: &TypeIndex,
    ) -> Result<(), IndexError> {
        let name = &trained.blueprint.layout.types[type_index].name;
        let partitions = trained.partitions(type_index);
        let stale = |partition: u32| IndexError::Stale {
            path: self.0.folder().to_owned(),
            what: format!("partition {partition} of `{name}`"),
        };
        if of_type.graphs.len() != partitions as usize
            || of_type.global_crc32 != global_crc32(trained, type_index)
        {
            return Err(stale(0));
        }
        for (partition, graph) in (0..).zip(&of_type.graphs) {
            let there = trained.checkpoint.partition_summary(name, partition);
            let entities = trained.entities(type_index, partition);
            if there != Some(graph.embeddings) || u64::from(graph.points) != entities {
                return Err(stale(partition));
            }
        }
        Ok(())
    }

    fn of_type(&self, name: &str) -> Result<&TypeIndex, IndexError> {
        let missing = || IndexError::Missing {
            path: self.0.folder().to_owned(),
            how: format!("; it has no `{name}`: `--entity-type {name}` adds it"),
        };
        self.0.manifest().types.get(name).ok_or_else(missing)
    }

    /// Returns the largest number of links of an entity of a type.
    ///
    /// # Errors
    /// When the index lacks the type.
    pub(crate) fn degree(&self, name: &str) -> Result<u32, IndexError> {
        let graphs = self.of_type(name)?.graphs.iter();
        Ok(graphs.map(|graph| graph.degree).max().unwrap_or(0))
    }

    /// Returns the width of walks among entities of a type, and its recall.
    ///
    /// # Errors
    /// When the index lacks the type.
    pub(crate) fn width(
        &self,
        name: &str,
        kind: WalkKind,
        with: IndexQueryOptions,
    ) -> Result<BeamWidth, IndexError> {
        Ok(BeamWidth::of(&self.of_type(name)?.recall, kind, with))
    }

    /// Opens a partition for walks.
    ///
    /// # Errors
    /// When the index lacks its type, or it is damaged.
    pub(crate) fn part<'t>(
        &self,
        trained: &'t TrainedModel<'_>,
        (type_index, partition): TableKey,
    ) -> Result<IndexPartition<'t>, RunError> {
        let name = &trained.blueprint.layout.types[type_index].name;
        let graphs = &self.of_type(name)?.graphs;
        let missing = || IndexError::Missing {
            path: self.0.folder().to_owned(),
            how: String::new(),
        };
        let info = graphs.get(partition as usize).ok_or_else(missing)?;
        let graph = self.0.graph(info).ok_or_else(missing)?;
        let rows = trained.checkpoint.rows(name, partition)?;
        let features = trained.features()[type_index].as_ref();
        IndexPartition::new(graph, rows.ok_or_else(missing)?, features)
    }
}

/// Whether a checkpoint has an index for the comparator of its model.
#[must_use]
pub fn has_index(resolved: &ResolvedConfig) -> bool {
    let Ok(name) = indexed_name(resolved.blueprint().spec.comparator) else {
        return false;
    };
    let folder = index::folder(resolved.config().checkpoint_path.as_ref(), name);
    matches!(index::read(&folder), Ok(Some(_)))
}

/// Returns the name of a comparator for which there can be an index.
///
/// # Errors
/// When the comparator is a formula of each pair of embeddings.
fn indexed_name(comparator: Comparator) -> Result<&'static str, IndexError> {
    match comparator {
        Comparator::Dot => Ok("dot"),
        Comparator::Cos => Ok("cos"),
        Comparator::L2 => Ok("l2"),
        Comparator::SquaredL2 => Ok("squared_l2"),
        Comparator::L1 | Comparator::ComplexL1 | Comparator::Traced(_) => {
            let comparator = comparator.name().to_owned();
            Err(IndexError::NotProducts { comparator })
        }
    }
}

/// Returns the checksum of the global embedding of a type, if it has one, since it is added to every point.
fn global_crc32(trained: &TrainedModel<'_>, type_index: usize) -> Option<u32> {
    let global = trained.params.global_index(type_index)?;
    Some(row_sum(&trained.params.tensors()[global].to_vec()))
}
