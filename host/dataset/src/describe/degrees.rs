//! Degrees of entities in the trained edges.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;

use super::error::DescribeError;
use super::numbering::{EntityNumbering, NumberedEdge};
use super::reading::{self, EdgeProgress, ReadingThreads};
use crate::Dataset;

/// Distribution of the degrees of a type's entities. An edge counts at both of its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Degrees {
    /// Mean over all entities.
    pub mean: f64,
    /// Median.
    pub median: u32,
    /// 90th percentile.
    pub p90: u32,
    /// 99th percentile.
    pub p99: u32,
    /// Maximum.
    pub max: u32,
    /// Number of entities without edges.
    pub none: u64,
}

/// Returns the memory in bytes that counting takes, besides the buffers for reading edges.
pub(super) fn bytes(numbering: &EntityNumbering) -> u64 {
    numbering.total() * size_of::<AtomicU32>() as u64
}

/// Counts the edges of `trained` at every entity. Returns the degrees by entity type, in the order of their names.
pub(super) fn count(
    dataset: &Dataset,
    numbering: &EntityNumbering,
    trained: &[String],
    threads: ReadingThreads,
    step: &mut EdgeProgress<'_>,
) -> Result<Vec<Degrees>, DescribeError> {
    let entities = 0..numbering.total();
    let mut counts: Vec<AtomicU32> = entities.map(|_| AtomicU32::default()).collect();
    for name in reading::present(dataset, trained) {
        let set = dataset.edge_set(name)?;
        reading::for_each_part(&set, threads, step, |bucket, edges| {
            for NumberedEdge { lhs, rhs, .. } in numbering.of_bucket(bucket).all(edges) {
                counts[lhs as usize].fetch_add(1, Ordering::Relaxed);
                counts[rhs as usize].fetch_add(1, Ordering::Relaxed);
            }
        })?;
    }
    let mut rest = &mut counts[..];
    let types = dataset.manifest().entities.values();
    let degrees = types.map(|info| {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(info.total() as usize);
        rest = others;
        summarize(own)
    });
    Ok(degrees.collect())
}

/// Computes the distribution of the degrees of a type. Reorders `counts`.
fn summarize(counts: &mut [AtomicU32]) -> Degrees {
    if counts.is_empty() {
        return Degrees::default();
    }
    let value = |count: &mut AtomicU32| u64::from(*count.get_mut());
    let sum: u64 = counts.iter_mut().map(value).sum();
    let none = counts.iter_mut().map(value).filter(|&count| count == 0);
    let none = none.count() as u64;
    let len = counts.len();
    let mut quantile = |share: usize| {
        // Smallest count that at least `share` percent of the entities do not exceed.
        let at = (len * share).div_ceil(100).max(1) - 1;
        let order = |a: &AtomicU32, b: &AtomicU32| {
            a.load(Ordering::Relaxed).cmp(&b.load(Ordering::Relaxed))
        };
        *counts.select_nth_unstable_by(at, order).1.get_mut()
    };
    Degrees {
        mean: sum as f64 / len as f64,
        median: quantile(50),
        p90: quantile(90),
        p99: quantile(99),
        max: quantile(100),
        none,
    }
}
