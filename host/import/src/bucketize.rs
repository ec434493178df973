//! Sorting of spilled edges into an edge file with one or more batches per bucket.
//!
//! Each chunk of the spill is sorted by bucket in memory and written back as one run per bucket. Then the runs of each
//! bucket are read in the order of the chunks. The result does not depend on which thread processes which chunk.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    let path = job.folder.join(format!("edges_{}.sorted", spill.set));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path);
    let file = file.map_err(|e| FileError::new("create", &path, e))?;
    let sorted = SortedChunks {
        counts: sorter.sort(job.threads, &file, &path)?,
        sorter: &sorter,
        file: &file,
        path: &path,
    };
    let target = job.folder.join(format!("edges_{}.arrow", spill.set));
    let written = write(&sorted, &target, progress);
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

/// Final ids of an edge (left entity, relation, right entity) and its bucket.
struct Placed {
    bucket: usize,
    edge: [u32; 3],
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
            edge: [lhs, rel, rhs],
        })
    }

    /// Sorts the chunks by bucket, and writes each to the rows of `file` that it has in the spill. Returns the number of edges
    /// per chunk and bucket.
    fn sort(&self, threads: usize, file: &File, path: &Path) -> Result<Vec<Vec<u32>>, ImportError> {
        let counts: Vec<_> = (0..self.chunks()).map(|_| OnceLock::new()).collect();
        let size = self.spill.record();
        self.for_each_chunk(threads, |chunk, records, buckets| {
            let mut of_chunk = vec![0_u32; self.buckets()];
            buckets.clear();
            for record in records.chunks_exact_mut(size) {
                let placed = self.place(record);
                if let Some(Placed { bucket, edge }) = &placed {
                    for (field, id) in record.chunks_exact_mut(4).zip(edge) {
                        field.copy_from_slice(&id.to_le_bytes());
                    }
                    of_chunk[*bucket] += 1;
                }
                buckets.push(placed.map_or(DROPPED, |placed| placed.bucket as u32));
            }
            let mut next: Vec<_> = sums_before(of_chunk.iter().map(|&n| n as usize)).collect();
            let total: usize = of_chunk.iter().map(|&n| n as usize).sum();
            let mut sorted = vec![0; total * size];
            for (record, &bucket) in records.chunks_exact(size).zip(&*buckets) {
                if bucket != DROPPED {
                    let at = next[bucket as usize] * size;
                    next[bucket as usize] += 1;
                    sorted[at..at + size].copy_from_slice(record);
                }
            }
            let (first, _) = self.rows_of(chunk);
            files::write_all_at(file, path, &sorted, first * size as u64)?;
            // Each chunk is sorted once.
            let _first = counts[chunk].set(of_chunk);
            Ok(())
        })?;
        let counts = counts.into_iter().map(|counts| counts.into_inner());
        Ok(counts.map(Option::unwrap_or_default).collect())
    }

    /// Reads the chunks of the spill on several threads and calls `with` for each, with a list that the thread reuses.
    fn for_each_chunk(
        &self,
        threads: usize,
        with: impl Fn(usize, &mut [u8], &mut Vec<u32>) -> Result<(), ImportError> + Sync,
    ) -> Result<(), ImportError> {
        let next = AtomicUsize::new(0);
        let run = || {
            let (mut records, mut buckets) = (Vec::new(), Vec::new());
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                if chunk >= self.chunks() {
                    return Ok(());
                }
                let (first, rows) = self.rows_of(chunk);
                records.resize(rows * self.spill.record(), 0);
                let read = self.spill.read(first, &mut records).map_err(Into::into);
                let result = read.and_then(|()| with(chunk, &mut records, &mut buckets));
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

/// File of the chunks, each sorted by bucket.
struct SortedChunks<'a> {
    sorter: &'a Sorter<'a>,
    /// Number of edges per chunk and bucket.
    counts: Vec<Vec<u32>>,
    file: &'a File,
    path: &'a Path,
}

impl SortedChunks<'_> {
    /// Returns the runs of a bucket, which follow each other: the first row of each in the file, and its number of edges.
    /// `next` has the first row of each chunk's next run.
    fn runs<'s>(
        &'s self,
        bucket: usize,
        next: &'s mut [u64],
    ) -> impl Iterator<Item = (u64, u64)> + 's {
        self.counts.iter().zip(next).map(move |(counts, next)| {
            let (first, edges) = (*next, u64::from(counts[bucket]));
            *next += edges;
            (first, edges)
        })
    }
}

/// Writes the sorted records as record batches.
fn write(
    sorted: &SortedChunks<'_>,
    target: &Path,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(EdgeSetInfo, FileSummary), ImportError> {
    let sorter = sorted.sorter;
    let spill = sorter.spill;
    let size = spill.record();
    let of_chunk = |counts: &Vec<u32>| counts.iter().map(|&n| u64::from(n)).sum::<u64>();
    let total_edges = sorted.counts.iter().map(of_chunk).sum();
    let mut file = EdgeFile::create(target, spill.has_weight, sorter.grid)?;
    let mut next: Vec<u64> = (0..sorter.chunks())
        .map(|chunk| sorter.rows_of(chunk).0)
        .collect();
    let (mut records, mut written) = (Vec::new(), 0);
    for index in 0..sorter.buckets() {
        let width = sorter.grid.1 as usize;
        let bucket = Bucket::new((index / width) as u32, (index % width) as u32);
        let mut flush = |records: &mut Vec<u8>| {
            file.write(bucket, columns(records, size))?;
            written += (records.len() / size) as u64;
            records.clear();
            let event = ImportProgress::Writing {
                set: spill.set.clone(),
                edges: written,
                total_edges,
            };
            report_progress(progress, event)
        };
        for (mut first, mut edges) in sorted.runs(index, &mut next) {
            while edges > 0 {
                let filled = records.len();
                let rows = edges.min((BATCH_ROWS - filled / size) as u64);
                records.resize(filled + rows as usize * size, 0);
                let (file, path) = (sorted.file, sorted.path);
                files::read_exact_at(file, path, &mut records[filled..], first * size as u64)?;
                (first, edges) = (first + rows, edges - rows);
                if records.len() == BATCH_ROWS * size {
                    flush(&mut records)?;
                }
            }
        }
        if !records.is_empty() {
            flush(&mut records)?;
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
