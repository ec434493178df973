//! How many trained edges entities have.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;

use super::numbering::{Ends, Numbering};
use super::reading::{self, Step, Threads};
use super::{DescribeError, present};
use crate::dataset::Dataset;

/// How many edges the entities of a type have: an edge counts on both of its sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Degrees {
    /// The mean over all entities.
    pub mean: f64,
    /// Half of the entities have at most so many.
    pub median: u32,
    /// 90 % of the entities have at most so many.
    pub p90: u32,
    /// 99 % of the entities have at most so many.
    pub p99: u32,
    /// The most that an entity has.
    pub max: u32,
    /// Entities that have none.
    pub none: u64,
}

/// Returns what counting takes, besides the edges that are being read.
pub(super) fn bytes(numbering: &Numbering) -> u64 {
    numbering.total() * size_of::<AtomicU32>() as u64
}

/// Counts the edges of `trained` at every entity; the result is by entity type, in the order of their names.
pub(super) fn count(
    (dataset, numbering): (&Dataset, &Numbering),
    trained: &[String],
    threads: Threads,
    step: &mut Step<'_>,
) -> Result<Vec<Degrees>, DescribeError> {
    let mut counts: Vec<AtomicU32> = std::iter::repeat_with(AtomicU32::default)
        .take(numbering.total() as usize)
        .collect();
    for name in present(dataset, trained) {
        let set = dataset.edge_set(name)?;
        reading::for_each_part(&set, threads, step, |bucket, edges| {
            for Ends { lhs, rhs, .. } in numbering.of_bucket(bucket).all(edges) {
                counts[lhs as usize].fetch_add(1, Ordering::Relaxed);
                counts[rhs as usize].fetch_add(1, Ordering::Relaxed);
            }
        })?;
    }
    let mut rest = &mut counts[..];
    let types = dataset.manifest().entities.values();
    Ok(types
        .map(|info| {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(info.total() as usize);
            rest = others;
            summarize(own)
        })
        .collect())
}

/// Sums up the degrees of a type; leaves them in another order.
fn summarize(counts: &mut [AtomicU32]) -> Degrees {
    if counts.is_empty() {
        return Degrees::default();
    }
    let value = |count: &mut AtomicU32| u64::from(*count.get_mut());
    let sum: u64 = counts.iter_mut().map(value).sum();
    let none = counts
        .iter_mut()
        .filter_map(|count| (*count.get_mut() == 0).then_some(()));
    let none = none.count() as u64;
    let len = counts.len();
    let mut quantile = |share: usize| {
        // The smallest that at least `share` percent are not above.
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
