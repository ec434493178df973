//! Memory budget of an import.
//!
//! The names of all entities are in memory if they fit. The rest of the limit is for buffers, which can be small.

use super::block::BLOCK_BYTES;
use super::on_disk::MOST;
use super::types::Types;
use super::{ImportError, ImportOptions};

/// Bytes of buffers if there is no limit.
const DEFAULT_BUFFERS: u64 = 256 << 20;
/// Minimum limit in bytes: buffers for one thread, and some names.
pub const LEAST: u64 = 32 << 20;
/// Bytes per block of text, including lines, numbers and records, which each take about as much as the text.
const BYTES_PER_BLOCK: u64 = 4 * BLOCK_BYTES as u64;
/// Bytes per entity while partitions are assigned, and bytes per entity of the result.
const PLACING: u64 = 28;
const PLACES: u64 = 8;
/// Bytes per chunk and bucket while edges are sorted: a count.
const PER_COUNT: u64 = 4;
/// Bytes per thread and bucket while edges are sorted: the place of the next edge.
const PER_NEXT: u64 = 8;

/// Memory budget of one import.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryBudget {
    limit: Option<u64>,
    /// Limit for names, in bytes.
    names: Option<u64>,
    threads: usize,
}

impl MemoryBudget {
    pub(super) fn new(options: &ImportOptions, threads: usize) -> Result<Self, ImportError> {
        let limit = options.memory;
        if limit.is_some_and(|limit| limit < LEAST) {
            let what = format!(
                "an import takes at least {} MiB of memory; allow more with `--memory`",
                LEAST >> 20
            );
            return Err(ImportError::usage(what));
        }
        let reading = limit.map(|limit| limit / 4);
        let names = limit.zip(reading).map(|(limit, reading)| limit - reading);
        Ok(Self {
            limit,
            names: names.or(options.names_memory),
            threads,
        })
    }

    /// Returns the bytes for reading: a quarter of the limit. The rest is for names.
    fn reading(&self) -> u64 {
        self.limit.map_or(DEFAULT_BUFFERS, |limit| limit / 4)
    }

    /// Returns the number of threads that read concurrently. Each has its current block and its own tables.
    pub(super) fn reading_threads(&self) -> usize {
        let affordable = self.reading() / (2 * BYTES_PER_BLOCK);
        self.threads.min(affordable as usize).max(1)
    }

    /// Returns the number of blocks that circulate while edges are read.
    pub(super) fn blocks(&self) -> usize {
        let threads = self.reading_threads();
        let share = (self.reading() / BYTES_PER_BLOCK) as usize;
        share
            .saturating_sub(threads)
            .clamp(threads + 1, 4 * threads + 2)
    }

    /// Checks that the names read so far, and later their partitions and offsets, fit next to the buffers.
    pub(super) fn check_names(&self, types: &Types) -> Result<(), ImportError> {
        let Some(limit) = self.names else {
            return Ok(());
        };
        let (names, entities) = names(types);
        let needed = names + PLACING * entities;
        if needed <= limit {
            return Ok(());
        }
        let what = format!(
            "the names of {entities} entities take {} MiB, but there are only {} MiB of memory for them",
            needed.div_ceil(1 << 20),
            limit >> 20
        );
        Err(ImportError::Names(what))
    }

    /// Returns the limit in bytes for the names of one shard, for each thread that numbers shards.
    pub(super) fn shard_bytes(&self) -> Option<u64> {
        self.names
            .map(|names| names / self.reading_threads() as u64)
    }

    /// Returns the buffer size in bytes of each shard's file. All of them together take an eighth of the limit.
    pub(super) fn shard_buffer(&self) -> usize {
        let buffers = self.limit.unwrap_or(DEFAULT_BUFFERS).min(DEFAULT_BUFFERS) / 8;
        buffers as usize / MOST
    }

    /// Returns the number of edges per chunk that a thread sorts.
    pub(super) fn chunk_rows(
        &self,
        types: &Types,
        edges: u64,
        record: usize,
        buckets: usize,
    ) -> Result<u64, ImportError> {
        let (names, entities) = names(types);
        let taken = names + PLACES * entities;
        let share = self
            .limit
            .map_or(DEFAULT_BUFFERS, |limit| limit.saturating_sub(taken))
            / 2;
        // A chunk is in memory twice, in read order and sorted, with the bucket of each edge.
        let row = 2 * record + size_of::<u32>();
        let rows = (share / (self.threads * row) as u64).clamp(1 << 12, 1 << 20);
        let chunks = edges.div_ceil(rows);
        let sorted_at_once = chunks.min(self.threads as u64);
        let counts = buckets as u64 * (chunks * PER_COUNT + sorted_at_once * PER_NEXT);
        // Without a limit, the memory that names may take is an estimate of what is free.
        let room = match self.limit {
            Some(_) => share,
            None => self.names.unwrap_or(u64::MAX),
        };
        if counts > room {
            let what = format!(
                "sorting {edges} edges into {buckets} buckets takes {} MiB, but only {} MiB are left",
                counts.div_ceil(1 << 20),
                room >> 20
            );
            return Err(ImportError::Memory(what));
        }
        Ok(rows)
    }
}

/// Returns the bytes and the number of all names.
fn names(types: &Types) -> (u64, u64) {
    let sizes = types.names.iter().map(|names| names.interner.size());
    sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
}
