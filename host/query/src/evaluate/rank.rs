//! Ranks edges block by block; the candidates are read partition by partition.

use std::collections::BTreeSet;
use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::seed::{self, StreamPurpose};
use pbg_kernels::rank::Ranker;
use pbg_model::error::{RunError, SettingError};
use pbg_model::layout::TypeLayout;
use pbg_model::settings::cores;
use pbg_rows::spec::ModelSpec;
use rand::RngExt;

use super::block::{QueryBlock, QueryGroup, group_of};
use super::count::{self, CandidateOffsets, CandidateTable};
use super::known_answers::{EntityKey, Filter, KnownAnswers};
use super::memory_needs;
use super::options::{CandidateSet, EvalOptions};
use super::ranked_edge::RankedEdge;
use super::stats::{RankSums, RankedCounts};
use super::view::{ModelView, TableSource};

/// Constant parts of an evaluation.
pub(super) struct EdgeRanker<'a> {
    view: ModelView<'a>,
    spec: Arc<ModelSpec>,
    filter: Filter,
    /// Offsets of sampled candidates by type and partition; `None` if all entities are candidates.
    sampled: Option<Vec<Vec<Vec<u32>>>>,
    threads: usize,
}

impl<'a> EdgeRanker<'a> {
    pub(super) fn new(
        view: ModelView<'a>,
        options: &EvalOptions,
        seed: u64,
    ) -> Result<Self, RunError> {
        let sampled = match options.candidates {
            CandidateSet::All => None,
            CandidateSet::Sample(0) => return Err(SettingError::NoCandidates.into()),
            CandidateSet::Sample(n) => Some(draw_candidates(&view, n, seed)),
        };
        let threads = options.threads.unwrap_or_else(cores).max(1);
        Ok(Self {
            spec: Arc::new(view.blueprint.spec.clone()),
            filter: Filter::open(&view, &options.filter, threads)?,
            view,
            sampled,
            threads,
        })
    }

    pub(super) const fn view(&self) -> &ModelView<'a> {
        &self.view
    }

    /// Returns the sums over the ranks of both sides of `edges`. `step` receives the finished fraction of them, and
    /// `each` every rank.
    pub(super) fn sums(
        &self,
        tables: &mut dyn TableSource,
        edges: &[RankedEdge],
        step: &mut dyn FnMut(f64),
        each: &mut dyn FnMut(Side, &RankedEdge, RankedCounts),
    ) -> Result<[RankSums; 2], RunError> {
        let mut ranked = [vec![RankedCounts::default(); edges.len()], Vec::new()];
        ranked[1] = ranked[0].clone();
        let size = memory_needs::block_edges(self.view.blueprint);
        for (at, block) in edges.chunks(size).enumerate() {
            let first = at * size;
            let mut step = |share: f64| {
                step((first as f64 + share * block.len() as f64) / edges.len() as f64);
            };
            self.rank(tables, block, &mut step, |side, at, found| {
                ranked[side as usize][first + at] = found;
            })?;
        }
        // Sums of floats depend on the order, so they follow the order of groups, independent of the size of blocks.
        let mut sums = [RankSums::default(), RankSums::default()];
        for side in Side::BOTH {
            let mut order: Vec<usize> = (0..edges.len()).collect();
            order.sort_by_key(|&at| group_of(&self.view, edges[at].rel, side));
            let sums = &mut sums[side as usize];
            for at in order {
                sums.add_ranked(ranked[side as usize][at]);
                each(side, &edges[at], ranked[side as usize][at]);
            }
        }
        Ok(sums)
    }

    /// Ranks both sides of a block. Every table of candidates is read once.
    fn rank(
        &self,
        tables: &mut dyn TableSource,
        edges: &[RankedEdge],
        step: &mut dyn FnMut(f64),
        mut found: impl FnMut(Side, usize, RankedCounts),
    ) -> Result<(), RunError> {
        let view = &self.view;
        let mut ranker = Ranker::new(Arc::clone(&self.spec))?;
        let block = QueryBlock::new(view, tables, edges, &mut ranker)?;
        let types = &view.blueprint.layout.types;
        let partitions = types.iter().map(|t| t.rows.len() as u32).max().unwrap_or(0);
        let mut seen: Vec<Vec<u64>> = types.iter().map(|t| vec![0; t.rows.len()]).collect();
        for partition in (0..partitions).rev() {
            let mut first = 0;
            while first < block.granules.len() {
                let (filter, questions) = (&self.filter, &block.questions);
                let answers = filter.answers(view, questions, &block.granules, first, partition)?;
                for entity in 0..types.len() {
                    let Some(seen) = seen[entity].get_mut(partition as usize) else {
                        continue;
                    };
                    let key = (entity, partition);
                    if let Some(candidates) = self.compare(tables, &block, key, &answers)? {
                        *seen = candidates;
                    }
                }
                first = answers.granules.end;
            }
            step(f64::from(partitions - partition) / f64::from(partitions));
        }
        for group in &block.groups {
            let candidates: u64 = seen[group.entity].iter().sum();
            let positives = group.positive_entities.iter().zip(&group.edges);
            for (counts, (&positive, &at)) in group.counts.iter().zip(positives) {
                let others = candidates - u64::from(self.is_candidate(group.entity, positive));
                found(group.side, at as usize, counts.ranked(others));
            }
        }
        Ok(())
    }

    /// Compares the queries of `answers` that concern type and partition `key` with the candidates there, and returns
    /// the number of these candidates; `None` if no query concerns them.
    fn compare(
        &self,
        tables: &mut dyn TableSource,
        block: &QueryBlock,
        key: (usize, u32),
        answers: &KnownAnswers,
    ) -> Result<Option<u64>, RunError> {
        let (entity, partition) = key;
        let asked = |group: &&QueryGroup| {
            group.entity == entity && !group.within(&answers.granules).is_empty()
        };
        let mut groups = block.groups.iter().filter(asked).peekable();
        let drawn = self.sampled.as_ref();
        let drawn = drawn.map(|sampled| &sampled[entity][partition as usize][..]);
        if groups.peek().is_none() || drawn.is_some_and(<[u32]>::is_empty) {
            return Ok(None);
        }
        let table = tables.table(key)?;
        let block = CandidateTable {
            table,
            partition,
            offsets: match drawn {
                None => CandidateOffsets::All(table.entities() as u32),
                Some(drawn) => CandidateOffsets::Some(drawn),
            },
        };
        let (spec, threads) = (&self.spec, self.threads);
        count::count(&self.view, spec, groups, &block, answers, threads)?;
        Ok(Some(block.offsets.len() as u64))
    }

    fn is_candidate(&self, entity: usize, (partition, offset): EntityKey) -> bool {
        let drawn = self.sampled.as_ref();
        let drawn = drawn.map(|sampled| &sampled[entity][partition as usize]);
        drawn.is_none_or(|drawn| drawn.binary_search(&offset).is_ok())
    }
}

/// Draws distinct entities of every type uniformly; returns their offsets by type and partition.
fn draw_candidates(view: &ModelView<'_>, count: u32, seed: u64) -> Vec<Vec<Vec<u32>>> {
    let of_type = |(index, layout): (usize, &TypeLayout)| {
        let partitions = layout.rows.len() as u32;
        let sizes: Vec<u64> = (0..partitions).map(|p| view.entities((index, p))).collect();
        let total: u64 = sizes.iter().sum();
        let mut rng = seed::stream(seed, StreamPurpose::Candidates, &[0, index as u64]);
        let mut drawn = BTreeSet::new();
        while (drawn.len() as u64) < u64::from(count).min(total) {
            let mut at = rng.random_range(0..total);
            let mut partition = 0;
            while at >= sizes[partition] {
                at -= sizes[partition];
                partition += 1;
            }
            drawn.insert((partition, at as u32));
        }
        let mut by_partition = vec![Vec::new(); sizes.len()];
        for (partition, offset) in drawn {
            by_partition[partition].push(offset);
        }
        by_partition
    };
    let types = view.blueprint.layout.types.iter().enumerate();
    types.map(of_type).collect()
}
