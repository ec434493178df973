//! Compares questions with the candidates that an index finds.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use pbg_core::graph::Side;
use pbg_dataset::EntityId;
use pbg_kernels::rank::{PreparedQueries, Ranker};
use pbg_kernels::step::BatchRelations;
use pbg_model::error::RunError;
use pbg_model::layout::TableKey;

use super::partition::{QuestionsAgainstRows, on_threads};
use super::question_group::{QuestionGroup, read_known};
use crate::evaluate::block::{BlockEmbeddings, ReadRows};
use crate::evaluate::predict::predictor::Predictor;
use crate::evaluate::predict::question::ResolvedQuestion;
use crate::evaluate::predict::top_k::ScoredCandidate;
use crate::evaluate::view::{ModelView, TableSource};
use crate::index::{IndexPartition, IndexWalker};

/// Copies the embeddings of the questions' known entities, and reads no other rows.
pub(super) fn read(
    predictor: &Predictor<'_>,
    view: &ModelView<'_>,
    questions: &[ResolvedQuestion],
) -> Result<BlockEmbeddings, RunError> {
    read_known(view, questions, &mut row_reader(predictor))
}

/// Returns a reader of single rows, which the index verifies.
pub(super) fn row_reader<'p>(
    predictor: &'p Predictor<'_>,
) -> impl FnMut(TableKey, &[u32]) -> ReadRows + 'p {
    let mut bytes = Vec::new();
    let mut open = None;
    move |key, offsets| {
        let part = match open.take() {
            Some((of, part)) if of == key => part,
            _ => predictor.part(key)?,
        };
        let rows = part.gather(offsets, predictor.spec.max_norm, &mut bytes);
        open = Some((key, part));
        rows
    }
}

impl QuestionsAgainstRows<'_> {
    /// Walks for each question, on all threads. With `tables`, the walks use rows in memory.
    pub(super) fn walk(
        &self,
        rows: &BlockEmbeddings,
        questions: &[ResolvedQuestion],
        tables: Option<&mut (dyn TableSource + '_)>,
    ) -> Result<(), RunError> {
        let asked = self.asked();
        if asked.is_empty() {
            return Ok(());
        }
        let queries = asked.into_iter();
        let tasks: Vec<(&QuestionGroup, usize)> = queries
            .flat_map(|(group, queries)| queries.map(move |query| (group, query)))
            .collect();
        let part = self.predictor.part(self.key)?;
        let part = match tables {
            Some(tables) => part.in_memory(tables.table(self.key)?),
            None => part,
        };
        let width = self.predictor.width(self.key.0)?.width;
        let next = AtomicUsize::new(0);
        on_threads(self.predictor.threads.min(tasks.len()), &|crew| {
            let ranker = Ranker::new(self.predictor.spec.clone())?;
            let mut walks = IndexWalker::new(ranker, self.predictor.spec.max_norm)?;
            let mut query = PreparedQueries::default();
            while let Some(&(group, at)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(RunError::Interrupted);
                }
                if crew.has_failed() {
                    return Ok(());
                }
                let asked = &questions[group.places[at]];
                self.ask(&mut walks, group.side, rows, asked, &mut query);
                self.keep_found(&mut walks, (&part, width), (group, at), &query)?;
            }
            Ok(())
        })
    }

    /// Computes the query of a question.
    fn ask(
        &self,
        walks: &mut IndexWalker,
        side: Side,
        rows: &BlockEmbeddings,
        asked: &ResolvedQuestion,
        query: &mut PreparedQueries,
    ) {
        let known = self.view.blueprint.type_of(asked.relation, side.other());
        let rows = &rows.types[known];
        let known = [rows.row_of(asked.known)];
        let relation = BatchRelations::One(asked.relation);
        let (table, params) = (&rows.table, self.view.params);
        let ranker = walks.ranker();
        ranker.queries(side, &known, relation, table, params, query);
    }

    /// Keeps the best entities that a walk finds and that do not make a known edge. The width is increased by the
    /// number of entities that are left out.
    fn keep_found(
        &self,
        walks: &mut IndexWalker,
        (part, width): (&IndexPartition<'_>, u32),
        (group, at): (&QuestionGroup, usize),
        query: &PreparedQueries,
    ) -> Result<(), RunError> {
        let (entity, partition) = self.key;
        let within = 0..u64::from(part.points());
        let known: Vec<u32> = self.answers.of(group.numbers[at], within).collect();
        let wanted = self.predictor.count + known.len() + 1;
        let replacement = self.view.replaced(group.side, group.relation);
        let width = width.max(wanted.min(part.points() as usize) as u32);
        let found = walks.best(part, replacement, query, group.places[at], width)?;
        let best = group.best[at].lock();
        let mut best = best.unwrap_or_else(PoisonError::into_inner);
        known.iter().for_each(|_| best.leave_out());
        for (offset, score) in found {
            let id = EntityId { partition, offset };
            let is_left_out = known.binary_search(&offset).is_ok()
                || group.excluded[at] == Some((partition, offset));
            if !is_left_out && (self.view.grown.is_none() || self.predictor.trained.has(entity, id))
            {
                best.add(ScoredCandidate { score, id });
            }
        }
        Ok(())
    }
}
