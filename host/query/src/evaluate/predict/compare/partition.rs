//! Compares questions with the candidates of a partition.

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pbg_dataset::EntityId;
use pbg_kernels::rank::{self, Ranker};
use pbg_model::crew::{self, Crew};
use pbg_model::error::RunError;
use pbg_rows::table::Table;

use super::question_group::QuestionGroup;
use crate::evaluate::known_answers::{KnownAnswers, queries_within};
use crate::evaluate::predict::predictor::Predictor;
use crate::evaluate::predict::top_k::ScoredCandidate;
use crate::evaluate::view::{ModelView, TableSource};

/// Tasks per thread, so that no thread waits long for the last task.
const TASKS: usize = 4;

/// Questions that are compared with the candidates of one partition of a type.
pub(super) struct QuestionsAgainstRows<'c> {
    pub(super) predictor: &'c Predictor<'c>,
    pub(super) view: &'c ModelView<'c>,
    pub(super) groups: &'c [QuestionGroup],
    pub(super) key: (usize, u32),
    pub(super) answers: &'c KnownAnswers,
    pub(super) stop: &'c AtomicBool,
}

/// Queries of a group that are compared with a block of candidates.
struct Task<'g> {
    group: &'g QuestionGroup,
    queries: Range<usize>,
    /// Number of the block.
    block: usize,
}

impl QuestionsAgainstRows<'_> {
    /// Returns the groups whose candidates are of the type, with their queries.
    pub(super) fn asked(&self) -> Vec<(&QuestionGroup, Range<usize>)> {
        let (entity, partition) = self.key;
        let granules = &self.answers.granules;
        let rows = &self.view.blueprint.layout.types[entity].rows;
        let there = (partition as usize) < rows.len();
        let groups = self.groups.iter().filter(|group| group.entity == entity);
        let asked = groups.map(|group| {
            let (first, count) = (group.first_granule, group.places.len());
            (group, queries_within(granules, first, count))
        });
        asked
            .filter(|(_, queries)| there && !queries.is_empty())
            .collect()
    }

    /// Compares the candidates on all threads. A table that no question needs is not read.
    pub(super) fn run(&self, tables: &mut dyn TableSource) -> Result<(), RunError> {
        let asked = self.asked();
        if asked.is_empty() {
            return Ok(());
        }
        let table = tables.table(self.key)?;
        let blocks = table.entities().div_ceil(rank::CANDIDATE_BLOCK);
        let threads = self.predictor.threads;
        let parts = (TASKS * threads).div_ceil(blocks.max(1));
        let mut tasks = Vec::new();
        for (group, queries) in asked {
            let step = queries.len().div_ceil(parts);
            let step = step.next_multiple_of(Ranker::query_step());
            for block in 0..blocks {
                tasks.extend(queries.clone().step_by(step).map(|first| Task {
                    group,
                    queries: first..(first + step).min(queries.end),
                    block,
                }));
            }
        }
        let next = AtomicUsize::new(0);
        on_threads(threads.min(tasks.len()), &|crew| {
            self.work(&tasks, &next, table, crew)
        })
    }

    /// Carries out tasks until none is left.
    fn work(
        &self,
        tasks: &[Task<'_>],
        next: &AtomicUsize,
        table: &Table,
        crew: &Crew,
    ) -> Result<(), RunError> {
        let mut ranker = Ranker::new(self.predictor.spec.clone())?;
        let mut block = rank::CandidateBlock::default();
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            if crew.has_failed() {
                return Ok(());
            }
            let first = task.block * rank::CANDIDATE_BLOCK;
            let offsets =
                first as u32..(first + rank::CANDIDATE_BLOCK).min(table.entities()) as u32;
            let count = offsets.len();
            // Gathers the rows as evaluation does: features are averaged before anything else.
            let max_norm = self.predictor.spec.max_norm;
            let rows = table.gather(&offsets.clone().collect::<Vec<_>>(), max_norm);
            let rows = Table::new(rows, table.embeddings.width());
            let replacement = self.view.replaced(task.group.side, task.group.relation);
            ranker.candidates(replacement, 0..count, &rows, &mut block);
            for first in task.queries.clone().step_by(Ranker::query_step()) {
                let queries = first..(first + Ranker::query_step()).min(task.queries.end);
                let scores = ranker.scores(&task.group.queries, queries.clone(), &block);
                for (query, scores) in queries.zip(scores.chunks_exact(count)) {
                    self.keep(task.group, query, scores, &offsets)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps the best of the candidates `offsets` that do not make a known edge.
    fn keep(
        &self,
        group: &QuestionGroup,
        query: usize,
        scores: &[f32],
        offsets: &Range<u32>,
    ) -> Result<(), RunError> {
        if !scores.iter().all(|score| score.is_finite()) {
            return Err(RunError::NotComparable {
                question: group.places[query],
            });
        }
        let (entity, partition) = self.key;
        let within = u64::from(offsets.start)..u64::from(offsets.end);
        let mut known = self.answers.of(group.numbers[query], within).peekable();
        let best = group.best[query].lock();
        let mut best = best.unwrap_or_else(PoisonError::into_inner);
        for (offset, &score) in offsets.clone().zip(scores) {
            if known.next_if_eq(&offset).is_some() {
                best.leave_out();
                continue;
            }
            if group.excluded[query] == Some((partition, offset)) {
                continue;
            }
            let id = EntityId { partition, offset };
            // An entity whose features were all added later has a position in the table but no embedding.
            if self.view.grown.is_none() || self.predictor.trained.has(entity, id) {
                best.add(ScoredCandidate { score, id });
            }
        }
        Ok(())
    }
}

/// Runs `work` on `threads` threads. The first failure ends all of them.
pub(super) fn on_threads(
    threads: usize,
    work: &(dyn Fn(&Crew) -> Result<(), RunError> + Sync),
) -> Result<(), RunError> {
    crew::run_jobs((0..threads).map(|_| work), || ())?;
    Ok(())
}
