//! Known answers of questions, which filtered ranks leave out.
//!
//! The filter edges are read one record batch at a time, and only those that answer a question of the block are kept.
//! Where the answers exceed the available memory, the block's queries are counted in several rounds, and the filter
//! edges are read once for each round.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::FixedState;
use pbg_core::graph::{Bucket, EdgeColumns, Side};
use pbg_dataset::EdgeSet;
use pbg_model::crew::{self, Crew};
use pbg_model::error::RunError;
use pbg_model::model_bytes::READ_ROWS;

use super::ranked_edge::RankedEdge;
use super::view::ModelView;

/// Number of answers for which there is always room.
const ROOM: usize = 4 << 20;
/// Smallest number of edges that a thread compares with questions.
const SHARE: usize = 1 << 14;
/// Number of queries that are always counted together.
pub(super) const GRANULE: usize = pbg_kernels::rank::PreparedQueries::GROUP;

/// Entity of a known type: partition and offset.
pub(crate) type EntityKey = (u32, u32);

/// Question about a side: the relation, and the entity on the other side.
pub(super) type QuestionKey = (u32, EntityKey);

/// Questions of a block, numbered in the order of its queries.
#[derive(Default)]
pub(super) struct QuestionNumbers {
    /// Numbers by question, for each side.
    numbers: [HashMap<QuestionKey, u32, FixedState>; 2],
    count: u32,
}

impl QuestionNumbers {
    /// Returns the number of a question; a new question receives the next one.
    pub(super) fn number(&mut self, side: Side, question: QuestionKey) -> u32 {
        *self.numbers[side as usize]
            .entry(question)
            .or_insert_with(|| {
                self.count += 1;
                self.count - 1
            })
    }
}

/// Queries that are always counted together, with their first and last question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granule {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Granule {
    /// Divides the questions `numbers` of a group's queries into granules.
    pub(super) fn divide(numbers: &[u32]) -> impl Iterator<Item = Self> + '_ {
        numbers.chunks(GRANULE).map(|part| Self {
            first: part[0],
            last: part[part.len() - 1],
        })
    }
}

/// Returns those of a group's `count` queries whose granules are in `granules`. The group begins with granule `first`.
pub(super) fn queries_within(granules: &Range<usize>, first: usize, count: usize) -> Range<usize> {
    let place = |granule: usize| (granule.saturating_sub(first) * GRANULE).min(count);
    place(granules.start)..place(granules.end)
}

/// Known answers of one partition to the questions of some granules.
#[derive(Debug)]
pub(super) struct KnownAnswers {
    /// Question number and offset of each answer, in ascending order.
    entries: Vec<u64>,
    /// The granules.
    pub(super) granules: Range<usize>,
    /// Number of the first question. `starts` has the start of its answers and of those of the following questions.
    first: u32,
    starts: Vec<usize>,
}

impl KnownAnswers {
    /// Returns the offsets of the answers to `question` that lie in `within`.
    pub(super) fn of(&self, question: u32, within: Range<u64>) -> impl Iterator<Item = u32> + '_ {
        let at = (question - self.first) as usize;
        let ends = self.starts.get(at).zip(self.starts.get(at + 1));
        let all = ends.map_or(&[][..], |(&start, &end)| &self.entries[start..end]);
        let offset = |entry: &u64| *entry & u64::from(u32::MAX);
        let from = all.partition_point(|entry| offset(entry) < within.start);
        let to = all.partition_point(|entry| offset(entry) < within.end);
        all[from..to].iter().map(|&entry| entry as u32)
    }

    /// Creates the answers from sorted `entries` for the questions of the granules `part`.
    fn new(entries: Vec<u64>, granules: &[Granule], part: Range<usize>) -> Self {
        let mut starts = Vec::new();
        let questions = questions(&granules[part.clone()]);
        let first = questions.start;
        let mut at = 0;
        for question in questions {
            starts.push(at);
            let answers = entries[at..].iter();
            let own = answers.take_while(|&entry| entry >> 32 == u64::from(question));
            at += own.count();
        }
        starts.push(at);
        Self {
            entries,
            granules: part,
            first,
            starts,
        }
    }
}

/// Edge sets whose edges are not wrong answers.
pub(crate) struct Filter {
    sets: Vec<EdgeSet>,
    most: usize,
    threads: usize,
}

/// Returns the room for answers, in entries. It is so large that the answers of a granule, which has at most as many
/// questions as queries, need no more than half of it.
pub(super) fn most_entries(filter_edges: u64, most_entities: u64) -> usize {
    let matches = filter_edges.saturating_mul(2) as usize;
    let granules = 2 * GRANULE * most_entities as usize;
    ROOM.max(granules).min(matches)
}

impl Filter {
    pub(crate) fn open(
        view: &ModelView<'_>,
        names: &[String],
        threads: usize,
    ) -> Result<Self, RunError> {
        let sets = names.iter().map(|name| view.dataset.edge_set(name));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let tables = view.blueprint.layout.all_tables();
        let most = tables.map(|key| view.entities(key)).max().unwrap_or(0);
        let edges = sets.iter().map(EdgeSet::len).sum();
        Ok(Self {
            most: most_entries(edges, most),
            sets,
            threads,
        })
    }

    /// Calls `visit` for every edge whose parts the model has, in those buckets of the sets that `wanted` selects.
    pub(crate) fn visit(
        &self,
        view: &ModelView<'_>,
        wanted: &dyn Fn(Bucket) -> bool,
        visit: &mut dyn FnMut(&RankedEdge),
    ) -> Result<(), RunError> {
        let mut edges = EdgeColumns::default();
        for set in &self.sets {
            let buckets = set.filled_buckets().into_iter();
            for bucket in buckets.filter(|&bucket| wanted(bucket)) {
                let len = set.bucket_len(bucket);
                for start in (0..len).step_by(READ_ROWS as usize) {
                    set.read_into(bucket, start..len.min(start + READ_ROWS), &mut edges)?;
                    let all = (0..edges.len()).map(|i| RankedEdge::of(bucket, &edges, i));
                    all.filter(|edge| view.is_trained(edge))
                        .for_each(|edge| visit(&edge));
                }
            }
        }
        Ok(())
    }

    /// Returns the answers in partition `partition` of any type to the questions of `granules` from `first` on, for as
    /// many granules as there is room for.
    pub(super) fn answers(
        &self,
        view: &ModelView<'_>,
        questions: &QuestionNumbers,
        granules: &[Granule],
        first: usize,
        partition: u32,
    ) -> Result<KnownAnswers, RunError> {
        let mut collected = AnswerCollector::new(granules, first, self.most);
        let mut matched = Vec::new();
        let mut edges = EdgeColumns::default();
        for (set, bucket) in self.sets.iter().flat_map(|set| {
            let buckets = set.filled_buckets().into_iter();
            buckets.map(move |bucket| (set, bucket))
        }) {
            if !answers_in(view, bucket, partition) {
                continue;
            }
            let len = set.bucket_len(bucket);
            for start in (0..len).step_by(READ_ROWS as usize) {
                set.read_into(bucket, start..len.min(start + READ_ROWS), &mut edges)?;
                let matching = Matching {
                    view,
                    questions,
                    asked: collected.asked(),
                    bucket,
                    partition,
                    edges: &edges,
                };
                matching.find(self.threads, &mut matched)?;
                collected.add(&mut matched);
            }
        }
        Ok(collected.finish())
    }
}

/// Returns the numbers of the questions of consecutive granules.
fn questions(granules: &[Granule]) -> Range<u32> {
    let ends = granules.first().zip(granules.last());
    ends.map_or(0..0, |(first, last)| first.first..last.last + 1)
}

/// Collects answers within the memory limit.
struct AnswerCollector<'g> {
    granules: &'g [Granule],
    /// Granules whose answers are collected. When memory is short, the last ones are left for a later round.
    part: Range<usize>,
    most: usize,
    entries: Vec<u64>,
}

impl<'g> AnswerCollector<'g> {
    fn new(granules: &'g [Granule], first: usize, most: usize) -> Self {
        Self {
            granules,
            part: first..granules.len(),
            most,
            entries: Vec::new(),
        }
    }

    /// Returns the numbers of the questions whose answers are collected.
    fn asked(&self) -> Range<u32> {
        questions(&self.granules[self.part.clone()])
    }

    /// Adds answers, in any order.
    fn add(&mut self, found: &mut Vec<u64>) {
        if self.entries.len() + found.len() > self.most {
            self.compact();
            self.cut(self.most / 2);
        }
        self.entries.append(found);
    }

    fn finish(mut self) -> KnownAnswers {
        self.compact();
        // Answers that were added after a cut may belong to questions that were cut off.
        self.cut(usize::MAX);
        KnownAnswers::new(self.entries, self.granules, self.part)
    }

    /// Sorts the answers and removes duplicates.
    fn compact(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup();
    }

    /// Keeps the answers to the first granules that have at most `most` answers together, but at least one granule.
    fn cut(&mut self, most: usize) {
        let until = |granule: &Granule| {
            let last = u64::from(granule.last);
            self.entries.partition_point(|entry| entry >> 32 <= last)
        };
        let part = &self.granules[self.part.clone()];
        let fitting = part.partition_point(|granule| until(granule) <= most);
        let kept = fitting.max(1).min(part.len());
        let entries = part[..kept].last().map_or(0, until);
        self.part.end = self.part.start + kept;
        self.entries.truncate(entries);
    }
}

/// Edges of a bucket that are matched with the questions `asked`.
struct Matching<'m> {
    view: &'m ModelView<'m>,
    questions: &'m QuestionNumbers,
    asked: Range<u32>,
    bucket: Bucket,
    partition: u32,
    edges: &'m EdgeColumns,
}

impl Matching<'_> {
    /// Adds the edges that answer a question to `found`, as question number and offset.
    fn find(&self, threads: usize, found: &mut Vec<u64>) -> Result<(), RunError> {
        let edges = self.edges.len();
        let share = edges.div_ceil(threads.max(1)).max(SHARE);
        if edges <= share {
            self.find_in(0..edges, found);
            return Ok(());
        }
        let part = |start: usize| {
            move |_: &Crew| {
                let mut found = Vec::new();
                self.find_in(start..(start + share).min(edges), &mut found);
                Ok(found)
            }
        };
        for mut part in crew::run_jobs((0..edges).step_by(share).map(part), || ())? {
            found.append(&mut part);
        }
        Ok(())
    }

    fn find_in(&self, rows: Range<usize>, found: &mut Vec<u64>) {
        let view = self.view;
        for i in rows {
            let edge = RankedEdge::of(self.bucket, self.edges, i);
            // An edge with an unknown part cannot answer a question; its relation may not exist in the model.
            if !view.is_trained(&edge) {
                continue;
            }
            let ends = Side::BOTH.map(|side| entity(view, &edge, side));
            for side in Side::BOTH {
                let (partition, offset) = ends[side as usize];
                if partition != self.partition {
                    continue;
                }
                let question = (edge.rel, ends[side.other() as usize]);
                let number = self.questions.numbers[side as usize].get(&question);
                if let Some(&number) = number.filter(|number| self.asked.contains(number)) {
                    found.push(u64::from(number) << 32 | u64::from(offset));
                }
            }
        }
    }
}

/// Whether an edge of `bucket` may have an entity of partition `partition`.
fn answers_in(view: &ModelView<'_>, bucket: Bucket, partition: u32) -> bool {
    let layout = &view.blueprint.layout;
    (0..layout.types.len())
        .flat_map(|entity| Side::BOTH.map(|side| layout.partition(entity, side, bucket)))
        .any(|at| at == partition)
}

/// Returns the entity on `side` of `edge`.
pub(crate) fn entity(view: &ModelView<'_>, edge: &RankedEdge, side: Side) -> EntityKey {
    let blueprint = view.blueprint;
    let entity_type = blueprint.type_of(edge.rel, side);
    (
        blueprint.layout.partition(entity_type, side, edge.bucket),
        edge.offset(side),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any number of rounds, every question receives each of its answers once.
        #[test]
        fn short_room_takes_more_rounds_and_loses_no_answer(
            repeats in prop::collection::vec(1_usize..4, 1..40),
            found in prop::collection::vec((0_u32..40, 0_u32..8), 0..600),
            at_once in 1_usize..20,
        ) {
            // Questions in the order of queries; some are asked by several.
            let questions: Vec<u32> = (0_u32..)
                .zip(&repeats)
                .flat_map(|(question, &times)| vec![question; times])
                .collect();
            let granules: Vec<Granule> = questions
                .chunks(GRANULE)
                .map(|part| Granule { first: part[0], last: part[part.len() - 1] })
                .collect();
            let most = 2 * GRANULE * 8;
            let (mut first, mut rounds) = (0, 0);
            while first < granules.len() {
                let mut collected = AnswerCollector::new(&granules, first, most);
                for part in found.chunks(at_once) {
                    let asked = collected.asked();
                    let part = part.iter().filter(|(question, _)| asked.contains(question));
                    let mut part = part.map(|&(q, o)| u64::from(q) << 32 | u64::from(o)).collect();
                    collected.add(&mut part);
                    prop_assert!(collected.entries.len() <= most + at_once);
                }
                let answers = collected.finish();
                prop_assert!(answers.granules.start == first && answers.granules.end > first);
                for granule in &granules[answers.granules.clone()] {
                    for question in granule.first..=granule.last {
                        let expected: BTreeSet<u32> =
                            found.iter().filter(|(q, _)| *q == question).map(|&(_, o)| o).collect();
                        let all: Vec<u32> = answers.of(question, 0..8).collect();
                        prop_assert_eq!(all, expected.iter().copied().collect::<Vec<_>>());
                        let some: Vec<u32> = answers.of(question, 2..5).collect();
                        let within = expected.range(2..5).copied().collect::<Vec<_>>();
                        prop_assert_eq!(some, within);
                    }
                }
                first = answers.granules.end;
                rounds += 1;
            }
            prop_assert!(rounds <= granules.len());
        }
    }
}
