//! Which answers are known to be right: the filter of filtered ranks.
//!
//! Filter edges stream by, one record batch at a time, and only those that answer a question of the
//! block leave something behind. Where that is more than there is room for, the block's queries are
//! counted in several rounds, and the edges stream by for each.

use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::FixedState;
use pbg_core::graph::{Bucket, Edges, Side};
use pbg_store::dataset::EdgeSet;

use super::edges::Edge;
use super::view::View;
use crate::check::READ_ROWS;
use crate::crew::{self, Crew};
use crate::error::RunError;

/// Answers that there is always room for.
const ROOM: usize = 4 << 20;
/// Edges of which a thread compares at least as many with questions.
const SHARE: usize = 1 << 14;
/// Queries that are never torn apart.
pub(super) const GRANULE: usize = pbg_kernels::rank::Queries::GROUP;

/// An entity of a known type: partition and offset.
pub(crate) type Entity = (u32, u32);

/// What is asked for a side: the relation, and the entity on the other side.
pub(super) type Question = (u32, Entity);

/// The questions of a block, numbered in the order of its queries.
#[derive(Default)]
pub(super) struct Questions {
    /// Numbers by question, for each side.
    numbers: [HashMap<Question, u32, FixedState>; 2],
    count: u32,
}

impl Questions {
    /// The number of a question; the next one for a new question.
    pub(super) fn number(&mut self, side: Side, question: Question) -> u32 {
        *self.numbers[side as usize]
            .entry(question)
            .or_insert_with(|| {
                self.count += 1;
                self.count - 1
            })
    }
}

/// Queries that are counted together in any case, and the first and last question that they ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granule {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// The known answers of one partition to the questions of some granules.
#[derive(Debug)]
pub(super) struct Answers {
    /// Question and offset of the answer, ascending.
    entries: Vec<u64>,
    /// The granules.
    pub(super) granules: Range<usize>,
    /// Number of the first question, and where its answers and those of the following ones start.
    first: u32,
    starts: Vec<usize>,
}

impl Answers {
    /// Offsets of the answers to `question` that lie in `within`.
    pub(super) fn of(&self, question: u32, within: Range<u64>) -> impl Iterator<Item = u32> + '_ {
        let at = (question - self.first) as usize;
        let ends = self.starts.get(at).zip(self.starts.get(at + 1));
        let all = ends.map_or(&[][..], |(&start, &end)| &self.entries[start..end]);
        let offset = |entry: &u64| *entry & u64::from(u32::MAX);
        let from = all.partition_point(|entry| offset(entry) < within.start);
        let to = all.partition_point(|entry| offset(entry) < within.end);
        all[from..to].iter().map(|&entry| entry as u32)
    }

    /// Of sorted `entries` to the questions of `part` of `granules`.
    fn new(entries: Vec<u64>, granules: &[Granule], part: Range<usize>) -> Self {
        let mut starts = Vec::new();
        let ends = granules[part.clone()]
            .first()
            .zip(granules[part.clone()].last());
        let (first, last) = ends.map_or((1, 0), |(first, last)| (first.first, last.last));
        let mut at = 0;
        for question in first..=last {
            starts.push(at);
            let answers = entries[at..].iter();
            at += answers
                .take_while(|&entry| entry >> 32 == u64::from(question))
                .count();
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

/// The edge sets whose edges are no wrong answers.
pub(super) struct Filter {
    sets: Vec<EdgeSet>,
    most: usize,
    threads: usize,
}

/// Room for answers, in entries: enough that the answers of a granule, which has at most as many
/// questions as queries, take no more than half of it.
pub(super) fn most_entries(filter_edges: u64, most_entities: u64) -> usize {
    let matches = filter_edges.saturating_mul(2) as usize;
    let granules = 2 * GRANULE * most_entities as usize;
    ROOM.max(granules).min(matches)
}

impl Filter {
    pub(super) fn open(
        view: &View<'_>,
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

    /// The answers in partition `partition` of any type to the questions of `granules`, from `first`
    /// on, as many as there is room for.
    pub(super) fn answers(
        &self,
        view: &View<'_>,
        questions: &Questions,
        granules: &[Granule],
        first: usize,
        partition: u32,
    ) -> Result<Answers, RunError> {
        let mut collected = Collected::new(granules, first, self.most);
        let mut matched = Vec::new();
        let mut edges = Edges::default();
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

/// Answers as they come, in no more memory than there is.
struct Collected<'g> {
    granules: &'g [Granule],
    /// The granules whose answers are collected. The last ones are left for later when memory is short.
    part: Range<usize>,
    most: usize,
    entries: Vec<u64>,
}

impl<'g> Collected<'g> {
    fn new(granules: &'g [Granule], first: usize, most: usize) -> Self {
        Self {
            granules,
            part: first..granules.len(),
            most,
            entries: Vec::new(),
        }
    }

    /// The questions whose answers are wanted.
    fn asked(&self) -> Range<u32> {
        let part = &self.granules[self.part.clone()];
        let ends = part.first().zip(part.last());
        ends.map_or(0..0, |(first, last)| first.first..last.last + 1)
    }

    /// Takes what was found, in any order.
    fn add(&mut self, found: &mut Vec<u64>) {
        if self.entries.len() + found.len() > self.most {
            self.compact();
            self.cut(self.most / 2);
        }
        self.entries.append(found);
    }

    fn finish(mut self) -> Answers {
        self.compact();
        // What came after a cut may answer questions that were cut off.
        self.cut(usize::MAX);
        Answers::new(self.entries, self.granules, self.part)
    }

    /// Sorts, and keeps one of each.
    fn compact(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup();
    }

    /// Keeps the answers to as many granules as have at most `most`, but to one granule at least.
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

/// Edges of a bucket that are compared with the questions `asked`.
struct Matching<'m> {
    view: &'m View<'m>,
    questions: &'m Questions,
    asked: Range<u32>,
    bucket: Bucket,
    partition: u32,
    edges: &'m Edges,
}

impl Matching<'_> {
    /// Adds those that answer one to `found`, as question and offset.
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
        for mut part in crew::run((0..edges).step_by(share).map(part), || ())? {
            found.append(&mut part);
        }
        Ok(())
    }

    fn find_in(&self, rows: Range<usize>, found: &mut Vec<u64>) {
        let (view, edges) = (self.view, self.edges);
        for i in rows {
            let edge = Edge {
                bucket: self.bucket,
                lhs: edges.lhs[i],
                rel: edges.rel[i],
                rhs: edges.rhs[i],
            };
            // What is not known of an edge cannot be asked for: its relation may not exist.
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
fn answers_in(view: &View<'_>, bucket: Bucket, partition: u32) -> bool {
    let layout = &view.blueprint.layout;
    (0..layout.types.len())
        .flat_map(|entity| Side::BOTH.map(|side| layout.partition(entity, side, bucket)))
        .any(|at| at == partition)
}

/// The entity on `side` of `edge`.
pub(super) fn entity(view: &View<'_>, edge: &Edge, side: Side) -> Entity {
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
        /// In however many rounds, every question gets each of its answers once.
        #[test]
        fn short_room_takes_more_rounds_and_loses_no_answer(
            repeats in prop::collection::vec(1_usize..4, 1..40),
            found in prop::collection::vec((0_u32..40, 0_u32..8), 0..600),
            at_once in 1_usize..20,
        ) {
            // Questions in the order of queries, some asked by several.
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
                let mut collected = Collected::new(&granules, first, most);
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
