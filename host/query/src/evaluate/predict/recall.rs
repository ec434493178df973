//! Recall of walks over an index.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_core::graph::Side;
use pbg_model::error::RunError;
use pbg_model::trained::TrainedModel;

use super::compare;
use super::predictor::{PredictionIndex, Predictor};
use super::question::ResolvedQuestion;
use super::top_k::ScoredAnswer;
use crate::evaluate::edges::RankedEdgeReader;
use crate::evaluate::known_answers::{self, Filter};
use crate::evaluate::view::{CommittedTables, ModelView};
use crate::index::{IndexQueryOptions, OpenIndex, WalkKind};

/// Number of best entities that are searched.
const BEST: usize = 10;

/// Model whose index is measured.
pub(crate) struct RecallMeasurement<'a>(Predictor<'a>);

impl<'a> RecallMeasurement<'a> {
    /// Creates a measurement of `trained` on `threads` threads.
    ///
    /// # Errors
    /// Never, as long as no edges are read.
    pub(crate) fn new(
        trained: TrainedModel<'a>,
        kind: WalkKind,
        threads: usize,
    ) -> Result<Self, RunError> {
        let filter = Filter::open(&ModelView::of(&trained), &[], threads)?;
        Ok(Self(Predictor {
            spec: Arc::new(trained.blueprint.spec.clone()),
            count: BEST,
            relation_count: BEST,
            block_size: usize::MAX,
            filter,
            // An entity is not its own neighbour.
            loops: kind == WalkKind::Predictions,
            threads,
            trained,
            index: None,
            room: true,
        }))
    }

    /// Draws `count` edges of `set` by `seed`, and returns questions for both of their sides.
    ///
    /// # Errors
    /// When the edges cannot be read.
    pub(crate) fn questions(
        &self,
        set: &str,
        count: usize,
        seed: u64,
    ) -> Result<Vec<ResolvedQuestion>, RunError> {
        let view = ModelView::of(&self.0.trained);
        let set = view.dataset.edge_set(set)?;
        let mut edges = Vec::new();
        RankedEdgeReader::new(view, &set, Some(count), seed)?.next(count, &mut edges)?;
        let asked = edges.iter().flat_map(|edge| {
            Side::BOTH.map(|open| ResolvedQuestion {
                open,
                relation: edge.rel,
                known: known_answers::entity(&view, edge, open.other()),
            })
        });
        Ok(asked.collect())
    }

    /// Returns the entity type that a question asks for.
    pub(crate) fn type_of(&self, asked: &ResolvedQuestion) -> usize {
        let blueprint = &self.0.trained.blueprint;
        blueprint.type_of(asked.relation, asked.open)
    }

    /// Returns the entity type that a question knows.
    pub(crate) fn known_type(&self, asked: &ResolvedQuestion) -> usize {
        let blueprint = &self.0.trained.blueprint;
        blueprint.type_of(asked.relation, asked.open.other())
    }

    /// Returns the recall of walks over `index` among the best answers to `questions`, for each of `widths`.
    ///
    /// # Errors
    /// When tables cannot be read, a score is not finite, or `stop` is set.
    pub(crate) fn recall(
        mut self,
        questions: &[ResolvedQuestion],
        index: &OpenIndex,
        widths: &[u32],
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<f64>, RunError> {
        let exact = self.answers(questions, stop, &mut |share| progress(share / 2.0))?;
        let mut recall = Vec::with_capacity(widths.len());
        for (at, &width) in (0_u32..).zip(widths) {
            self.0.index = Some(PredictionIndex {
                index: index.clone(),
                with: IndexQueryOptions { width: Some(width) },
                kind: WalkKind::Neighbors,
            });
            let found = self.answers(questions, stop, &mut |_| {})?;
            recall.push(share(&exact, &found));
            progress(0.5 + f64::from(at + 1) / widths.len() as f64 / 2.0);
        }
        Ok(recall)
    }

    fn answers(
        &self,
        questions: &[ResolvedQuestion],
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<ScoredAnswer>, RunError> {
        let tables = &mut CommittedTables::new(&self.0.trained);
        let view = ModelView::of(&self.0.trained);
        compare::run(&self.0, &view, tables, questions, stop, progress)
    }
}

/// Returns the fraction of the `exact` answers that were found. Entities with equal scores are equally good.
fn share(exact: &[ScoredAnswer], found: &[ScoredAnswer]) -> f64 {
    let (mut hits, mut all) = (0, 0);
    for (exact, found) in exact.iter().zip(found) {
        let last = exact.best.last().map_or(f32::INFINITY, |(_, score)| *score);
        let good = found.best.iter().filter(|(_, score)| *score >= last);
        hits += good.count();
        all += exact.best.len();
    }
    match all {
        0 => 1.0,
        all => hits as f64 / all as f64,
    }
}
