//! Ranks one side of a block of edges: candidates stream by, partition after partition.

use std::collections::BTreeMap;

use pbg_core::event::RankStats;
use pbg_core::graph::Side;
use pbg_core::seed::{self, Purpose};
use pbg_kernels::scoring::{self, Prepared, Ranker, ScoreBlock, Standing};
use pbg_kernels::step::StepError;
use rand::RngExt;

use super::known::{self, Known};
use super::{Candidates, Edge, EvalOptions};
use crate::error::RunError;
use crate::trained::Trained;

/// Queries and candidates whose scores are made and counted together: 256 KiB of scores stay in
/// the second-level cache.
const QUERIES: usize = 64;
const COLUMNS: usize = 1024;
/// Candidates that are prepared together: bounds the copy of a partition.
const CANDIDATES: usize = 1 << 15;

/// Sums over ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    stats: RankStats,
}

impl Sums {
    fn add_rank(&mut self, standing: Standing, candidates: u64) {
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
    raw: Standing,
    /// Known answers among those counted.
    known: Standing,
    candidates: u64,
    known_candidates: u64,
}

/// An evaluation's constant parts.
pub(super) struct Job<'a> {
    model: &'a Trained,
    ranker: Ranker<'a>,
    known: &'a Known,
    /// Sampled candidates per type: sorted (partition, offset); absent when all are ranked.
    sampled: Option<Vec<Vec<known::Entity>>>,
    threads: usize,
}

/// Candidates of one partition that are ranked together, and their offsets in it.
struct Slate {
    partition: u32,
    rows: Vec<f32>,
    offsets: Vec<u32>,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        model: &'a Trained,
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
        let ranker = Ranker::new(&model.blueprint.spec, &model.params);
        Ok(Self {
            model,
            ranker,
            known,
            sampled,
            threads: threads.max(1),
        })
    }

    /// Ranks `side` of every edge of `block`; `step` hears of finished rankings.
    pub(super) fn rank(
        &self,
        block: &[Edge],
        side: Side,
        step: &mut dyn FnMut(u64),
    ) -> Result<RankSums, RunError> {
        let mut sums = RankSums::default();
        for ((entity, relation), edges) in self.groups(block, side) {
            let replaced = self.rows(&edges, side)?;
            let known_side = self.rows(&edges, side.other())?;
            let relations: Vec<u32> = edges.iter().map(|e| e.rel).collect();
            let spec = &self.model.blueprint.spec;
            let known_type = spec.relation(edges[0].rel).entity(side.other());
            let transform = self.ranker.query_transform(side, &relations);
            let queries = self.ranker.prepare(&known_side, known_type, transform)?;
            let candidate_relation = relation.unwrap_or(0);
            let own = self.ranker.candidate_transform(side, &candidate_relation);
            let positives = self.ranker.prepare(&replaced, entity, own)?;
            let scores = self.ranker.score_pairs(&queries, &positives);
            drop((replaced, known_side, positives));
            let mut tallies: Vec<Tally> = scores
                .iter()
                .map(|&positive| Tally {
                    positive,
                    ..Tally::default()
                })
                .collect();
            if let Some(at) = scores.iter().position(|s| !s.is_finite()) {
                return Err(not_finite(&edges[at]));
            }
            self.for_slates(entity, |slate| {
                let candidates = self.ranker.prepare(&slate.rows, entity, own)?;
                self.count(&edges, side, &queries, &slate, &candidates, &mut tallies)
            })?;
            for tally in &tallies {
                sums.raw.add_rank(tally.raw, tally.candidates);
                let mut filtered = tally.raw;
                filtered.remove(tally.known);
                sums.filtered
                    .add_rank(filtered, tally.candidates - tally.known_candidates);
            }
            step(edges.len() as u64);
        }
        Ok(sums)
    }

    /// Edges whose candidates are the same rows: by entity type, and where candidates go through
    /// the relation's operator, by relation.
    fn groups(&self, block: &[Edge], side: Side) -> BTreeMap<(usize, Option<u32>), Vec<Edge>> {
        let mut groups = BTreeMap::<_, Vec<Edge>>::new();
        for edge in block {
            let relation = &edge.rel;
            let entity = self.model.blueprint.type_of(edge.rel, side);
            // A group has one known type too, and static relations may differ in it.
            let per_relation = !self.model.blueprint.spec.is_dynamic()
                && (self.ranker.candidate_transform(side, relation).is_some()
                    || self.model.blueprint.spec.entities.len() > 1);
            groups
                .entry((entity, per_relation.then_some(edge.rel)))
                .or_default()
                .push(*edge);
        }
        groups
    }

    /// Raw embeddings of the entities on `side` of `edges`.
    fn rows(&self, edges: &[Edge], side: Side) -> Result<Vec<f32>, RunError> {
        let Some(first) = edges.first() else {
            return Ok(Vec::new());
        };
        let entity = self.model.blueprint.type_of(first.rel, side);
        let width = self.model.blueprint.spec.entities[entity].dimension;
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
            let gathered = scoring::gather(&table, &offsets);
            for (&index, row) in indices.iter().zip(gathered.chunks_exact(width)) {
                rows[index * width..(index + 1) * width].copy_from_slice(row);
            }
        }
        Ok(rows)
    }

    /// Gives `each` all candidates of a type, in parts.
    fn for_slates(
        &self,
        entity: usize,
        mut each: impl FnMut(Slate) -> Result<(), RunError>,
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
                let rows = scoring::gather(&table, offsets);
                each(Slate {
                    partition,
                    rows,
                    offsets: offsets.to_vec(),
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
        queries: &Prepared,
        slate: &Slate,
        candidates: &Prepared,
        tallies: &mut [Tally],
    ) -> Result<(), RunError> {
        let share = edges.len().div_ceil(self.threads).next_multiple_of(QUERIES);
        std::thread::scope(|scope| {
            let handles: Vec<_> = tallies
                .chunks_mut(share)
                .enumerate()
                .map(|(thread, tallies)| {
                    let first = thread * share;
                    scope.spawn(move || -> Result<(), RunError> {
                        let thread = Counting {
                            job: self,
                            edges,
                            side,
                            queries,
                            slate,
                        };
                        thread.count(first, tallies, candidates)
                    })
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
    queries: &'c Prepared,
    slate: &'c Slate,
}

impl Counting<'_> {
    /// Counts for the edges from `first` on, as many as there are `tallies`. Candidates are in the
    /// outer loop: a block of them is copied once and scored with all queries.
    fn count(
        &self,
        first: usize,
        tallies: &mut [Tally],
        candidates: &Prepared,
    ) -> Result<(), RunError> {
        let ranker = self.job.ranker;
        let mut block = ScoreBlock::new()?;
        for start in (0..candidates.len()).step_by(COLUMNS) {
            let columns = start..(start + COLUMNS).min(candidates.len());
            let offsets = &self.slate.offsets[columns.clone()];
            ranker.load_candidates(candidates, columns, &mut block)?;
            for (at, tallies) in tallies.chunks_mut(QUERIES).enumerate() {
                let first = first + at * QUERIES;
                let rows = first..first + tallies.len();
                let scores = ranker.score_block(self.queries, rows.clone(), &mut block)?;
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
        let at = |offset: u32| offsets.binary_search(&offset).ok();
        let standing = |at: usize| Standing::among(tally.positive, &scores[at..=at]);
        let own = known::entity(model, edge, self.side);
        let mut raw = Standing::among(tally.positive, scores);
        let mut candidates = offsets.len() as u64;
        if own.0 == partition
            && let Some(at) = at(own.1)
        {
            raw.remove(standing(at));
            candidates -= 1;
        }
        let mut right = Standing::default();
        let mut right_candidates = 0;
        for answer in known.answers(model, edge, self.side, partition) {
            if (partition, answer) != own
                && let Some(at) = at(answer)
            {
                right.add(standing(at));
                right_candidates += 1;
            }
        }
        tally.raw.add(raw);
        tally.candidates += candidates;
        tally.known.add(right);
        tally.known_candidates += right_candidates;
    }
}

/// Distinct entities of every type, drawn uniformly.
fn draw_candidates(model: &Trained, count: u32, seed: u64) -> Vec<Vec<known::Entity>> {
    let types = model.blueprint.layout.types.iter().enumerate();
    types
        .map(|(index, layout)| {
            let total: u64 = (0..layout.rows.len())
                .map(|p| entities(model, index, p as u32))
                .sum();
            let mut rng = seed::stream(seed, Purpose::Candidates, &[0, index as u64]);
            let mut drawn = std::collections::BTreeSet::new();
            while (drawn.len() as u64) < u64::from(count).min(total) {
                let mut at = rng.random_range(0..total);
                let mut partition = 0;
                while at >= entities(model, index, partition) {
                    at -= entities(model, index, partition);
                    partition += 1;
                }
                drawn.insert((partition, at as u32));
            }
            drawn.into_iter().collect()
        })
        .collect()
}

fn entities(model: &Trained, entity: usize, partition: u32) -> u64 {
    let name = &model.blueprint.layout.types[entity].name;
    let info = model.dataset.manifest().entities.get(name);
    info.and_then(|i| i.counts.get(partition as usize))
        .map_or(0, |&n| u64::from(n))
}

fn not_finite(edge: &Edge) -> RunError {
    RunError::Step(StepError::Batch(format!(
        "the score of an edge of bucket {} is not finite; the embeddings are damaged by training that diverged: train \
         again with a lower `lr`",
        edge.bucket
    )))
}
