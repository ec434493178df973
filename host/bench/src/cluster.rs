//! How busy several trainers are that share a pass: real leases and settlements on a real ledger, and buckets that take
//! a given time instead of being trained.

use std::thread;
use std::time::{Duration, Instant};

use pbg_core::graph::Bucket;
use pbg_core::strategy::StrategyError;
use pbg_lab::rounds::rounds;
use pbg_train::{Actor, Rehearsed, RunError, Scene, rehearse};
use rand::{RngExt as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// How long buckets take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Seconds that a bucket takes on average.
    pub seconds: f64,
    /// Most that a bucket takes more or less, as a share of that.
    pub jitter: f64,
}

impl Pace {
    /// How long `bucket` takes: always as long, whoever trains it.
    fn of(self, bucket: Bucket) -> Duration {
        let seed = u64::from(bucket.lhs) << 32 | u64::from(bucket.rhs);
        let draw = 2.0 * Xoshiro256PlusPlus::seed_from_u64(seed).random::<f64>() - 1.0;
        Duration::from_secs_f64((self.seconds * (1.0 + self.jitter * draw)).max(0.0))
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterReport {
    /// Who picked the buckets.
    pub order: String,
    /// Partitions of the left side.
    pub partitions: u32,
    /// Trainers.
    pub machines: u32,
    /// Buckets that were trained.
    pub buckets: u64,
    /// Seconds that a bucket takes on average.
    pub bucket_seconds: f64,
    /// Whether all partitions grew from one bucket.
    pub tree_init: bool,
    /// Seconds from the first lease to the last settlement.
    pub seconds: f64,
    /// So many buckets would have taken as long, one after the other.
    pub rounds: f64,
    /// Rounds if no trainer ever waited.
    pub ideal_rounds: u64,
    /// Rounds that `orders compare --machines` counts, where all buckets begin at the same time.
    pub counted_rounds: u64,
    /// Share of the time in which each trainer trained.
    pub busy: Vec<f64>,
    /// Their mean.
    pub mean_busy: f64,
    /// Share of the time in which trainers stood still for the ledger: to lease, the order's answer included, and until
    /// the ledger had what they had trained.
    pub ledger: f64,
    /// Share of the time in which trainers waited for partitions that others had.
    pub waited: f64,
    /// Transactions of the ledger.
    pub transactions: u64,
    /// Median of the milliseconds from asking for a transaction until it was applied.
    pub transaction_ms_p50: f64,
    /// That of the slowest hundredth.
    pub transaction_ms_p99: f64,
    /// Partitions that were loaded, by all trainers together.
    pub loads: u64,
    /// Partitions that were written.
    pub writes: u64,
}

/// Has `actors` train the pass of `scene`, all of them at once.
///
/// # Errors
/// When the order fails, or the ledger does not answer.
pub fn cluster(
    scene: &Scene,
    pace: Pace,
    mut actors: Vec<Actor>,
) -> Result<ClusterReport, RunError> {
    let mut order = String::new();
    let mut counted_rounds = 0;
    if let Some(actor) = actors.first_mut() {
        order = actor.order.id().to_string();
        counted_rounds = count(scene, actor)?;
    }
    let rehearsed = thread::scope(|scope| {
        let start = |actor| {
            let mut train = move |bucket| thread::sleep(pace.of(bucket));
            scope.spawn(move || rehearse(actor, scene, &mut train))
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

fn count(scene: &Scene, actor: &mut Actor) -> Result<u64, RunError> {
    let order = actor.order.as_mut();
    let counted = rounds(order, &scene.pass, scene.trainers, scene.tree_init);
    let counted = counted.map_err(|reason| StrategyError {
        strategy: actor.order.id().clone(),
        function: "pick",
        reason: reason.into(),
        cause: pbg_core::strategy::Cause::Strategy,
    })?;
    Ok(counted.rounds)
}

fn report(scene: &Scene, pace: Pace, rehearsed: &[Rehearsed]) -> ClusterReport {
    let seconds = span(rehearsed);
    let share = |part: Duration| part.as_secs_f64() / seconds.max(f64::MIN_POSITIVE);
    let machines = rehearsed.len().max(1) as f64;
    let mean = |part: &dyn Fn(&Rehearsed) -> Duration| {
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

/// Seconds from when the first trainer could lease until the last one was done.
fn span(rehearsed: &[Rehearsed]) -> f64 {
    let started: Option<Instant> = rehearsed.iter().map(|one| one.started).min();
    let ended = rehearsed.iter().map(|one| one.ended).max();
    let span = started.zip(ended).map(|(started, ended)| ended - started);
    span.map_or(0.0, |span| span.as_secs_f64())
}

/// The smallest of `sorted` that `share` of them do not exceed.
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
        let pace = Pace {
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
