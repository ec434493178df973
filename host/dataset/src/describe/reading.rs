//! Reading of an edge set in parts, on several threads.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pbg_core::graph::{Bucket, EdgeColumns};

use super::error::DescribeError;
use crate::write::BATCH_ROWS;
use crate::{Dataset, EdgeSet};

/// Memory limit in bytes that stands for none.
pub(super) const UNLIMITED: u64 = u64::MAX;

/// Size in bytes of a thread's buffers for the part that it reads: the bytes of the file and the decoded columns.
pub const BYTES_PER_THREAD: u64 = 2 * BATCH_ROWS as u64 * 16;
/// Like [`BYTES_PER_THREAD`], for the largest record batch of `dataset`.
pub(super) fn bytes_per_thread(dataset: &Dataset) -> u64 {
    let sets = dataset.manifest().edge_sets.values();
    let rows = sets.flat_map(|set| set.batches.iter().map(|batch| batch.rows));
    2 * rows.max().unwrap_or(0) * 16
}

/// Maximum number of threads; more would be limited by memory bandwidth.
const MOST_THREADS: usize = 8;

/// Number of reading threads whose buffers fit in a quarter of the memory limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadingThreads(usize);

impl ReadingThreads {
    pub(super) fn new(wanted: Option<usize>, memory: u64) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let affordable = (memory / 4 / BYTES_PER_THREAD) as usize;
        let threads = wanted.unwrap_or_else(cores).min(MOST_THREADS);
        Self(threads.min(affordable).max(1))
    }

    pub(super) const fn count(self) -> usize {
        self.0
    }
}

/// Callback on the calling thread with the number of edges read since the last call. It can stop the work.
pub type EdgeProgress<'s> = dyn FnMut(u64) -> ControlFlow<()> + 's;

/// Calls `with` for all edges of `set`, part by part in any order, on several threads.
pub(super) fn for_each_part(
    set: &EdgeSet,
    threads: ReadingThreads,
    step: &mut EdgeProgress<'_>,
    with: impl Fn(Bucket, &EdgeColumns) + Sync,
) -> Result<(), DescribeError> {
    let read = |edges: &mut EdgeColumns, (bucket, rows): &(Bucket, Range<u64>)| {
        set.read_into(*bucket, rows.clone(), edges)?;
        with(*bucket, edges);
        Ok(edges.len() as u64)
    };
    run_tasks(&parts(set, all_buckets(set.grid())), threads, step, read)
}

/// Calls `with` for all edges of `set`, part by part in stored order.
pub(super) fn for_each_part_in_order(
    set: &EdgeSet,
    buckets: impl Iterator<Item = Bucket>,
    edges: &mut EdgeColumns,
    mut with: impl FnMut(Bucket, &EdgeColumns) -> Result<(), DescribeError>,
) -> Result<(), DescribeError> {
    for (bucket, rows) in parts(set, buckets) {
        set.read_into(bucket, rows, edges)?;
        with(bucket, edges)?;
    }
    Ok(())
}

/// Executes `work` for every task, on several threads, each with its own state. `work` returns the number of edges it
/// read.
pub(super) fn run_tasks<T: Sync, S: Default>(
    tasks: &[T],
    threads: ReadingThreads,
    step: &mut EdgeProgress<'_>,
    work: impl Fn(&mut S, &T) -> Result<u64, DescribeError> + Sync,
) -> Result<(), DescribeError> {
    let (next, read) = (AtomicUsize::new(0), AtomicU64::new(0));
    let ended = AtomicBool::new(false);
    let take = |state: &mut S| -> Result<bool, DescribeError> {
        let task = tasks.get(next.fetch_add(1, Ordering::Relaxed));
        let Some(task) = task.filter(|_| !ended.load(Ordering::Relaxed)) else {
            return Ok(false);
        };
        let done = work(state, task);
        let done = done.inspect_err(|_| ended.store(true, Ordering::Relaxed))?;
        read.fetch_add(done, Ordering::Relaxed);
        Ok(true)
    };
    let helper = || {
        let mut state = S::default();
        while take(&mut state)? {}
        Ok(())
    };
    std::thread::scope(|scope| {
        let helpers = threads.count().min(tasks.len()).saturating_sub(1);
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(helper)).collect();
        let mut own = Ok(());
        let mut state = S::default();
        while own.is_ok() {
            own = match take(&mut state) {
                Ok(true) => report(step, read.swap(0, Ordering::Relaxed)),
                Ok(false) => break,
                Err(error) => Err(error),
            };
        }
        if own.is_err() {
            ended.store(true, Ordering::Relaxed);
        }
        let joined = helpers.into_iter().map(|helper| match helper.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.fold(own, Result::and)
    })
}

/// Calls `step`, and returns an error if it stops the work.
pub(super) fn report(step: &mut EdgeProgress<'_>, edges: u64) -> Result<(), DescribeError> {
    match step(edges) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(DescribeError::Cancelled),
    }
}

/// Returns the buckets of a grid, in the order of the file.
pub(super) fn all_buckets((lhs, rhs): (u32, u32)) -> impl Iterator<Item = Bucket> {
    (0..lhs).flat_map(move |l| (0..rhs).map(move |r| Bucket::new(l, r)))
}

/// Divides buckets into row ranges of one record batch each.
fn parts(set: &EdgeSet, buckets: impl Iterator<Item = Bucket>) -> Vec<(Bucket, Range<u64>)> {
    let mut parts = Vec::new();
    for bucket in buckets {
        let len = set.bucket_len(bucket);
        let starts = (0..len).step_by(BATCH_ROWS);
        parts.extend(starts.map(|start| (bucket, start..len.min(start + BATCH_ROWS as u64))));
    }
    parts
}

/// Returns those of `names` that are edge sets of `dataset`.
pub(super) fn present<'n>(
    dataset: &Dataset,
    names: &'n [String],
) -> impl Iterator<Item = &'n String> {
    let sets = &dataset.manifest().edge_sets;
    names.iter().filter(move |name| sets.contains_key(*name))
}
