//! A model that is open for predictions.

use std::sync::Arc;

use pbg_model::error::{RunError, SettingError};
use pbg_model::layout::TableKey;
use pbg_model::memory;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;
use pbg_model::trained::{TrainedModel, UntrainedNames};
use pbg_rows::spec::ModelSpec;

use super::needs;
use super::options::PredictOptions;
use crate::evaluate::known_answers::Filter;
use crate::evaluate::view::ModelView;
use crate::index::{BeamWidth, IndexPartition, IndexQueryOptions, OpenIndex, WalkKind};

/// Model that is open for predictions.
pub struct Predictor<'a> {
    pub(super) trained: TrainedModel<'a>,
    pub(super) spec: Arc<ModelSpec>,
    pub(super) filter: Filter,
    /// Number of entities per answer, at most the number of entities.
    pub(super) count: usize,
    /// Number of relations per answer, at most the number of relations.
    pub(super) relation_count: usize,
    pub(super) loops: bool,
    pub(super) threads: usize,
    pub(super) block_size: usize,
    pub(super) index: Option<PredictionIndex>,
    /// Whether there is memory to read tables in addition to the index.
    pub(super) room: bool,
}

/// Index that answers are found by.
pub(super) struct PredictionIndex {
    pub(super) index: OpenIndex,
    pub(super) with: IndexQueryOptions,
    pub(super) kind: WalkKind,
}

impl<'a> Predictor<'a> {
    /// Opens the trained model for predictions.
    ///
    /// # Errors
    /// As for [`TrainedModel::open`], and when an edge set cannot be read or there is too little memory.
    pub fn open(resolved: &'a ResolvedConfig, options: &PredictOptions) -> Result<Self, RunError> {
        if options.count == 0 {
            return Err(SettingError::NoCandidates.into());
        }
        let (needs, room) = needs::needs_and_room(resolved, options)?;
        let threads = options.threads.unwrap_or_else(cores).max(1);
        memory::require("prediction", memory::total(&needs), threads)?;
        let trained = TrainedModel::open(resolved)?;
        let filter = Filter::open(&ModelView::of(&trained), &options.filter, threads)?;
        let comparator = trained.blueprint.spec.comparator;
        let index = options.index.map(|with| {
            Ok::<_, RunError>(PredictionIndex {
                index: OpenIndex::open(&trained, comparator)?,
                with,
                kind: WalkKind::Predictions,
            })
        });
        Ok(Self {
            index: index.transpose()?,
            room,
            spec: Arc::new(trained.blueprint.spec.clone()),
            count: needs::count(resolved, options),
            relation_count: (options.count as usize).min(trained.blueprint.relation_names.len()),
            block_size: needs::block(resolved, options),
            filter,
            loops: options.loops,
            threads,
            trained,
        })
    }
}

impl Predictor<'_> {
    /// Returns the names of the dataset that the model has no embedding for; they are not candidates.
    #[must_use]
    pub fn missing(&self) -> &UntrainedNames {
        &self.trained.missing
    }

    /// Returns the best number of questions to ask together, and the largest number of bytes of their text.
    #[must_use]
    pub fn at_once(&self) -> (usize, usize) {
        (self.block_size, needs::TEXT)
    }

    /// Returns the width of walks among the entities of a type.
    pub(super) fn width(&self, type_index: usize) -> Result<BeamWidth, RunError> {
        let name = &self.trained.blueprint.layout.types[type_index].name;
        let PredictionIndex { index, with, kind } = self.indexed()?;
        Ok(index.width(name, *kind, *with)?)
    }

    /// Opens a partition of the index.
    pub(super) fn part(&self, key: TableKey) -> Result<IndexPartition<'_>, RunError> {
        self.indexed()?.index.part(&self.trained, key)
    }

    fn indexed(&self) -> Result<&PredictionIndex, RunError> {
        self.index.as_ref().ok_or(RunError::NoIndex)
    }
}
