//! First step: distributes the names of a block over the shards.

use super::super::assign;
use super::super::block::EdgeRows;
use super::super::job::ImportJob;
use super::super::relations::ResolvedRelation;
use super::divided_names::DividedNames;
use super::names::{self, HEAD};
use super::shard::{record, shard_of};

/// Distributor of names, with buffers that a thread reuses for every block.
pub(in super::super) struct ShardDivider {
    /// Seeds of the hashes that shuffle entities, by type.
    seeds: Vec<u64>,
    /// Shard of every name: left and right sides alternate.
    shards: Vec<u8>,
    /// Number of shards.
    count: usize,
}

impl ShardDivider {
    pub(in super::super) fn new(job: &ImportJob<'_>) -> Self {
        Self {
            seeds: job.shuffling_seeds(),
            count: job.shards,
            shards: Vec::new(),
        }
    }

    /// Divides the names of `rows`, which are ranges of `buffer`, and appends the edges without names to `records`.
    pub(in super::super) fn divide(
        &mut self,
        buffer: &[u8],
        rows: &EdgeRows,
        resolved: &[ResolvedRelation],
        records: &mut Vec<u8>,
    ) -> DividedNames {
        let Self {
            seeds,
            count,
            shards,
        } = self;
        let sides = || {
            let edges = rows.lhs.iter().zip(&rows.rhs).zip(resolved);
            edges.flat_map(|((lhs, rhs), relation)| {
                [
                    (lhs.of(buffer), relation.lhs as usize),
                    (rhs.of(buffer), relation.rhs as usize),
                ]
            })
        };
        shards.clear();
        let mut ends = vec![0; *count];
        for (name, of_type) in sides() {
            let shard = shard_of(assign::shuffling_hash(seeds[of_type], name), *count);
            shards.push(shard as u8);
            ends[shard] += (HEAD + name.len()) as u32;
        }
        let mut next = ends.clone();
        let mut end = 0;
        for (start, end_of) in next.iter_mut().zip(&mut ends) {
            *start = end;
            end += *end_of;
            *end_of = end;
        }
        let mut names = vec![0; end as usize];
        for ((name, of_type), &shard) in sides().zip(&*shards) {
            let next = &mut next[usize::from(shard)];
            let at = *next as usize;
            let end = at + HEAD + name.len();
            names[at..at + HEAD].copy_from_slice(&names::head(of_type, name.len()));
            names[at + HEAD..end].copy_from_slice(name);
            *next = end as u32;
        }
        records.reserve(resolved.len() * record(true));
        for (row, (pair, relation)) in shards.chunks_exact(2).zip(resolved).enumerate() {
            records.extend_from_slice(pair);
            records.extend_from_slice(&relation.id.to_le_bytes());
            if let Some(weight) = rows.weight.get(row) {
                records.extend_from_slice(&weight.to_le_bytes());
            }
        }
        DividedNames { names, ends }
    }
}
