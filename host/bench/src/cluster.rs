//! Utilization of several trainers that share a pass: leases and settlements are real, on a real ledger, but each
//! bucket sleeps for a given time instead of being trained.

use std::thread;
use std::time::{Duration, Instant};

use pbg_core::graph::Bucket;
use pbg_core::strategy::StrategyError;
use pbg_distributed::{Scenario, SimReport, SimTrainer, simulate_trainer};
use pbg_lab::cluster_simulation::simulate;
use pbg_model::RunError;
use rand::{RngExt as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Distribution of the training times of buckets.
#[derive(Clone, Copy, Debug)]
pub struct BucketDuration {
    /// Mean time of a bucket, in seconds.
    pub seconds: f64,
    /// Largest deviation from the mean, as a share of it.
    pub jitter: f64,
}

impl BucketDuration {
    /// Returns the time of `bucket`, which does not depend on the trainer.
    fn of(self, bucket: Bucket) -> Duration {
        let seed = u64::from(bucket.lhs) << 32 | u64::from(bucket.rhs);
        let draw = 2.0 * Xoshiro256PlusPlus::seed_from_u64(seed).random::<f64>() - 1.0;
        Duration::from_secs_f64((self.seconds * (1.0 + self.jitter * draw)).max(0.0))
    }
}

/// Results of `bench cluster`.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterReport {
    /// Name of the order that picked the buckets.
    pub order: String,
    /// Number of partitions on the left side.
    pub partitions: u32,
    /// Number of trainers.
    pub machines: u32,
    /// Number of buckets trained.
    pub buckets: u64,
    /// Mean time of a bucket, in seconds.
    pub bucket_seconds: f64,
    /// Whether `tree_init` was set: every bucket of the pass, except the first, had a partition that was already
    /// leased.
    pub tree_init: bool,
    /// Seconds from the first lease to the last settlement.
    pub seconds: f64,
    /// `seconds`, in mean bucket times.
    pub rounds: f64,
    /// Number of rounds if no trainer ever waited.
    pub ideal_rounds: u64,
    /// Number of rounds that `orders compare --machines` predicts, where every bucket takes one round.
    pub counted_rounds: u64,
    /// For each trainer, the share of the time in which it trained.
    pub busy: Vec<f64>,
    /// Mean of `busy`.
    pub mean_busy: f64,
    /// Share of the time in which trainers waited for the ledger: to lease, including calls of the order, and for their
    /// settlements to be applied.
    pub ledger: f64,
    /// Share of the time in which trainers waited for partitions that other trainers held.
    pub waited: f64,
    /// Number of ledger transactions.
    pub transactions: u64,
    /// Median time of a transaction until it was applied, in milliseconds.
    pub transaction_ms_p50: f64,
    /// 99th percentile of the same time, in milliseconds.
    pub transaction_ms_p99: f64,
    /// Number of partitions loaded, summed over all trainers.
    pub loads: u64,
    /// Number of partitions written, summed over all trainers.
    pub writes: u64,
}

/// Trains the pass of `scene` with one thread for each of `actors`.
///
/// # Errors
/// When the order fails, or the ledger does not answer.
pub fn cluster(
    scene: &Scenario,
    pace: BucketDuration,
    mut actors: Vec<SimTrainer>,
) -> Result<ClusterReport, RunError> {
    let mut order = String::new();
    let mut counted_rounds = 0;
    if let Some(actor) = actors.first_mut() {
        order = actor.order.id().to_string();
        counted_rounds = count(scene, actor)?;
    }
    let rehearsed = thread::scope(|scope| {
        let start = |actor| {
            let mut train = move |bucket| pbg_clock::sleep(pace.of(bucket));
            scope.spawn(move || simulate_trainer(actor, scene, &mut train))
        };
        let threads: Vec<_> = actors.into_iter().map(start).collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect::<Result<Vec<_>, _>>()
    })?;
    let report = report(scene, pace, &rehearsed);
    Ok(ClusterReport {
        order,
        counted_rounds,
        ..report
    })
}

fn count(scene: &Scenario, actor: &mut SimTrainer) -> Result<u64, RunError> {
    let order = actor.order.as_mut();
    let counted = simulate(order, &scene.pass, scene.trainers, scene.tree_init);
    let counted = counted.map_err(|reason| StrategyError {
        strategy: actor.order.id().clone(),
        function: "pick",
        reason: reason.into(),
        cause: pbg_core::strategy::FaultCause::Strategy,
    })?;
    Ok(counted.rounds)
}

fn report(scene: &Scenario, pace: BucketDuration, rehearsed: &[SimReport]) -> ClusterReport {
    let seconds = span(rehearsed);
    let share = |part: Duration| part.as_secs_f64() / seconds.max(f64::MIN_POSITIVE);
    let machines = rehearsed.len().max(1) as f64;
    let mean = |part: &dyn Fn(&SimReport) -> Duration| {
        let shares = rehearsed.iter().map(|one| share(part(one)));
        shares.sum::<f64>() / machines
    };
    let (mean_busy, ledger) = (mean(&|one| one.trained), mean(&|o| o.leased + o.settled));
    let buckets: u64 = rehearsed.iter().map(|one| one.buckets).sum();
    let all = rehearsed.iter().flat_map(|one| &one.transactions);
    let mut milliseconds: Vec<f64> = all.map(|took| 1e3 * took.as_secs_f64()).collect();
    milliseconds.sort_unstable_by(f64::total_cmp);
    ClusterReport {
        order: String::new(),
        partitions: scene.pass.lhs_partitions,
        machines: scene.trainers,
        buckets,
        bucket_seconds: pace.seconds,
        tree_init: scene.tree_init,
        seconds,
        rounds: seconds / pace.seconds,
        ideal_rounds: buckets.div_ceil(u64::from(scene.trainers.max(1))),
        counted_rounds: 0,
        busy: rehearsed.iter().map(|one| share(one.trained)).collect(),
        mean_busy,
        ledger,
        waited: (1.0 - mean_busy - ledger).max(0.0),
        transactions: milliseconds.len() as u64,
        transaction_ms_p50: quantile(&milliseconds, 0.5),
        transaction_ms_p99: quantile(&milliseconds, 0.99),
        loads: rehearsed.iter().map(|one| one.loads).sum(),
        writes: rehearsed.iter().map(|one| one.writes).sum(),
    }
}

/// Returns the seconds from when the first trainer could lease until the last one ended.
fn span(rehearsed: &[SimReport]) -> f64 {
    let started: Option<Instant> = rehearsed.iter().map(|one| one.started).min();
    let ended = rehearsed.iter().map(|one| one.ended).max();
    let span = started.zip(ended).map(|(started, ended)| ended - started);
    span.map_or(0.0, |span| span.as_secs_f64())
}

/// Returns the smallest value of `sorted` that at least a share `share` of the values do not exceed.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_what_was_measured() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.5), 50.0);
        assert_eq!(quantile(&hundred, 0.99), 99.0);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_bucket_takes_as_long_whoever_trains_it() {
        let pace = BucketDuration {
            seconds: 1.0,
            jitter: 0.5,
        };
        let times: Vec<f64> = (0..100)
            .map(|lhs| pace.of(Bucket::new(lhs, 3)).as_secs_f64())
            .collect();
        assert!(times.iter().all(|seconds| (0.5..=1.5).contains(seconds)));
        assert_ne!(times[0], times[1]);
        assert_eq!(pace.of(Bucket::new(7, 3)).as_secs_f64(), times[7]);
    }
}
