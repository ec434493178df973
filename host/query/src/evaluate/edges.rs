//! Reads the edges to rank in blocks: all edges of a set, or a sample.

use std::collections::HashSet;
use std::ops::Range;

use pbg_core::batching;
use pbg_core::graph::{Bucket, EdgeColumns};
use pbg_core::seed::{StreamPurpose, stream};
use pbg_dataset::EdgeSet;
use pbg_model::error::RunError;
use pbg_model::model_bytes::READ_ROWS;
use rand::RngExt;

use super::ranked_edge::RankedEdge;
use super::view::ModelView;

/// Sets of at most this many edges are sampled from a shuffled list of their positions.
pub(super) const SHUFFLED: u64 = 1 << 24;

/// Number of edges that are read and summed up together.
pub(crate) const EDGES: u64 = 1 << 16;

/// Reader of the edges of a set in stored order, bucket by bucket. It skips edges without an embedding and edges that
/// the view leaves out.
pub(crate) struct RankedEdgeReader<'a> {
    view: ModelView<'a>,
    set: &'a EdgeSet,
    buckets: Vec<Bucket>,
    /// Position in `buckets`, and the next row of that bucket.
    bucket: usize,
    row: u64,
    /// Number of edges that are ranked, and of those that are skipped.
    counts: EdgeCounts,
    /// Number of ranked edges before the bucket; if some edges are skipped, before the current row.
    position: u64,
    /// Positions of the sample, in ascending order; `None` if all edges are ranked.
    drawn: Option<Vec<u64>>,
    /// Number of sampled positions that were read.
    read: usize,
}

/// Numbers of ranked and of skipped edges in a set.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeCounts {
    /// Edges that are ranked.
    pub ranked: u64,
    /// Edges with an entity or a relation without an embedding.
    pub without_embedding: u64,
    /// Other edges with an entity or relation that no trained edge has, if these are left out.
    pub unseen: u64,
}

impl<'a> RankedEdgeReader<'a> {
    /// Creates a reader of `set`, or of a uniform sample of `limit` of its edges.
    ///
    /// # Errors
    /// When some edges are skipped and cannot be counted.
    pub(crate) fn new(
        view: ModelView<'a>,
        set: &'a EdgeSet,
        limit: Option<usize>,
        seed: u64,
    ) -> Result<Self, RunError> {
        let counts = match view.leaves_out() {
            true => count(&view, set)?,
            false => EdgeCounts {
                ranked: set.len(),
                ..EdgeCounts::default()
            },
        };
        let limit = limit.map(|n| n as u64).filter(|&n| n < counts.ranked);
        Ok(Self {
            view,
            set,
            buckets: set.filled_buckets(),
            bucket: 0,
            row: 0,
            counts,
            position: 0,
            drawn: limit.map(|n| sample(counts.ranked, n, seed)),
            read: 0,
        })
    }

    /// Returns the number of edges in all blocks.
    pub(super) fn len(&self) -> u64 {
        match &self.drawn {
            Some(drawn) => drawn.len() as u64,
            None => self.counts.ranked,
        }
    }

    /// Returns how many edges of the set can be ranked, sampled or not, and how many are skipped.
    pub(super) const fn counts(&self) -> EdgeCounts {
        self.counts
    }

    /// Moves to the edge `position`, counted from the first edge.
    ///
    /// # Errors
    /// When some edges are skipped, and the edges before `position` cannot be read.
    pub(super) fn seek(&mut self, position: u64) -> Result<(), RunError> {
        (self.bucket, self.row, self.position, self.read) = (0, 0, 0, 0);
        if self.view.leaves_out() {
            let (mut left, mut passed) = (position, Vec::new());
            while left > 0 {
                self.next(left.min(READ_ROWS) as usize, &mut passed)?;
                if passed.is_empty() {
                    break;
                }
                left -= passed.len() as u64;
            }
        } else if self.drawn.is_some() {
            self.read = position as usize;
        } else {
            self.row = position;
            while let Some(bucket) = self.buckets.get(self.bucket) {
                let len = self.set.bucket_len(*bucket);
                if self.row < len {
                    break;
                }
                self.row -= len;
                self.position += len;
                self.bucket += 1;
            }
        }
        Ok(())
    }

    /// Replaces the content of `block` by the next edges, at most `count`; by none at the end.
    pub(crate) fn next(
        &mut self,
        count: usize,
        block: &mut Vec<RankedEdge>,
    ) -> Result<(), RunError> {
        block.clear();
        while block.len() < count && self.bucket < self.buckets.len() {
            let bucket = self.buckets[self.bucket];
            let len = self.set.bucket_len(bucket);
            let room = count - block.len();
            let rows = match &self.drawn {
                Some(_) if !self.view.leaves_out() => self.window(len),
                _ => self.row..len.min(self.row + room as u64),
            };
            if rows.is_empty() {
                if !self.view.leaves_out() {
                    self.position += len;
                }
                self.row = 0;
                self.bucket += 1;
                continue;
            }
            let edges = self.set.read(bucket, rows.clone())?;
            self.row = rows.end;
            if self.view.leaves_out() {
                self.take_ranked(bucket, &edges, block);
            } else if self.drawn.is_some() {
                self.take_drawn(bucket, &edges, rows.start, room, block);
            } else {
                block.extend((0..edges.len()).map(|i| RankedEdge::of(bucket, &edges, i)));
            }
        }
        Ok(())
    }

    /// Adds the sampled ones among `edges`, which are the rows of the bucket from `first` on, up to `room`.
    fn take_drawn(
        &mut self,
        bucket: Bucket,
        edges: &EdgeColumns,
        first: u64,
        room: usize,
        block: &mut Vec<RankedEdge>,
    ) {
        let first = self.position + first;
        let drawn = self.drawn.iter().flatten().skip(self.read);
        let rows = drawn.map(|at| (at - first) as usize);
        let before = block.len();
        let here = rows.take_while(|&i| i < edges.len()).take(room);
        block.extend(here.map(|i| RankedEdge::of(bucket, edges, i)));
        self.read += block.len() - before;
    }

    /// Adds those of `edges` that can be ranked and, if there is a sample, belong to it.
    fn take_ranked(&mut self, bucket: Bucket, edges: &EdgeColumns, block: &mut Vec<RankedEdge>) {
        let all = (0..edges.len()).map(|i| RankedEdge::of(bucket, edges, i));
        for edge in all.filter(|edge| self.view.is_trained(edge) && self.view.is_seen(edge)) {
            let at = self.position;
            self.position += 1;
            if self.drawn.is_some() {
                if drawn_in(&self.drawn, self.read) != Some(at) {
                    continue;
                }
                self.read += 1;
            }
            block.push(edge);
        }
    }

    /// Returns the rows of the bucket in a record batch, from the next sampled one on.
    fn window(&self, len: u64) -> Range<u64> {
        match drawn_in(&self.drawn, self.read) {
            Some(next) if next < self.position + len => {
                let start = next - self.position;
                start..len.min((start / READ_ROWS + 1) * READ_ROWS)
            }
            _ => 0..0,
        }
    }
}

/// Counts the edges of `set` that are ranked and those that are skipped.
fn count(view: &ModelView<'_>, set: &EdgeSet) -> Result<EdgeCounts, RunError> {
    let (mut counts, mut edges) = (EdgeCounts::default(), EdgeColumns::default());
    for bucket in set.filled_buckets() {
        let len = set.bucket_len(bucket);
        for start in (0..len).step_by(READ_ROWS as usize) {
            set.read_into(bucket, start..len.min(start + READ_ROWS), &mut edges)?;
            let all = (0..edges.len()).map(|i| RankedEdge::of(bucket, &edges, i));
            for edge in all {
                let count = match (view.is_trained(&edge), view.is_seen(&edge)) {
                    (false, _) => &mut counts.without_embedding,
                    (true, false) => &mut counts.unseen,
                    (true, true) => &mut counts.ranked,
                };
                *count += 1;
            }
        }
    }
    Ok(counts)
}

fn drawn_in(drawn: &Option<Vec<u64>>, at: usize) -> Option<u64> {
    drawn.as_ref()?.get(at).copied()
}

/// Draws `limit` of the positions below `len`, in ascending order.
fn sample(len: u64, limit: u64, seed: u64) -> Vec<u64> {
    let mut rng = stream(seed, StreamPurpose::Candidates, &[1]);
    let mut drawn: Vec<u64> = if len <= SHUFFLED {
        let mut order: Vec<u32> = (0..len as u32).collect();
        batching::shuffle(&mut order, &mut rng);
        order.truncate(limit as usize);
        order.into_iter().map(u64::from).collect()
    } else {
        // Floyd's algorithm needs no list of all positions (Bentley and Floyd, "A sample of brilliance", 1987).
        let mut drawn = HashSet::with_capacity(limit as usize);
        for last in len - limit..len {
            let at = rng.random_range(0..=last);
            if !drawn.insert(at) {
                drawn.insert(last);
            }
        }
        drawn.into_iter().collect()
    };
    drawn.sort_unstable();
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_distinct_and_as_many_as_asked_for() {
        for (len, limit) in [(10, 3), (1000, 999), (SHUFFLED + 5, 1000), (1 << 40, 1000)] {
            let drawn = sample(len, limit, 7);
            assert_eq!(drawn.len() as u64, limit);
            assert!(drawn.is_sorted_by(|a, b| a < b) && drawn.last() < Some(&len));
            assert_eq!(drawn, sample(len, limit, 7));
            assert_ne!(drawn, sample(len, limit, 8));
        }
    }
}
