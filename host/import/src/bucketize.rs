//! Sorting of spilled edges into an edge file with one or more batches per bucket.
//!
//! The edges of each chunk of the spill are counted by bucket. Then each chunk is sorted by bucket in memory, and its
//! runs are written to the positions that the counts determine. The result does not depend on which thread processes
//! which chunk.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pbg_core::graph::{Bucket, EdgeColumns};

use super::assign::{Assignment, DROPPED, sums_before};
use super::job::ImportJob;
use super::progress::report_progress;
use super::spill::{Spill, field};
use super::{ImportError, ImportProgress};
use pbg_dataset::manifest::EdgeSetInfo;
use pbg_dataset::write::{BATCH_ROWS, EdgeFile};
use pbg_files::{self as files, FileError, FileSummary};

/// Maximum number of buckets: with more, a chunk would have only a few edges per bucket.
const MAX_BUCKETS: usize = 1 << 20;

/// Sorts the edges of a set by bucket and writes its edge file. `relations` are the final ids by provisional id.
pub(super) fn run(
    job: &ImportJob<'_>,
    spill: &Spill,
    places: &[Assignment],
    relations: &[u32],
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(EdgeSetInfo, FileSummary), ImportError> {
    let sorter = Sorter::new(job, spill, places, relations)?;
    let counts = sorter.count(job.threads)?;
    let starts = sorter.starts(&counts);
    let path = job.folder.join(format!("edges_{}.sorted", spill.set));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path);
    let file = file.map_err(|e| FileError::new("create", &path, e))?;
    sorter.scatter(job.threads, &counts, &starts, &file, &path)?;
    let totals: Vec<u64> = (0..sorter.buckets())
        .map(|bucket| counts.iter().map(|chunk| u64::from(chunk[bucket])).sum())
        .collect();
    let target = job.folder.join(format!("edges_{}.arrow", spill.set));
    let written = write(&sorter, &totals, &file, &path, &target, progress);
    drop(file);
    files::remove(&path)?;
    written
}

struct Sorter<'a> {
    spill: &'a Spill,
    places: &'a [Assignment],
    /// Final relation and the types of both sides, by provisional relation.
    relations: Vec<(u32, u32, u32)>,
    grid: (u32, u32),
    chunk_rows: u64,
}

/// Edge with final ids and its bucket.
struct Placed {
    bucket: usize,
    lhs: u32,
    rel: u32,
    rhs: u32,
}

impl<'a> Sorter<'a> {
    fn new(
        job: &ImportJob<'_>,
        spill: &'a Spill,
        places: &'a [Assignment],
        relations: &[u32],
    ) -> Result<Self, ImportError> {
        let sides = job.relations.sides();
        let relations = relations.iter().zip(&sides);
        let relations = relations.map(|(&id, &(lhs, rhs))| (id, lhs, rhs));
        let partitions = |of: fn(&(u32, u32)) -> u32| {
            let counts = sides.iter().map(|s| places[of(s) as usize].counts().len());
            counts.max().unwrap_or(1) as u32
        };
        let grid = (partitions(|s| s.0), partitions(|s| s.1));
        let buckets = grid.0 as usize * grid.1 as usize;
        if buckets > MAX_BUCKETS {
            let (lhs, rhs) = grid;
            let what = format!(
                "{lhs} x {rhs} partitions are more than the maximum of {MAX_BUCKETS} buckets"
            );
            return Err(ImportError::usage(what));
        }
        let (memory, record) = (&job.memory, spill.record());
        let chunk_rows = memory.chunk_rows(job.types, spill.edges, record, buckets)?;
        Ok(Self {
            spill,
            places,
            relations: relations.collect(),
            grid,
            chunk_rows,
        })
    }

    fn buckets(&self) -> usize {
        self.grid.0 as usize * self.grid.1 as usize
    }

    fn chunks(&self) -> usize {
        self.spill.edges.div_ceil(self.chunk_rows) as usize
    }

    fn rows_of(&self, chunk: usize) -> (u64, usize) {
        let first = chunk as u64 * self.chunk_rows;
        let rows = (self.spill.edges - first).min(self.chunk_rows);
        (first, rows as usize)
    }

    /// Computes bucket and final ids of an edge; `None` if the edge is dropped.
    fn place(&self, record: &[u8]) -> Option<Placed> {
        let (rel, lhs_type, rhs_type) = self.relations[field(record, 1) as usize];
        let (lhs_part, lhs) = self.places[lhs_type as usize].find(field(record, 0));
        let (rhs_part, rhs) = self.places[rhs_type as usize].find(field(record, 2));
        let is_dropped = rel == super::relations::DROPPED || lhs == DROPPED || rhs == DROPPED;
        (!is_dropped).then(|| Placed {
            bucket: lhs_part as usize * self.grid.1 as usize + rhs_part as usize,
            lhs,
            rel,
            rhs,
        })
    }

    /// Counts edges per chunk and bucket.
    fn count(&self, threads: usize) -> Result<Vec<Vec<u32>>, ImportError> {
        let counts = (0..self.chunks()).map(|_| Mutex::new(vec![0; self.buckets()]));
        let counts: Vec<_> = counts.collect();
        self.for_each_chunk(threads, |chunk, records| {
            let mut counts = counts[chunk].lock().unwrap_or_else(PoisonError::into_inner);
            for record in records.chunks_exact(self.spill.record()) {
                if let Some(placed) = self.place(record) {
                    counts[placed.bucket] += 1;
                }
            }
            Ok(())
        })?;
        let counts = counts.into_iter().map(Mutex::into_inner);
        let counts = counts.map(|counts| counts.unwrap_or_else(PoisonError::into_inner));
        Ok(counts.collect())
    }

    /// Computes the first row of every bucket in the sorted file, by chunk.
    fn starts(&self, counts: &[Vec<u32>]) -> Vec<Vec<u64>> {
        let mut starts = vec![vec![0; self.buckets()]; counts.len()];
        let mut row = 0;
        for bucket in 0..self.buckets() {
            for (start, count) in starts.iter_mut().zip(counts) {
                start[bucket] = row;
                row += u64::from(count[bucket]);
            }
        }
        starts
    }

    fn scatter(
        &self,
        threads: usize,
        counts: &[Vec<u32>],
        starts: &[Vec<u64>],
        file: &File,
        path: &Path,
    ) -> Result<(), ImportError> {
        let size = self.spill.record();
        self.for_each_chunk(threads, |chunk, records| {
            let counts = &counts[chunk];
            let total: usize = counts.iter().map(|&n| n as usize).sum();
            let mut sorted = vec![0; total * size];
            let mut next: Vec<_> = sums_before(counts.iter().map(|&n| n as usize)).collect();
            for record in records.chunks_exact(size) {
                if let Some(placed) = self.place(record) {
                    let at = next[placed.bucket] * size;
                    next[placed.bucket] += 1;
                    let to = &mut sorted[at..at + size];
                    to[..4].copy_from_slice(&placed.lhs.to_le_bytes());
                    to[4..8].copy_from_slice(&placed.rel.to_le_bytes());
                    to[8..12].copy_from_slice(&placed.rhs.to_le_bytes());
                    to[12..].copy_from_slice(&record[12..]);
                }
            }
            let mut from = 0;
            for (&count, &start) in counts.iter().zip(&starts[chunk]) {
                let run = &sorted[from..from + count as usize * size];
                from += run.len();
                files::write_all_at(file, path, run, start * size as u64)?;
            }
            Ok(())
        })
    }

    /// Reads the chunks of the spill on several threads and calls `with` for each.
    fn for_each_chunk(
        &self,
        threads: usize,
        with: impl Fn(usize, &[u8]) -> Result<(), ImportError> + Sync,
    ) -> Result<(), ImportError> {
        let next = AtomicUsize::new(0);
        let run = || {
            let mut records = Vec::new();
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                if chunk >= self.chunks() {
                    return Ok(());
                }
                let (first, rows) = self.rows_of(chunk);
                records.resize(rows * self.spill.record(), 0);
                let read = self.spill.read(first, &mut records).map_err(Into::into);
                let result = read.and_then(|()| with(chunk, &records));
                if result.is_err() {
                    next.store(self.chunks(), Ordering::Relaxed);
                    return result;
                }
            }
        };
        std::thread::scope(|scope| {
            let threads = 0..threads.min(self.chunks());
            let running: Vec<_> = threads.map(|_| scope.spawn(run)).collect();
            let mut ended = running.into_iter().map(|thread| thread.join());
            ended.try_for_each(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }
}

/// Writes the sorted records as record batches.
fn write(
    sorter: &Sorter<'_>,
    totals: &[u64],
    sorted: &File,
    path: &Path,
    target: &Path,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(EdgeSetInfo, FileSummary), ImportError> {
    let spill = sorter.spill;
    let size = spill.record();
    let total_edges = totals.iter().sum();
    let mut file = EdgeFile::create(target, spill.has_weight, sorter.grid)?;
    let mut records = Vec::new();
    let mut row = 0;
    for (index, &total) in totals.iter().enumerate() {
        let width = sorter.grid.1 as usize;
        let bucket = Bucket::new((index / width) as u32, (index % width) as u32);
        let mut left = total;
        while left > 0 {
            let rows = left.min(BATCH_ROWS as u64);
            records.resize(rows as usize * size, 0);
            files::read_exact_at(sorted, path, &mut records, row * size as u64)?;
            file.write(bucket, columns(&records, size))?;
            row += rows;
            left -= rows;
            let event = ImportProgress::Writing {
                set: spill.set.clone(),
                edges: row,
                total_edges,
            };
            report_progress(progress, event)?;
        }
    }
    Ok(file.finish()?)
}

fn columns(records: &[u8], size: usize) -> EdgeColumns {
    let column = |n| {
        records
            .chunks_exact(size)
            .map(move |record| field(record, n))
    };
    EdgeColumns {
        lhs: column(0).collect(),
        rel: column(1).collect(),
        rhs: column(2).collect(),
        weight: (size > 12).then(|| column(3).map(f32::from_bits).collect()),
    }
}
