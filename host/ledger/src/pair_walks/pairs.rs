//! Counts of the buckets of all pairs of partitions.

use pbg_core::graph::Bucket;

use crate::{BucketState, LedgerRecord};

/// The two partitions that a bucket needs, by their indices ([`super::Grid::group_index`]), the smaller one first.
pub(crate) type PartitionPair = [usize; 2];

/// Number of buckets of a pair that are to do, and of those that are leased or done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PairCounts {
    pub(super) to_do: u32,
    pub(super) taken: u32,
}

/// Bucket counts of all pairs.
pub(super) struct Pairs {
    pub(super) groups: usize,
    pub(super) buckets: Vec<PairCounts>,
}

impl Pairs {
    pub(super) fn of(record: &LedgerRecord) -> Self {
        let groups = record.grid().groups().count();
        let mut pairs = Self {
            groups,
            buckets: vec![PairCounts::default(); groups * groups],
        };
        for (index, state) in record.work.buckets.iter().enumerate() {
            let Some(pair) = pair_of(record, record.grid().bucket(index)) else {
                continue;
            };
            let at = pairs.at(pair);
            match state {
                BucketState::ToDo => pairs.buckets[at].to_do += 1,
                BucketState::Leased | BucketState::Done => pairs.buckets[at].taken += 1,
                BucketState::Empty => {}
            }
        }
        pairs
    }

    pub(super) const fn at(&self, [a, b]: PartitionPair) -> usize {
        a * self.groups + b
    }

    pub(super) fn get(&self, pair: PartitionPair) -> PairCounts {
        self.buckets[self.at(pair)]
    }

    /// Whether a bucket of the pair is leased or done.
    pub(super) fn has_begun(&self, pair: &PartitionPair) -> bool {
        self.get(*pair).taken > 0
    }

    /// Returns the greatest number of buckets of a pair: two if buckets have mirror images.
    pub(super) fn width(&self) -> u32 {
        let widths = self.buckets.iter().map(|of| of.to_do + of.taken);
        widths.max().unwrap_or(0)
    }
}

/// Returns the partitions that `bucket` needs, if it needs two.
pub(super) fn pair_of(record: &LedgerRecord, bucket: Bucket) -> Option<PartitionPair> {
    let grid = record.grid();
    let mut needs = grid
        .partitions_of(bucket)
        .filter_map(|g| grid.group_index(g));
    let (a, b) = (needs.next()?, needs.next()?);
    Some([a.min(b), a.max(b)])
}
