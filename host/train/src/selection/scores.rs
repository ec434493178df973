//! Scores of candidates for negatives, reduced over the edges of their chunk.

use std::ops::Range;
use std::sync::{Arc, RwLock};

use pbg_core::graph::Side;
use pbg_core::strategy::{CandidateScores, MASKED, SelectionRequirements};
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{self, BatchJob, Execution, StepWorker, TableSizes};
use pbg_model::error::RunError;
use pbg_rows::spec::{ModelSpec, RelationSpec, SpecError};

use super::SelectionBatch;

/// Bytes of a candidate of a batch: the entity, the sum of its scores, their number, and the highest.
const PER_CANDIDATE: u64 = 4 * 4;
/// Bytes of a candidate of the chunk that is asked for: copies of the entity and its two scores, its weight, and the time of
/// its draw with its index.
const PER_CANDIDATE_OF_CHUNK: u64 = 4 * 4 + 16;
/// Bytes of an edge: its scores on both sides; copies of one, of its entities and of its relation for its chunk.
const PER_EDGE: u64 = 2 * 4 + 4 * 4;

/// Returns the model whose uniform negatives are the candidates for those of `spec`.
pub(crate) fn scoring_spec(spec: &ModelSpec, required: SelectionRequirements) -> ModelSpec {
    let chunk = match (spec.chunk_size, spec.num_batch_negs) {
        (Some(size), _) => size,
        (None, 0) => spec.num_uniform_negs,
        (None, size) => size,
    };
    // Entities with features are replaced by those of other edges only, so their side has no step without these.
    let needs_batch = spec.relations.iter().any(|relation| {
        let featurized = |&side: &Side| spec.entities[relation.entity(side)].featurized;
        let mut replaced = Side::BOTH.into_iter().filter(|&side| !spec.disabled(side));
        !relation.all_negs && replaced.any(|side| featurized(&side))
    });
    ModelSpec {
        num_batch_negs: if needs_batch { spec.num_batch_negs } else { 0 },
        num_uniform_negs: required.pool(spec.num_uniform_negs),
        chunk_size: Some(chunk.max(1)),
        regularization_coef: 0.0,
        relation_prediction: 0.0,
        ..spec.clone()
    }
}

/// Returns the bytes that selecting the negatives of a batch of `edges` edges takes in one worker: candidates, reduced
/// scores and, if scores are required, the buffers of scoring.
///
/// # Errors
/// When the model cannot be scored.
pub(crate) fn selection_bytes(
    spec: &ModelSpec,
    edges: usize,
    required: SelectionRequirements,
    execution: &Execution,
    rows: &[TableSizes],
) -> Result<u64, SpecError> {
    let mut scoring = scoring_spec(spec, required);
    let pools =
        |relation: &RelationSpec| Side::BOTH.map(|side| scoring.uniform_negatives(relation, side));
    let most = scoring.relations.iter().map(|relation| {
        let chunks = edges.div_ceil(scoring.chunk_size(relation, edges));
        let [lhs, rhs] = pools(relation);
        chunks.saturating_mul(lhs.saturating_add(rhs))
    });
    let most = most.max().unwrap_or(0);
    if most == 0 {
        return Ok(0);
    }
    let largest = scoring.relations.iter().flat_map(pools).max().unwrap_or(0);
    let kept = (most as u64)
        .saturating_mul(PER_CANDIDATE)
        .saturating_add((largest as u64).saturating_mul(PER_CANDIDATE_OF_CHUNK))
        .saturating_add((edges as u64).saturating_mul(PER_EDGE));
    if !required.scores {
        return Ok(kept);
    }
    // Nothing is scored for the other relations.
    let mut relations = scoring.relations.clone();
    relations.retain(|relation| pools(relation) != [0; 2]);
    scoring.relations = relations;
    let buffers = step::scoring_bytes(&scoring, edges, execution, rows)?;
    Ok(kept.saturating_add(buffers))
}

/// Makes `values` consist of `len` times `value`, in no more memory than the largest batch needs.
fn fill<T: Copy>(values: &mut Vec<T>, len: usize, value: T) {
    values.clear();
    values.reserve_exact(len);
    values.resize(len, value);
}

/// Scores of one side of a batch.
#[derive(Debug, Default)]
struct SideScores {
    /// Score of each edge.
    positives: Vec<f32>,
    /// Sum of each candidate's scores, `[chunks, candidates]`.
    sums: Vec<f32>,
    /// Number of summands.
    counts: Vec<u32>,
    highest: Vec<f32>,
}

impl SideScores {
    fn reset(&mut self, edges: usize, candidates: usize) {
        fill(&mut self.positives, edges, 0.0);
        fill(&mut self.sums, candidates, 0.0);
        fill(&mut self.counts, candidates, 0);
        fill(&mut self.highest, candidates, MASKED);
    }

    /// Adds the scores of an edge with the candidates of its chunk, which begin at `first`. `replaced` is the entity of
    /// the edge.
    fn add(&mut self, first: usize, candidates: &[u32], replaced: u32, scores: &[f32]) {
        let at = first..first + candidates.len();
        let reduced = self.sums[at.clone()]
            .iter_mut()
            .zip(&mut self.counts[at.clone()]);
        let reduced = reduced.zip(&mut self.highest[at]);
        for ((((sum, count), highest), &candidate), &score) in reduced.zip(candidates).zip(scores) {
            if candidate != replaced {
                *sum += score;
                *highest = if *count == 0 {
                    score
                } else {
                    highest.max(score)
                };
                *count += 1;
            }
        }
    }

    fn is_finite(&self) -> bool {
        let all = [&self.positives, &self.sums, &self.highest];
        all.into_iter().flatten().all(|score| score.is_finite())
    }
}

/// Scores the candidates of a batch.
pub(super) struct PoolScorer {
    worker: StepWorker,
    sides: [SideScores; 2],
}

impl PoolScorer {
    pub(super) fn new(spec: &Arc<ModelSpec>, execution: Execution) -> Result<Self, RunError> {
        Ok(Self {
            worker: StepWorker::new(Arc::clone(spec))?.with_execution(execution),
            sides: Default::default(),
        })
    }

    /// Scores the candidates `pools` of a batch.
    ///
    /// # Errors
    /// When a score is not finite.
    pub(super) fn score(
        &mut self,
        at: &SelectionBatch<'_>,
        pools: &NegativeDraws,
    ) -> Result<(), RunError> {
        let Self { worker, sides } = self;
        let (edges, chunk) = (at.batch.len(), at.chunk_size());
        let chunks = edges.div_ceil(chunk);
        for side in Side::BOTH {
            sides[side as usize].reset(edges, pools.side(side).len());
        }
        let job = BatchJob {
            batch: at.batch,
            tables: at.tables,
            params: at.params,
            draws: pools,
        };
        let mut observe = |side: Side, first: usize, positives: &[f32], negatives: &[f32]| {
            let (candidates, replaced) = (pools.side(side), at.batch.side(side));
            let reduced = &mut sides[side as usize];
            reduced.positives[first..first + positives.len()].copy_from_slice(positives);
            let (pool, columns) = (candidates.len() / chunks, negatives.len() / positives.len());
            if pool == 0 {
                return;
            }
            for (row, scores) in (first..).zip(negatives.chunks_exact(columns)) {
                let begin = row / chunk * pool;
                // The other positives of the chunk, if they are negatives, come first.
                let scores = &scores[columns - pool..];
                reduced.add(
                    begin,
                    &candidates[begin..begin + pool],
                    replaced[row],
                    scores,
                );
            }
        };
        let gate = at.gate.map(RwLock::read);
        let scored = worker.score(&job, &mut observe);
        drop(gate);
        scored.map_err(RunError::Step)?;
        match self.sides.iter().all(SideScores::is_finite) {
            true => Ok(()),
            false => Err(RunError::ScoreNotFinite {
                pass: at.pass,
                bucket: at.bucket,
                worker: at.worker as usize,
                batch: at.number as usize,
            }),
        }
    }

    /// Returns the scores of chunk `number`, which has the given edges and `pool` candidates.
    pub(super) fn scores(
        &self,
        side: Side,
        edges: Range<usize>,
        number: usize,
        pool: usize,
    ) -> CandidateScores {
        let of = &self.sides[side as usize];
        let candidates = number * pool..(number + 1) * pool;
        let sums = of.sums[candidates.clone()].iter();
        let means = sums
            .zip(&of.counts[candidates.clone()])
            .map(|(&sum, &count)| match count {
                0 => MASKED,
                count => sum / count as f32,
            });
        CandidateScores {
            positives: of.positives[edges].to_vec(),
            means: means.collect(),
            highest: of.highest[candidates].to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entity_of_an_edge_is_no_candidate_for_it() {
        let mut scores = SideScores::default();
        scores.reset(2, 3);
        scores.add(0, &[5, 6, 7], 6, &[1.0, 9.0, -3.0]);
        scores.add(0, &[5, 6, 7], 6, &[2.0, 9.0, -5.0]);
        assert_eq!(scores.sums, [3.0, 0.0, -8.0]);
        assert_eq!(scores.counts, [2, 0, 2]);
        assert_eq!(scores.highest, [2.0, MASKED, -3.0]);
        assert!(scores.is_finite());
        scores.add(0, &[5, 6, 7], 0, &[f32::NAN, 0.0, 0.0]);
        assert!(!scores.is_finite());
    }
}
