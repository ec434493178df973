//! A model that answers single questions quickly, for a server: names, known edges and, if there is room, embeddings are
//! in memory, and indexes are open.
//!
//! Answers are those of the commands: the scores of [`QueryModel`](crate::QueryModel) and of
//! [`Predictor`](crate::Predictor), by the index where there is one with enough recall.

mod known_edges;
mod questions;

use std::collections::HashMap;
use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_dataset::{Dictionary, EntityId};
use pbg_kernels::rank::Ranker;
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::trained::TrainedModel;
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;

use crate::evaluate::calibration_parts::needs_beside_tables;
use crate::index::{
    ExactReason, IndexPartition, IndexQueryOptions, IndexWalker, OpenIndex, WalkKind,
};
use crate::without_operators;
use known_edges::KnownEdges;
pub use questions::{Named, RefusedQuestion, ServedAnswer};

/// Bytes of an indexed name in memory, in addition to its text.
const BYTES_PER_NAME: u64 = 40;
/// Bytes of the buffers of a thread.
const THREAD: u64 = 8 << 20;

/// Options of a served model.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Edge sets whose edges are left out of predictions.
    pub filter: Vec<String>,
    /// Options of the index; `None` to compare all entities.
    pub index: Option<IndexQueryOptions>,
    /// Number of questions that are answered at once.
    pub threads: usize,
}

/// Model with everything in memory that its answers need.
pub struct ServedModel<'a> {
    trained: TrainedModel<'a>,
    spec: Arc<ModelSpec>,
    /// Model without operators, for neighbours.
    plain_spec: Arc<ModelSpec>,
    plain_params: Params,
    dictionaries: Vec<Dictionary>,
    relations: HashMap<String, u32>,
    known: KnownEdges,
    /// Embeddings by entity type and partition; without them, rows are read from disk.
    tables: Option<Vec<Vec<Table>>>,
    index: Option<OpenIndex>,
    with: Option<IndexQueryOptions>,
}

/// Open partitions of a served model, which all threads share.
pub struct ServedPartitions<'s> {
    model: &'s ServedModel<'s>,
    /// Partitions of the index, by entity type; empty without an index.
    parts: Vec<Vec<IndexPartition<'s>>>,
    /// Beam widths of neighbours and of predictions by entity type; `None` if all entities are compared.
    widths: Vec<[Option<u32>; 2]>,
    /// Reasons why predictions of an entity type do not use the index that there is.
    reasons: Vec<Option<ExactReason>>,
}

/// How predictions of an entity type are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServedSearch<'s> {
    /// Name of the type.
    pub entity_type: &'s str,
    /// Beam width of walks in the index; `None` if all entities are compared.
    pub width: Option<u32>,
    /// Reason why the index that there is is not used.
    pub reason: Option<ExactReason>,
}

/// Buffers of a thread that answers questions of a served model.
pub struct ServedWorker {
    predictions: IndexWalker,
    neighbors: IndexWalker,
}

/// Returns the memory that a served model needs, by component, in bytes: without, and with all embeddings in memory.
///
/// # Errors
/// When the dataset lacks an edge set.
pub fn serve_needs(
    resolved: &ResolvedConfig,
    options: &ServeOptions,
) -> Result<[Vec<(String, u64)>; 2], RunError> {
    let (dataset, blueprint) = (resolved.dataset(), resolved.blueprint());
    let manifest = dataset.manifest();
    let mut needs = needs_beside_tables(resolved);
    let names = manifest.entities.values().map(|info| {
        let file = manifest.files.get(&info.file).map_or(0, |file| file.size);
        file + BYTES_PER_NAME * info.total()
    });
    needs.push(("names".to_owned(), names.sum()));
    let mut known = 0;
    for set in &options.filter {
        known += dataset.edge_set(set)?.len();
    }
    needs.push(("known edges".to_owned(), known * KnownEdges::BYTES_PER_EDGE));
    if options.index.is_some() {
        let rows = blueprint.layout.types.iter().flat_map(|of| &of.rows);
        needs.push(("checksums of the index".to_owned(), 8 * rows.sum::<u64>()));
    }
    let threads = options.threads as u64;
    needs.push((format!("{threads} threads"), threads * THREAD));
    let mut with_tables = needs.clone();
    let layout = &blueprint.layout;
    let tables = layout.all_tables().map(|(of, p)| layout.types[of].bytes(p));
    with_tables.push(("embeddings".to_owned(), tables.sum()));
    Ok([needs, with_tables])
}

impl<'a> ServedModel<'a> {
    /// Opens the trained model. Embeddings are read into memory if there is room; with an index it is also served
    /// without.
    ///
    /// # Errors
    /// As for [`TrainedModel::open`], when there is no index although one is wanted, and when there is too little memory.
    pub fn open(resolved: &'a ResolvedConfig, options: &ServeOptions) -> Result<Self, RunError> {
        let needs = serve_needs(resolved, options)?.map(|needs| memory::total(&needs));
        let [without_tables, with_tables] = needs;
        let room = memory::require("serving", with_tables, options.threads);
        let in_memory = match (&room, options.index) {
            (Err(_), Some(_)) => {
                memory::require("serving", without_tables, options.threads)?;
                false
            }
            _ => {
                room?;
                true
            }
        };
        let trained = TrainedModel::open(resolved)?;
        let index = options
            .index
            .map(|_| OpenIndex::open(&trained, trained.blueprint.spec.comparator));
        let index = index.transpose()?;
        let types = 0..trained.blueprint.layout.types.len();
        let read = |of: usize| (0..trained.partitions(of)).map(move |p| (of, p));
        let tables = match in_memory {
            false => None,
            true => {
                let tables = types.clone().map(|of| {
                    let tables = read(of).map(|(of, p)| trained.table(of, p));
                    tables.collect::<Result<Vec<_>, _>>()
                });
                Some(tables.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let dictionaries = types.map(|of| trained.dictionary(of));
        let dictionaries = dictionaries.collect::<Result<Vec<_>, _>>()?;
        let plain_spec = without_operators::spec(&trained.blueprint.spec, None);
        let names = trained.blueprint.relation_names.iter().cloned();
        let model = Self {
            spec: Arc::new(trained.blueprint.spec.clone()),
            plain_params: without_operators::params(&trained.params, &plain_spec)?,
            plain_spec: Arc::new(plain_spec),
            dictionaries,
            relations: names.zip(0..).collect(),
            known: KnownEdges::read(&trained, &options.filter)?,
            tables,
            index,
            with: options.index,
            trained,
        };
        // The first lookup of a name builds the hash index of its dictionary.
        for dictionary in &model.dictionaries {
            let _none = dictionary.find("");
        }
        Ok(model)
    }

    /// Opens the partitions.
    ///
    /// # Errors
    /// When the index lacks an entity type or is damaged.
    pub fn partitions(&'a self) -> Result<ServedPartitions<'a>, RunError> {
        let types = &self.trained.blueprint.layout.types;
        let (mut parts, mut widths, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for (of, layout) in types.iter().enumerate() {
            let (Some(index), Some(with)) = (&self.index, self.with) else {
                widths.push([None, None]);
                reasons.push(None);
                continue;
            };
            let open = |p: u32| {
                let part = index.part(&self.trained, (of, p))?;
                Ok::<_, RunError>(match &self.tables {
                    Some(tables) => part.in_memory(&tables[of][p as usize]),
                    None => part,
                })
            };
            let open = (0..self.trained.partitions(of)).map(open);
            parts.push(open.collect::<Result<Vec<_>, _>>()?);
            let width = |kind| {
                let width = index.width(&layout.name, kind, with)?;
                // Without the embeddings in memory, comparing all entities would read them all for each question.
                let is_used = width.is_used(with) || self.tables.is_none();
                Ok::<_, RunError>(match is_used {
                    true => (Some(width.width), None),
                    false => (None, Some(ExactReason::LowRecall(width))),
                })
            };
            let (predictions, reason) = width(WalkKind::Predictions)?;
            widths.push([width(WalkKind::Neighbors)?.0, predictions]);
            reasons.push(reason);
        }
        Ok(ServedPartitions {
            model: self,
            parts,
            widths,
            reasons,
        })
    }

    /// Creates the buffers of a thread.
    ///
    /// # Errors
    /// When the model breaks a rule.
    fn worker(&self) -> Result<ServedWorker, RunError> {
        let ranker =
            |spec: &Arc<ModelSpec>| IndexWalker::new(Ranker::new(Arc::clone(spec))?, spec.max_norm);
        Ok(ServedWorker {
            predictions: ranker(&self.spec)?,
            neighbors: ranker(&self.plain_spec)?,
        })
    }

    /// Returns the version of the checkpoint.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.trained.checkpoint.version()
    }

    /// Whether embeddings are in memory.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        self.tables.is_some()
    }

    /// Returns the entity types with their numbers of entities.
    #[must_use]
    pub fn entity_types(&self) -> Vec<(&str, u64)> {
        let types = self.trained.blueprint.layout.types.iter();
        let sizes = self.dictionaries.iter().map(Dictionary::len);
        types.map(|of| of.name.as_str()).zip(sizes).collect()
    }

    /// Returns the relations, each with the entity types of its sides.
    #[must_use]
    pub fn relations(&self) -> Vec<(&str, [&str; 2])> {
        let blueprint = &self.trained.blueprint;
        let names = blueprint.relation_names.iter().zip(0..);
        let name = |of: usize| blueprint.layout.types[of].name.as_str();
        let types = |relation| Side::BOTH.map(|side| name(blueprint.type_of(relation, side)));
        names
            .map(|(relation, id)| (relation.as_str(), types(id)))
            .collect()
    }

    /// Returns the name of an entity.
    fn name(&self, of: usize, id: EntityId) -> &str {
        self.dictionaries[of].name_of(id).unwrap_or_default()
    }
}
