//! Compares questions with all candidates, partition by partition, or with those that an index finds.

mod walk;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pbg_core::graph::Side;
use pbg_dataset::EntityId;
use pbg_kernels::rank::{self, PreparedQueries, Ranker};
use pbg_kernels::step::BatchRelations;
use pbg_model::crew::{self, Crew};
use pbg_model::error::RunError;
use pbg_model::layout::TableKey;
use pbg_rows::table::Table;

use crate::evaluate::block::{BlockEmbeddings, PART, ReadRows, from_tables, group_of};
use crate::evaluate::known_answers::{
    EntityKey, GRANULE, Granule, KnownAnswers, QuestionNumbers, queries_within,
};
use crate::evaluate::view::{ModelView, TableSource};

use super::search_plan::SearchPlan;
use super::top_k::{ScoredAnswer, ScoredCandidate, TopK};
use super::{Predictor, ResolvedQuestion};
/// Tasks per thread, so that no thread waits long for the last task.
const TASKS: usize = 4;

/// Questions about one side that have the same candidate rows, prepared in the same way.
struct QuestionGroup {
    side: Side,
    /// Entity type of the candidates.
    entity: usize,
    /// Relation of the group; the only one if the candidates depend on the relation.
    relation: u32,
    /// Positions of the questions in their block, sorted by question.
    places: Vec<usize>,
    /// Question numbers. Equal questions have the same number.
    numbers: Vec<u32>,
    /// The known entity of each question, if it must not be its own answer.
    excluded: Vec<Option<EntityKey>>,
    queries: PreparedQueries,
    best: Vec<Mutex<TopK>>,
    /// Number of the first granule of its queries in the block.
    first_granule: usize,
}

/// Answers `questions`, in their order.
pub(super) fn run(
    predictor: &Predictor<'_>,
    view: &ModelView<'_>,
    tables: &mut dyn TableSource,
    questions: &[ResolvedQuestion],
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Vec<ScoredAnswer>, RunError> {
    let mut numbers = QuestionNumbers::default();
    let mut groups = sort(predictor, view, questions, &mut numbers);
    let granules = groups
        .iter()
        .flat_map(|group| Granule::divide(&group.numbers));
    let granules: Vec<Granule> = granules.collect();
    let way = predictor.way(questions)?;
    let rows = match way {
        SearchPlan::All => {
            let rows = read(view, questions, &mut from_tables(view, tables))?;
            let mut ranker = Ranker::new(predictor.spec.clone())?;
            for group in &mut groups {
                group.prepare(view, &rows, questions, &mut ranker);
            }
            None
        }
        // Walks compute the query of each question themselves.
        SearchPlan::Walks | SearchPlan::WalksInMemory => {
            Some(walk::read(predictor, view, questions)?)
        }
    };
    let types = &view.blueprint.layout.types;
    let partitions = types.iter().map(|t| t.rows.len() as u32).max().unwrap_or(0);
    // The partition that was read last comes first.
    for partition in (0..partitions).rev() {
        let mut first = 0;
        while first < granules.len() {
            let filter = &predictor.filter;
            let answers = filter.answers(view, &numbers, &granules, first, partition)?;
            for entity in 0..types.len() {
                let comparison = QuestionsAgainstRows {
                    predictor,
                    view,
                    groups: &groups,
                    key: (entity, partition),
                    answers: &answers,
                    stop,
                };
                match &rows {
                    None => comparison.run(tables)?,
                    Some(rows) => {
                        let tables = (way == SearchPlan::WalksInMemory).then_some(&mut *tables);
                        comparison.walk(rows, questions, tables)?;
                    }
                }
            }
            first = answers.granules.end;
        }
        progress(f64::from(partitions - partition) / f64::from(partitions));
    }
    let mut found: Vec<(usize, ScoredAnswer)> =
        groups.into_iter().flat_map(QuestionGroup::finish).collect();
    found.sort_unstable_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, found)| found).collect())
}

/// Groups questions and numbers them in the order of the groups' queries.
fn sort(
    predictor: &Predictor<'_>,
    view: &ModelView<'_>,
    questions: &[ResolvedQuestion],
    numbers: &mut QuestionNumbers,
) -> Vec<QuestionGroup> {
    let mut members = BTreeMap::<_, Vec<usize>>::new();
    for (place, asked) in questions.iter().enumerate() {
        let (entity, relation) = group_of(view, asked.relation, asked.open);
        let key = (entity, relation, asked.open as usize);
        members.entry(key).or_default().push(place);
    }
    let mut first_granule = 0;
    let group = |((entity, _, side), mut places): ((usize, Option<u32>, usize), Vec<usize>)| {
        let side = Side::BOTH[side];
        let question = |&place: &usize| (questions[place].relation, questions[place].known);
        places.sort_by_key(question);
        let numbers = places.iter().map(|at| numbers.number(side, question(at)));
        let relation = questions[places[0]].relation;
        let known = view.blueprint.type_of(relation, side.other());
        let itself = |&place: &usize| {
            let is_candidate = known == entity && !predictor.loops;
            is_candidate.then_some(questions[place].known)
        };
        let none = || Mutex::new(TopK::new(predictor.count));
        let group = QuestionGroup {
            side,
            entity,
            relation,
            numbers: numbers.collect(),
            excluded: places.iter().map(itself).collect(),
            queries: PreparedQueries::default(),
            best: places.iter().map(|_| none()).collect(),
            first_granule,
            places,
        };
        first_granule += group.places.len().div_ceil(GRANULE);
        group
    };
    members.into_iter().map(group).collect()
}

/// Copies the embeddings of the questions' known entities.
fn read(
    view: &ModelView<'_>,
    questions: &[ResolvedQuestion],
    read: &mut dyn FnMut(TableKey, &[u32]) -> ReadRows,
) -> Result<BlockEmbeddings, RunError> {
    let blueprint = view.blueprint;
    let mut wanted: Vec<Vec<EntityKey>> = vec![Vec::new(); blueprint.layout.types.len()];
    for asked in questions {
        let known = blueprint.type_of(asked.relation, asked.open.other());
        wanted[known].push(asked.known);
    }
    BlockEmbeddings::gather(view, wanted, read)
}

impl QuestionGroup {
    /// Computes the queries.
    fn prepare(
        &mut self,
        view: &ModelView<'_>,
        rows: &BlockEmbeddings,
        questions: &[ResolvedQuestion],
        ranker: &mut Ranker,
    ) {
        let known = view.blueprint.type_of(self.relation, self.side.other());
        let rows = &rows.types[known];
        let width = rows.table.embeddings.width();
        self.queries = PreparedQueries::with_capacity(self.places.len(), width);
        let mut part = PreparedQueries::default();
        for places in self.places.chunks(PART) {
            let asked = places.iter().map(|&place| &questions[place]);
            let relations: Vec<u32> = asked.clone().map(|asked| asked.relation).collect();
            let known: Vec<u32> = asked.map(|asked| rows.row_of(asked.known)).collect();
            let relations = BatchRelations::PerEdge(&relations);
            let params = view.params;
            ranker.queries(self.side, &known, relations, &rows.table, params, &mut part);
            self.queries.append(&part);
        }
    }

    /// Returns the answers, each with the position of its question.
    fn finish(self) -> impl Iterator<Item = (usize, ScoredAnswer)> {
        let entity = self.entity;
        let answers = self.places.into_iter().zip(self.best);
        answers.map(move |(place, best)| {
            let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
            (place, best.finish(entity))
        })
    }
}

/// Questions that are compared with the candidates of one partition of a type.
struct QuestionsAgainstRows<'c> {
    predictor: &'c Predictor<'c>,
    view: &'c ModelView<'c>,
    groups: &'c [QuestionGroup],
    key: (usize, u32),
    answers: &'c KnownAnswers,
    stop: &'c AtomicBool,
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
    fn asked(&self) -> Vec<(&QuestionGroup, Range<usize>)> {
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
    fn run(&self, tables: &mut dyn TableSource) -> Result<(), RunError> {
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
fn on_threads(
    threads: usize,
    work: &(dyn Fn(&Crew) -> Result<(), RunError> + Sync),
) -> Result<(), RunError> {
    crew::run_jobs((0..threads).map(|_| work), || ())?;
    Ok(())
}
