//! Subnormal numbers, which cost many times more than others, are flushed to zero: in training, in evaluation during
//! training and in ranking.

use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator};
use pbg_core::strategy::{LossWorker, MASKED, ScoreBlock, StrategyError};
use pbg_kernels::step::{BatchJob, StepWorker};
use pbg_reference::twin::{Twin, rows_of, spec};

use crate::ranking::Block;

/// The square of this number is subnormal.
const TINY: f32 = 1e-20;
const SUBNORMAL: f32 = 1e-40;

/// Returns a model whose embeddings are `values[0]` on the left side and `values[1]` on the right side.
fn twin(values: [f32; 2]) -> Twin {
    assert!((TINY * TINY).is_subnormal() && SUBNORMAL.is_subnormal());
    let mut twin = Twin::new(
        spec(false, false, Operator::None, Comparator::Dot),
        false,
        31,
    );
    for (table, value) in twin.tables.iter_mut().zip(values) {
        table.embeddings.get_mut().fill(value);
    }
    twin
}

fn job<'a>(
    twin: &'a Twin,
    batch: &'a pbg_kernels::step::Batch<'a>,
    tables: &'a pbg_kernels::step::BatchTables<'a>,
) -> BatchJob<'a> {
    BatchJob {
        batch,
        tables,
        params: &twin.params,
        draws: &twin.edges.draws,
    }
}

/// A loss that records the scores and returns subnormal gradients.
#[derive(Default)]
struct Watch(Vec<f32>);

impl LossWorker for Watch {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        self.0.extend(scores.positive);
        for score in &mut *scores.negative {
            if *score == MASKED {
                *score = 0.0;
            } else {
                self.0.push(*score);
                *score = SUBNORMAL;
            }
        }
        scores.positive_gradient.fill(-SUBNORMAL);
        scores.loss.fill(0.0);
        Ok(())
    }
}

#[test]
fn scores_of_training_and_of_its_evaluation_are_zero() {
    let twin = twin([TINY; 2]);
    let mut worker = StepWorker::new(Arc::new(twin.model.spec.clone())).expect("a worker");
    let (batch, tables) = (twin.batch(), twin.tables());
    let (mut trained, mut evaluated) = (Watch::default(), Watch::default());
    let job = job(&twin, &batch, &tables);
    worker
        .evaluate(&job, &mut evaluated, 1)
        .expect("an evaluation");
    worker.train(&job, &mut trained).expect("a step");
    for scores in [trained.0, evaluated.0] {
        assert!(!scores.is_empty());
        assert!(scores.iter().all(|score| *score == 0.0), "{scores:?}");
    }
}

#[test]
fn gradients_of_training_are_zero() {
    let twin = twin([0.0, 1.0]);
    let mut worker = StepWorker::new(Arc::new(twin.model.spec.clone())).expect("a worker");
    let (batch, tables) = (twin.batch(), twin.tables());
    worker
        .train(&job(&twin, &batch, &tables), &mut Watch::default())
        .expect("a step");
    assert!(rows_of(&twin.tables[0]).concat().iter().all(|x| *x == 0.0));
}

#[test]
fn scores_of_ranking_are_zero() {
    let twin = twin([TINY; 2]);
    let Block {
        mut ranker,
        queries,
        candidates,
        replacement,
    } = Block::of(&twin);
    let block = ranker.scores(&queries, 0..9, &candidates).to_vec();
    let pairs = ranker.pair_scores(replacement, &queries, &[3; 9], twin.table(Side::Rhs));
    assert_eq!(block, [0.0; 63]);
    assert_eq!(pairs, [0.0; 9]);
}
