//! Edges that occur more than once in a dataset, in the same or in reverse direction.
//!
//! An edge and its reverse lie in a bucket and its transpose, in whichever edge set. So each such pair of buckets is
//! processed by itself: its edges are sorted by their two entities, in as many rounds as memory requires. Each round
//! takes the entity pairs whose hash belongs to it.

use std::sync::{Mutex, PoisonError};

use pbg_core::graph::{Bucket, EdgeColumns};

use super::error::DescribeError;
use super::numbering::{EntityNumbering, NumberedEdge};
use super::reading::{self, EdgeProgress, ReadingThreads};
use crate::EdgeSet;

/// Maximum bytes that all threads together take for edges that they sort.
const MOST: u64 = 1 << 30;
/// Minimum bytes that a thread takes.
const LEAST: u64 = 1 << 20;

/// Counts of repeated edges, by edge set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repeats {
    /// By set: edges beyond the first of each group of equal edges.
    pub(super) duplicates: Vec<u64>,
    /// By set and other set: edges of the set that the other set has too.
    pub(super) also_in: Vec<Vec<u64>>,
    /// By set and other set, which may be the same: edges of the set whose entities occur in reverse order in an edge
    /// of the other set, of any relation.
    pub(super) reversed_in: Vec<Vec<u64>>,
}

impl Repeats {
    fn new(sets: usize) -> Self {
        Self {
            duplicates: vec![0; sets],
            also_in: vec![vec![0; sets]; sets],
            reversed_in: vec![vec![0; sets]; sets],
        }
    }

    fn add(&mut self, other: &Self) {
        let own = std::iter::once(&mut self.duplicates);
        let own = own.chain(&mut self.also_in).chain(&mut self.reversed_in);
        let others = std::iter::once(&other.duplicates);
        let others = others.chain(&other.also_in).chain(&other.reversed_in);
        for (sum, more) in own.flatten().zip(others.flatten()) {
            *sum += more;
        }
    }
}

/// Edge between two entities. Sorting brings equal edges together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PairEdge {
    /// Smaller and larger number of the two entities.
    entities: (u64, u64),
    /// Whether the edge goes from the larger to the smaller number.
    backwards: bool,
    rel: u32,
    set: u32,
}

/// Edges of a bucket and its transpose whose entities have the hash of one round.
struct Task {
    bucket: Bucket,
    edges: u64,
    round: u64,
    rounds: u64,
}

/// Buffers that a thread reuses for every task.
#[derive(Default)]
struct Buffers {
    read: EdgeColumns,
    sorted: Vec<PairEdge>,
}

/// Counts repeated edges of `sets` with at most about `memory` bytes.
pub(super) fn count(
    sets: &[EdgeSet],
    numbering: &EntityNumbering,
    threads: ReadingThreads,
    memory: u64,
    step: &mut EdgeProgress<'_>,
) -> Result<Repeats, DescribeError> {
    let reading = threads.count() as u64 * reading::BYTES_PER_THREAD;
    let room = memory.saturating_sub(reading).min(MOST) / threads.count() as u64;
    let tasks = tasks(sets, room.max(LEAST));
    let sum = Mutex::new(Repeats::new(sets.len()));
    reading::run_tasks(&tasks, threads, step, |buffers: &mut Buffers, task| {
        let read = task.collect(sets, numbering, buffers)?;
        buffers.sorted.sort_unstable();
        let found = repeats(&buffers.sorted, sets.len());
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.add(&found);
        Ok(read)
    })?;
    Ok(sum.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Returns all pairs of buckets, each in as many rounds as its edges need with `room` bytes.
fn tasks(sets: &[EdgeSet], room: u64) -> Vec<Task> {
    let partitions = sets.iter().map(|set| set.grid().0.max(set.grid().1)).max();
    let partitions = partitions.unwrap_or(0);
    let pairs = (0..partitions).flat_map(|l| (l..partitions).map(move |r| Bucket::new(l, r)));
    let mut tasks = Vec::new();
    for bucket in pairs {
        let lengths = sets
            .iter()
            .flat_map(|set| pair(bucket).map(move |bucket| set.bucket_len(bucket)));
        let edges: u64 = lengths.sum();
        // The factor 2: hashing distributes edges unevenly, and a growing vector doubles its capacity.
        let bytes = edges * 2 * size_of::<PairEdge>() as u64;
        let rounds = bytes.div_ceil(room);
        tasks.extend((0..rounds).map(|round| Task {
            bucket,
            edges,
            round,
            rounds,
        }));
    }
    tasks
}

/// Returns a bucket and its transpose; a bucket on the diagonal only once.
fn pair(bucket: Bucket) -> impl Iterator<Item = Bucket> {
    let transpose = Bucket::new(bucket.rhs, bucket.lhs);
    std::iter::once(bucket).chain((transpose != bucket).then_some(transpose))
}

impl Task {
    /// Collects the edges of the task in `buffers.sorted`. Returns how many edges were read.
    fn collect(
        &self,
        sets: &[EdgeSet],
        numbering: &EntityNumbering,
        Buffers { read, sorted }: &mut Buffers,
    ) -> Result<u64, DescribeError> {
        sorted.clear();
        sorted.reserve((self.edges / self.rounds) as usize);
        for (index, set) in sets.iter().enumerate() {
            reading::for_each_part_in_order(set, pair(self.bucket), read, |bucket, edges| {
                for NumberedEdge { lhs, rel, rhs } in numbering.of_bucket(bucket).all(edges) {
                    let between = PairEdge {
                        entities: (lhs.min(rhs), lhs.max(rhs)),
                        backwards: lhs > rhs,
                        rel,
                        set: index as u32,
                    };
                    if self.rounds == 1 || hash(between.entities) % self.rounds == self.round {
                        sorted.push(between);
                    }
                }
                Ok(())
            })?;
        }
        Ok(self.edges)
    }
}

/// Returns a hash of two entities (the multiplier is that of SplitMix64).
fn hash((a, b): (u64, u64)) -> u64 {
    let mix = |x: u64| (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = mix(mix(a).wrapping_add(b));
    mixed ^ mixed >> 27
}

/// Counts the repetitions in `sorted` edges of `sets` sets.
fn repeats(sorted: &[PairEdge], sets: usize) -> Repeats {
    let mut found = Repeats::new(sets);
    for edges in sorted.chunk_by(|a, b| a.entities == b.entities) {
        // Most pairs of entities have only one edge.
        if edges.len() == 1 {
            continue;
        }
        let at = edges.partition_point(|edge| !edge.backwards);
        let (forwards, backwards) = edges.split_at(at);
        for (own, reversed) in [(forwards, backwards), (backwards, forwards)] {
            let of = |edges: &[PairEdge]| -> Vec<bool> {
                let mut has = vec![false; sets];
                edges.iter().for_each(|edge| has[edge.set as usize] = true);
                has
            };
            let reversed_in = of(reversed);
            for equal in own.chunk_by(|a, b| a.rel == b.rel) {
                let also_in = of(equal);
                for own in equal.chunk_by(|a, b| a.set == b.set) {
                    let (set, count) = (own[0].set as usize, own.len() as u64);
                    found.duplicates[set] += count - 1;
                    for other in 0..sets {
                        if also_in[other] && other != set {
                            found.also_in[set][other] += count;
                        }
                        if reversed_in[other] {
                            found.reversed_in[set][other] += count;
                        }
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A comparison of every edge with every other one gives the same counts.
        #[test]
        fn what_is_sorted_is_found(
            edges in prop::collection::vec((0_u64..4, 0_u32..2, 0_u64..4, 0_u32..3), 0..60),
        ) {
            let mut sorted: Vec<PairEdge> = edges
                .iter()
                .map(|&(lhs, rel, rhs, set)| PairEdge {
                    entities: (lhs.min(rhs), lhs.max(rhs)),
                    backwards: lhs > rhs,
                    rel,
                    set,
                })
                .collect();
            sorted.sort_unstable();
            let found = repeats(&sorted, 3);
            for set in 0..3 {
                let own: Vec<_> = edges.iter().filter(|edge| edge.3 == set as u32).collect();
                let distinct: BTreeSet<_> = own.iter().collect();
                prop_assert_eq!(found.duplicates[set], (own.len() - distinct.len()) as u64);
                for other in 0..3 {
                    let others = || edges.iter().filter(|edge| edge.3 == other as u32);
                    let also = own.iter().filter(|a| {
                        others().any(|b| (a.0, a.1, a.2) == (b.0, b.1, b.2))
                    });
                    let expected = if set == other { 0 } else { also.count() as u64 };
                    prop_assert_eq!(found.also_in[set][other], expected);
                    let reversed = own.iter().filter(|a| {
                        a.0 != a.2 && others().any(|b| (a.0, a.2) == (b.2, b.0))
                    });
                    prop_assert_eq!(found.reversed_in[set][other], reversed.count() as u64);
                }
            }
        }
    }
}
