//! Counts the candidates of one table above and equal to the true entities.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pbg_kernels::rank::{self, Ranker};
use pbg_model::crew::{self, Crew};
use pbg_model::error::RunError;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;

use super::block::QueryGroup;
use super::known_answers::{GRANULE, KnownAnswers};
use super::stats::CandidateCounts;
use super::view::ModelView;
/// Number of queries from which the cost of preparing a block of candidates is negligible.
const MANY: usize = 320 * GRANULE;
/// Tasks per thread, so that no thread waits long for the last task.
const TASKS: usize = 4;

/// Candidates of one partition.
pub(super) struct CandidateTable<'c> {
    pub(super) table: &'c Table,
    pub(super) partition: u32,
    pub(super) offsets: CandidateOffsets<'c>,
}

/// Rows of a table that are candidates.
#[derive(Clone, Copy)]
pub(super) enum CandidateOffsets<'c> {
    /// This many rows from the first on.
    All(u32),
    /// The rows at these offsets, in ascending order.
    Some(&'c [u32]),
}

impl CandidateOffsets<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(count) => *count as usize,
            Self::Some(offsets) => offsets.len(),
        }
    }

    fn part(&self, part: Range<usize>) -> Vec<u32> {
        match self {
            Self::All(_) => (part.start as u32..part.end as u32).collect(),
            Self::Some(offsets) => offsets[part].to_vec(),
        }
    }
}

/// Queries of a group that are compared with a block, and their division into tasks.
struct GroupShare<'g> {
    group: &'g QueryGroup,
    queries: Range<usize>,
    /// Number of queries of a task.
    step: usize,
    /// Number of its first task.
    first: usize,
}

/// Compares a block with those queries of `groups` whose granules are in `answers`.
pub(super) fn count<'g>(
    view: &ModelView<'_>,
    spec: &Arc<ModelSpec>,
    groups: impl Iterator<Item = &'g QueryGroup>,
    block: &CandidateTable<'_>,
    answers: &KnownAnswers,
    threads: usize,
) -> Result<(), RunError> {
    let blocks = block.offsets.len().div_ceil(rank::CANDIDATE_BLOCK);
    let mut shares: Vec<GroupShare<'g>> = Vec::new();
    let mut tasks = 0;
    for group in groups {
        let queries = group.within(&answers.granules);
        if queries.is_empty() || blocks == 0 {
            continue;
        }
        let parts = (TASKS * threads).div_ceil(blocks);
        let step = queries.len().div_ceil(parts).max(MANY);
        let step = step.next_multiple_of(GRANULE);
        shares.push(GroupShare {
            group,
            step,
            first: tasks,
            queries: queries.clone(),
        });
        tasks += blocks * queries.len().div_ceil(step);
    }
    let counting = Counting {
        view,
        spec,
        block,
        answers,
        shares,
        tasks,
        next: AtomicUsize::new(0),
    };
    let jobs = (0..threads.min(tasks)).map(|_| |crew: &Crew| counting.work(crew));
    crew::run_jobs(jobs, || ())?;
    Ok(())
}

/// State that all counting threads share.
struct Counting<'c, 'g> {
    view: &'c ModelView<'c>,
    spec: &'c Arc<ModelSpec>,
    block: &'c CandidateTable<'c>,
    answers: &'c KnownAnswers,
    shares: Vec<GroupShare<'g>>,
    tasks: usize,
    next: AtomicUsize,
}

impl Counting<'_, '_> {
    /// Carries out tasks until none is left. A task compares a block of candidates, which stays in the cache, with a
    /// range of queries.
    fn work(&self, crew: &Crew) -> Result<(), RunError> {
        let mut ranker = Ranker::new(Arc::clone(self.spec))?;
        let mut block = rank::CandidateBlock::default();
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= self.tasks || crew.has_failed() {
                return Ok(());
            }
            let share = self.shares.partition_point(|share| share.first <= task) - 1;
            let share = &self.shares[share];
            let parts = share.queries.len().div_ceil(share.step);
            let (at, part) = ((task - share.first) / parts, (task - share.first) % parts);
            let first = at * rank::CANDIDATE_BLOCK;
            let last = (first + rank::CANDIDATE_BLOCK).min(self.block.offsets.len());
            let offsets = self.block.offsets.part(first..last);
            let rows = self.block.table.gather(&offsets, self.spec.max_norm);
            let rows = Table::new(rows, self.block.table.embeddings.width());
            let replacement = self.view.replaced(share.group.side, share.group.relation);
            ranker.candidates(replacement, 0..offsets.len(), &rows, &mut block);
            let start = share.queries.start + part * share.step;
            let end = (start + share.step).min(share.queries.end);
            for first in (start..end).step_by(Ranker::query_step()) {
                let queries = first..(first + Ranker::query_step()).min(end);
                let scores = ranker.scores(&share.group.queries, queries.clone(), &block);
                for (query, scores) in queries.zip(scores.chunks_exact(offsets.len())) {
                    self.tally(share.group, query, scores, &offsets);
                }
            }
        }
    }

    /// Counts the candidates `offsets` relative to the true entity of a query.
    fn tally(&self, group: &QueryGroup, query: usize, scores: &[f32], offsets: &[u32]) {
        let positive = group.positives[query];
        let counted = |offset: u32| {
            let at = offsets.binary_search(&offset).ok()?;
            Some(CandidateCounts::among(positive, &scores[at..=at]))
        };
        let (partition, positive_offset) = group.positive_entities[query];
        let here = partition == self.block.partition;
        let mut raw = CandidateCounts::among(positive, scores);
        if let Some(itself) = counted(positive_offset).filter(|_| here) {
            raw = raw.without(itself);
        }
        let mut known = CandidateCounts::default();
        if let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) {
            let within = u64::from(first)..u64::from(last) + 1;
            let answers = self.answers.of(group.questions[query], within);
            for answer in answers.filter(|&answer| !(here && answer == positive_offset)) {
                if let Some(counted) = counted(answer) {
                    known.add(counted);
                }
            }
        }
        group.counts[query].add(raw, known);
    }
}
