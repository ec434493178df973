//! Ranks one side of a block of edges: candidates stream by, partition after partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use pbg_core::event::RankStats;
use pbg_core::graph::Side;
use pbg_core::seed::{self, Purpose};
use pbg_kernels::rank::{self, Queries, RankCounts, Ranker, Replacement};
use pbg_kernels::spec::ModelSpec;
use pbg_kernels::step::{Relations, StepError};
use pbg_kernels::table::Table;
use rand::RngExt;

use super::known::{self, Known};
use super::{Candidates, Edge, EvalOptions};
use crate::error::RunError;
use crate::trained::Trained;

/// Candidates that are prepared together: bounds the copy of a partition.
const CANDIDATES: usize = 1 << 15;

/// Sums over ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    stats: RankStats,
}

impl Sums {
    fn add_rank(&mut self, standing: Standing) {
        let candidates = standing.candidates;
        let rank = standing.rank();
        let within = |n: f64| f64::from(u8::from(rank <= n));
        let stats = &mut self.stats;
        stats.count += 1;
        stats.mean_rank += rank;
        stats.mrr += 1.0 / rank;
        stats.hits_at_1 += within(1.0);
        stats.hits_at_3 += within(3.0);
        stats.hits_at_10 += within(10.0);
        stats.hits_at_50 += within(50.0);
        stats.auc += if candidates == 0 {
            1.0
        } else {
            1.0 - (rank - 1.0) / candidates as f64
        };
    }

    fn add(&mut self, other: &Self) {
        let (a, b) = (&mut self.stats, &other.stats);
        a.count += b.count;
        a.mean_rank += b.mean_rank;
        a.mrr += b.mrr;
        a.hits_at_1 += b.hits_at_1;
        a.hits_at_3 += b.hits_at_3;
        a.hits_at_10 += b.hits_at_10;
        a.hits_at_50 += b.hits_at_50;
        a.auc += b.auc;
    }

    /// The means.
    pub(super) fn means(&self) -> RankStats {
        let mean = |sum: f64| sum / self.stats.count.max(1) as f64;
        let s = &self.stats;
        RankStats {
            count: s.count,
            loss: 0.0,
            mean_rank: mean(s.mean_rank),
            mrr: mean(s.mrr),
            hits_at_1: mean(s.hits_at_1),
            hits_at_3: mean(s.hits_at_3),
            hits_at_10: mean(s.hits_at_10),
            hits_at_50: mean(s.hits_at_50),
            auc: mean(s.auc),
        }
    }
}

/// Sums over raw and filtered ranks of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankSums {
    pub(super) raw: Sums,
    pub(super) filtered: Sums,
}

impl RankSums {
    pub(super) fn add(&mut self, other: &Self) {
        self.raw.add(&other.raw);
        self.filtered.add(&other.filtered);
    }
}

/// Where one edge's true entity stands so far.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    positive: f32,
    /// Candidates but for the true entity itself.
    raw: Standing,
    /// Those among them that are known answers.
    known: Standing,
}

/// Candidates counted: how many, above the positive, and equal to it.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    candidates: u64,
    above: u64,
    equal: u64,
}

impl Standing {
    fn among(positive: f32, scores: &[f32]) -> Self {
        let RankCounts { above, equal } = RankCounts::among(positive, scores);
        Self {
            candidates: scores.len() as u64,
            above: u64::from(above),
            equal: u64::from(equal),
        }
    }

    fn add(&mut self, other: Self) {
        self.candidates += other.candidates;
        self.above += other.above;
        self.equal += other.equal;
    }

    /// Takes out what was counted before.
    fn without(self, other: Self) -> Self {
        Self {
            candidates: self.candidates - other.candidates,
            above: self.above - other.above,
            equal: self.equal - other.equal,
        }
    }

    fn rank(self) -> f64 {
        1.0 + self.above as f64 + self.equal as f64 / 2.0
    }
}

/// An evaluation's constant parts.
pub(super) struct Job<'a> {
    model: &'a Trained<'a>,
    spec: Arc<ModelSpec>,
    known: &'a Known,
    /// Sampled candidates per type: sorted (partition, offset); absent when all are ranked.
    sampled: Option<Vec<Vec<known::Entity>>>,
    threads: usize,
}

/// Candidates of one partition that are ranked together, in blocks that fit the cache.
struct Slate {
    partition: u32,
    offsets: Vec<u32>,
    blocks: Vec<rank::Candidates>,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        model: &'a Trained<'a>,
        known: &'a Known,
        options: &EvalOptions,
        seed: u64,
        threads: usize,
    ) -> Result<Self, RunError> {
        let sampled = match options.candidates {
            Candidates::All => None,
            Candidates::Sample(0) => {
                return Err(RunError::Config(
                    "candidates: must be `all` or at least 1".to_owned(),
                ));
            }
            Candidates::Sample(n) => Some(draw_candidates(model, n, seed)),
        };
        let spec = Arc::new(model.blueprint.spec.clone());
        Ok(Self {
            model,
            spec,
            known,
            sampled,
            threads: threads.max(1),
        })
    }

    fn ranker(&self) -> Result<Ranker, RunError> {
        Ok(Ranker::new(Arc::clone(&self.spec))?)
    }

    /// Ranks `side` of every edge of `block`; `step` hears of finished rankings.
    pub(super) fn rank(
        &self,
        block: &[Edge],
        side: Side,
        step: &mut dyn FnMut(u64),
    ) -> Result<RankSums, RunError> {
        let mut sums = RankSums::default();
        let mut ranker = self.ranker()?;
        for ((entity, relation), edges) in self.groups(block, side, &ranker) {
            let replacement = Replacement {
                side,
                relation: relation.unwrap_or(edges[0].rel),
                params: &self.model.params,
            };
            let relations: Vec<u32> = edges.iter().map(|e| e.rel).collect();
            let all: Vec<u32> = (0..edges.len() as u32).collect();
            let known_rows = self.rows(&edges, side.other())?;
            let mut queries = Queries::default();
            let relations = Relations::PerEdge(&relations);
            ranker.queries(
                side,
                &all,
                relations,
                &known_rows,
                &self.model.params,
                &mut queries,
            );
            let scores = ranker.pair_scores(replacement, &queries, &all, &self.rows(&edges, side)?);
            if let Some(at) = scores.iter().position(|s| !s.is_finite()) {
                return Err(not_finite(&edges[at]));
            }
            let mut tallies: Vec<Tally> = scores
                .iter()
                .map(|&positive| Tally {
                    positive,
                    ..Tally::default()
                })
                .collect();
            self.for_slates(entity, replacement, &mut ranker, |slate| {
                self.count(&edges, side, &queries, slate, &mut tallies)
            })?;
            for tally in &tallies {
                sums.raw.add_rank(tally.raw);
                sums.filtered.add_rank(tally.raw.without(tally.known));
            }
            step(edges.len() as u64);
        }
        Ok(sums)
    }

    /// Edges whose candidates are the same rows: by entity type, and where candidates go through
    /// the relation's operator, by relation.
    fn groups(
        &self,
        block: &[Edge],
        side: Side,
        ranker: &Ranker,
    ) -> BTreeMap<(usize, Option<u32>), Vec<Edge>> {
        let mut groups = BTreeMap::<_, Vec<Edge>>::new();
        for edge in block {
            let entity = self.model.blueprint.type_of(edge.rel, side);
            // A group has one known type too, and static relations may differ in it.
            let per_relation = !self.spec.is_dynamic()
                && (self.spec.entities.len() > 1
                    || ranker.candidates_depend_on_relation(side, edge.rel));
            groups
                .entry((entity, per_relation.then_some(edge.rel)))
                .or_default()
                .push(*edge);
        }
        groups
    }

    /// A table of the entities on `side` of `edges`, a row per edge.
    fn rows(&self, edges: &[Edge], side: Side) -> Result<Table, RunError> {
        let entity = self.model.blueprint.type_of(edges[0].rel, side);
        let width = self.spec.entities[entity].dimension;
        let mut rows = vec![0.0; edges.len() * width];
        let mut by_partition = BTreeMap::<u32, Vec<usize>>::new();
        for (index, edge) in edges.iter().enumerate() {
            by_partition
                .entry(known::entity(self.model, edge, side).0)
                .or_default()
                .push(index);
        }
        for (partition, indices) in by_partition {
            let table = self.model.table(entity, partition)?;
            let offsets: Vec<u32> = indices.iter().map(|&i| edges[i].offset(side)).collect();
            let gathered = table.gather(&offsets);
            for (&index, row) in indices.iter().zip(gathered.chunks_exact(width)) {
                rows[index * width..(index + 1) * width].copy_from_slice(row);
            }
        }
        Ok(Table::new(rows, width))
    }

    /// Gives `each` all candidates of a type, in parts.
    fn for_slates(
        &self,
        entity: usize,
        replacement: Replacement<'_>,
        ranker: &mut Ranker,
        mut each: impl FnMut(&Slate) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        for partition in 0..self.model.partitions(entity) {
            let table = self.model.table(entity, partition)?;
            let offsets: Vec<u32> = match &self.sampled {
                None => (0..table.entities() as u32).collect(),
                Some(sampled) => {
                    let sampled = sampled[entity].iter().filter(|(p, _)| *p == partition);
                    sampled.map(|&(_, offset)| offset).collect()
                }
            };
            for offsets in offsets.chunks(CANDIDATES) {
                let part = Table::new(table.gather(offsets), self.spec.entities[entity].dimension);
                let blocks = (0..offsets.len()).step_by(rank::BLOCK).map(|first| {
                    let mut block = rank::Candidates::default();
                    let rows = first..(first + rank::BLOCK).min(offsets.len());
                    ranker.candidates(replacement, rows, &part, &mut block);
                    block
                });
                let blocks = blocks.collect();
                each(&Slate {
                    partition,
                    offsets: offsets.to_vec(),
                    blocks,
                })?;
            }
        }
        Ok(())
    }

    /// Counts where every positive stands among the candidates of a slate.
    fn count(
        &self,
        edges: &[Edge],
        side: Side,
        queries: &Queries,
        slate: &Slate,
        tallies: &mut [Tally],
    ) -> Result<(), RunError> {
        let share = edges
            .len()
            .div_ceil(self.threads)
            .next_multiple_of(Ranker::query_step());
        std::thread::scope(|scope| {
            let handles: Vec<_> = tallies
                .chunks_mut(share)
                .enumerate()
                .map(|(thread, tallies)| {
                    let counting = Counting {
                        job: self,
                        edges,
                        side,
                        queries,
                        slate,
                    };
                    scope.spawn(move || counting.count(thread * share, tallies))
                })
                .collect();
            handles
                .into_iter()
                .try_for_each(|h| h.join().unwrap_or(Err(RunError::WorkerPanic)))
        })
    }
}

/// What one thread counts on: all edges of a group, one slate of candidates.
struct Counting<'c> {
    job: &'c Job<'c>,
    edges: &'c [Edge],
    side: Side,
    queries: &'c Queries,
    slate: &'c Slate,
}

impl Counting<'_> {
    /// Counts for the edges from `first` on, as many as there are `tallies`. Blocks of candidates
    /// are in the outer loop: all queries pass by while a block is in the cache.
    fn count(&self, first: usize, tallies: &mut [Tally]) -> Result<(), RunError> {
        let mut ranker = self.job.ranker()?;
        for block in &self.slate.blocks {
            let offsets = &self.slate.offsets[block.entities()];
            for (at, tallies) in tallies.chunks_mut(Ranker::query_step()).enumerate() {
                let first = first + at * Ranker::query_step();
                let rows = first..first + tallies.len();
                let scores = ranker.scores(self.queries, rows.clone(), block);
                let scores = scores.chunks_exact(offsets.len());
                for ((edge, tally), scores) in self.edges[rows].iter().zip(tallies).zip(scores) {
                    self.tally(edge, tally, scores, offsets);
                }
            }
        }
        Ok(())
    }

    fn tally(&self, edge: &Edge, tally: &mut Tally, scores: &[f32], offsets: &[u32]) {
        let Job { model, known, .. } = self.job;
        let partition = self.slate.partition;
        let [first, last] = [offsets.first(), offsets.last()].map(|end| end.copied());
        let standing = |offset: u32| {
            // Most answers stand in other blocks, and there are many.
            if Some(offset) < first || Some(offset) > last {
                return None;
            }
            let at = offsets.binary_search(&offset).ok()?;
            Some(Standing::among(tally.positive, &scores[at..=at]))
        };
        let own = known::entity(model, edge, self.side);
        let own_standing = (own.0 == partition)
            .then(|| standing(own.1))
            .flatten()
            .unwrap_or_default();
        let raw = Standing::among(tally.positive, scores).without(own_standing);
        let answers = known.answers(model, edge, self.side, partition);
        let mut right = Standing::default();
        for counted in answers
            .filter(|&a| (partition, a) != own)
            .filter_map(standing)
        {
            right.add(counted);
        }
        tally.raw.add(raw);
        tally.known.add(right);
    }
}

/// Distinct entities of every type, drawn uniformly.
fn draw_candidates(model: &Trained<'_>, count: u32, seed: u64) -> Vec<Vec<known::Entity>> {
    let types = model.blueprint.layout.types.iter().enumerate();
    types
        .map(|(index, layout)| {
            let total: u64 = (0..layout.rows.len())
                .map(|p| model.entities(index, p as u32))
                .sum();
            let mut rng = seed::stream(seed, Purpose::Candidates, &[0, index as u64]);
            let mut drawn = std::collections::BTreeSet::new();
            while (drawn.len() as u64) < u64::from(count).min(total) {
                let mut at = rng.random_range(0..total);
                let mut partition = 0;
                while at >= model.entities(index, partition) {
                    at -= model.entities(index, partition);
                    partition += 1;
                }
                drawn.insert((partition, at as u32));
            }
            drawn.into_iter().collect()
        })
        .collect()
}

fn not_finite(edge: &Edge) -> RunError {
    RunError::Step(StepError::Batch(format!(
        "the score of an edge of bucket {} is not finite; the embeddings are damaged by training that diverged: train \
         again with a lower `lr`",
        edge.bucket
    )))
}
