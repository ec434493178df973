//! Evaluation on the held-out edges of a bucket, before and after it is trained.

use std::sync::Arc;

use pbg_core::batching::{self, ByRelation};
use pbg_core::event::RankStats;
use pbg_core::seed::StreamPurpose;
use pbg_core::strategy::LossWorker;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{BatchJob, EvalStats, StepWorker};
use pbg_model::crew::{self, Crew};
use pbg_model::error::RunError;
use rand::RngExt;

use crate::bucket_inputs::{BatchColumns, BucketInputs};

/// Ranks each of the edges at `indices` among negatives that are drawn as in training, with separate settings for their
/// numbers (`eval_num_batch_negs`, `eval_num_uniform_negs`).
///
/// The draws depend on the bucket and not on the epoch, so that results of different epochs are comparable.
///
/// # Errors
/// When a step fails.
pub(crate) fn evaluate(
    evaluators: &mut [StepWorker],
    losses: &mut [Box<dyn LossWorker>],
    work: &BucketInputs<'_>,
    indices: &[u32],
    batch_size: usize,
) -> Result<Option<RankStats>, RunError> {
    if indices.is_empty() {
        return Ok(None);
    }
    assert!(
        evaluators.len() <= losses.len(),
        "a loss for each evaluator"
    );
    let shares: Vec<_> = batching::shares(indices.len(), evaluators.len()).collect();
    let workers = evaluators.iter_mut().zip(losses).zip(shares).enumerate();
    let jobs = workers.map(|(worker, ((evaluator, loss), share))| {
        let share = &indices[share];
        move |crew: &Crew| evaluate_share(evaluator, loss, work, worker, share, batch_size, crew)
    });
    let mut total = RankStats::default();
    for part in crew::run_jobs(jobs, || ())? {
        total = total.merge(&part);
    }
    Ok(Some(total))
}

fn evaluate_share(
    evaluator: &mut StepWorker,
    loss: &mut Box<dyn LossWorker>,
    work: &BucketInputs<'_>,
    worker: usize,
    share: &[u32],
    batch_size: usize,
    crew: &Crew,
) -> Result<RankStats, RunError> {
    let fixed = BucketInputs {
        pass: pbg_core::schedule::PassId {
            epoch: 0,
            ..work.pass
        },
        ..*work
    };
    let mut rng = fixed.stream(StreamPurpose::EvalNegatives, worker as u64);
    let mut columns = BatchColumns::default();
    let mut draws = NegativeDraws::default();
    let mut total = RankStats::default();
    let mut batch = |indices: &[u32], relation: Option<u32>| -> Result<(), RunError> {
        if crew.has_failed() {
            return Ok(());
        }
        columns.fill(work.edges, indices);
        let batch = columns.batch(relation);
        let tables = work.tables(relation.unwrap_or(0))?;
        let entities = [tables.lhs.entities(), tables.rhs.entities()];
        let spec = Arc::clone(evaluator.spec());
        draws.draw(
            &spec,
            spec.relation(relation.unwrap_or(0)),
            batch.len(),
            entities,
            &mut rng,
        );
        let stats = evaluator.evaluate(
            &BatchJob {
                batch: &batch,
                tables: &tables,
                params: work.params,
                draws: &draws,
            },
            loss.as_mut(),
            rng.random(),
        )?;
        total = total.merge(&means(&stats));
        Ok(())
    };
    if work.blueprint.spec.is_dynamic() {
        share
            .chunks(batch_size)
            .try_for_each(|indices| batch(indices, None))?;
    } else {
        let groups = ByRelation::new(share, &work.edges.rel, work.blueprint.spec.relation_count());
        for (relation, bounds) in groups.starts.windows(2).enumerate() {
            let group = &groups.order[bounds[0] as usize..bounds[1] as usize];
            group
                .chunks(batch_size)
                .try_for_each(|indices| batch(indices, Some(relation as u32)))?;
        }
    }
    Ok(total)
}

fn means(stats: &EvalStats) -> RankStats {
    let mean = |sum: f64| sum / stats.count.max(1) as f64;
    RankStats {
        count: stats.count as u64,
        loss: Some(mean(stats.loss)),
        mean_rank: mean(stats.pos_rank),
        mrr: mean(stats.mrr),
        hits_at_1: mean(stats.r1),
        hits_at_3: mean(stats.r3),
        hits_at_10: mean(stats.r10),
        hits_at_50: mean(stats.r50),
        auc: mean(stats.auc),
    }
}
