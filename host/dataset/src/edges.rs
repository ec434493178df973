//! Edge sets, and reading the edges of a bucket.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt32Type};
use arrow_buffer::MutableBuffer;
use arrow_schema::SchemaRef;
use pbg_core::graph::{Bucket, EdgeColumns};

use super::dataset::{is_replaced, list};
use super::error::repair;
use super::manifest::{EdgeBatch, EdgeSetInfo};
use super::schemas::edge_schema;
use super::{Dataset, DatasetError, arrow};
use pbg_files::{self as files, FileError};

/// Error of reading edges.
#[derive(Debug, thiserror::Error)]
pub enum EdgeReadError {
    /// The operating system reported an error.
    #[error(transparent)]
    File(#[from] FileError),
    /// The edges are not those that were written.
    #[error("{} is damaged: {what} in bucket {bucket}; {}", path.display(), repair(path))]
    Damaged {
        /// Path of the edge file.
        path: PathBuf,
        /// Bucket with the damage.
        bucket: Bucket,
        /// Description of the damage.
        what: String,
    },
    /// Another import has replaced the dataset since it was opened.
    #[error("{}", crate::error::replaced(.0))]
    Replaced(PathBuf),
    /// The requested range exceeds the bucket.
    #[error("bucket {bucket} of {} has {len} edges; rows {}..{} do not exist", path.display(), rows.start, rows.end)]
    OutOfRange {
        /// Path of the edge file.
        path: PathBuf,
        /// Requested bucket.
        bucket: Bucket,
        /// Requested rows.
        rows: Range<u64>,
        /// Number of edges in the bucket.
        len: u64,
    },
}

/// Edges of one edge set. They are read by position, so threads can share an `EdgeSet`.
#[derive(Debug)]
pub struct EdgeSet {
    path: PathBuf,
    /// Folder and identity of the dataset.
    dataset: (PathBuf, String),
    file: File,
    info: EdgeSetInfo,
    buckets: HashMap<Bucket, BucketBatches>,
    bounds: Vec<RelationBounds>,
    schema: SchemaRef,
}

#[derive(Debug, Default)]
struct BucketBatches {
    batches: Range<usize>,
    rows: u64,
}

/// Number of entities per partition on the two sides of a relation.
#[derive(Debug)]
struct RelationBounds {
    lhs: Arc<[u32]>,
    rhs: Arc<[u32]>,
}

impl EdgeSet {
    pub(super) fn open(dataset: &Dataset, name: &str) -> Result<Self, DatasetError> {
        let manifest = dataset.manifest();
        let unknown = || DatasetError::UnknownEdgeSet {
            path: dataset.path().to_owned(),
            name: name.to_owned(),
            known: list(manifest.edge_sets.keys()),
        };
        let info = manifest.edge_sets.get(name).ok_or_else(unknown)?.clone();
        let path = dataset.path().join(&info.file);
        let file = files::open(&path)?;
        check_frame(&file, &path, &info)?;
        let types = manifest.entities.iter();
        let counts = types.map(|(name, info)| (name.as_str(), info.counts.as_slice().into()));
        let counts: HashMap<&str, Arc<[u32]>> = counts.collect();
        // The dataset has verified that the types of its relations exist.
        let bounds = dataset.relations().iter().map(|relation| RelationBounds {
            lhs: Arc::clone(&counts[relation.lhs.as_str()]),
            rhs: Arc::clone(&counts[relation.rhs.as_str()]),
        });
        let bounds = bounds.collect();
        let mut buckets = HashMap::<Bucket, BucketBatches>::new();
        for (at, batch) in info.batches.iter().enumerate() {
            let entry = buckets.entry(batch.bucket).or_default();
            if entry.rows == 0 {
                entry.batches.start = at;
            }
            entry.batches.end = at + 1;
            entry.rows += batch.rows;
        }
        let schema = edge_schema(info.has_weight);
        Ok(Self {
            path,
            dataset: (dataset.path().to_owned(), dataset.identity().to_owned()),
            file,
            info,
            buckets,
            bounds,
            schema,
        })
    }

    /// Returns the number of edges in all buckets.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.info.edges
    }

    /// Returns whether the set has no edges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.info.edges == 0
    }

    /// Returns the grid of buckets: the numbers of partitions of left and right sides.
    #[must_use]
    pub fn grid(&self) -> (u32, u32) {
        (self.info.lhs_partitions, self.info.rhs_partitions)
    }

    /// Returns the number of edges in a bucket; 0 for a bucket outside the grid.
    #[must_use]
    pub fn bucket_len(&self, bucket: Bucket) -> u64 {
        self.buckets.get(&bucket).map_or(0, |b| b.rows)
    }

    /// Returns the number of edges in the largest bucket.
    #[must_use]
    pub fn largest_bucket(&self) -> u64 {
        let rows = self.buckets.values().map(|bucket| bucket.rows);
        rows.max().unwrap_or(0)
    }

    /// Returns the buckets that have edges, in the order of the grid. The grid may have many more.
    #[must_use]
    pub fn filled_buckets(&self) -> Vec<Bucket> {
        let filled = self.buckets.iter().filter(|(_, bucket)| bucket.rows > 0);
        let mut filled: Vec<Bucket> = filled.map(|(bucket, _)| *bucket).collect();
        filled.sort_unstable_by_key(|bucket| (bucket.lhs, bucket.rhs));
        filled
    }

    /// Returns whether the edges have weights.
    #[must_use]
    pub fn has_weight(&self) -> bool {
        self.info.has_weight
    }

    /// Reads edges `rows` of a bucket, in stored order, and verifies them, including their ids: each `lhs` and `rhs` is
    /// less than the number of entities of its partition, each `rel` less than the number of relations.
    ///
    /// # Errors
    /// When `rows` is out of range, the file cannot be read, or it is damaged.
    pub fn read(&self, bucket: Bucket, rows: Range<u64>) -> Result<EdgeColumns, EdgeReadError> {
        let mut edges = EdgeColumns::default();
        self.read_into(bucket, rows, &mut edges)?;
        Ok(edges)
    }

    /// Like [`Self::read`], but reuses the memory of `edges`.
    ///
    /// # Errors
    /// As [`Self::read`]; `edges` contains a part of the rows then.
    pub fn read_into(
        &self,
        bucket: Bucket,
        rows: Range<u64>,
        edges: &mut EdgeColumns,
    ) -> Result<(), EdgeReadError> {
        self.clear(edges, rows.end.saturating_sub(rows.start));
        let len = self.bucket_len(bucket);
        if rows.start > rows.end || rows.end > len {
            return Err(EdgeReadError::OutOfRange {
                path: self.path.clone(),
                bucket,
                rows,
                len,
            });
        }
        let Some(found) = self.buckets.get(&bucket) else {
            return Ok(());
        };
        let mut first = 0;
        for batch in &self.info.batches[found.batches.clone()] {
            let (from, to) = (rows.start.max(first), rows.end.min(first + batch.rows));
            if from < to {
                let rows = (from - first) as usize..(to - first) as usize;
                append(&self.read_batch(batch)?, rows, edges);
            }
            first += batch.rows;
        }
        self.check_bounds(bucket, edges)
    }

    fn clear(&self, edges: &mut EdgeColumns, rows: u64) {
        let rows = rows.min(self.info.edges) as usize;
        for column in [&mut edges.lhs, &mut edges.rel, &mut edges.rhs] {
            column.clear();
            column.reserve(rows);
        }
        if self.info.has_weight {
            let weight = edges.weight.get_or_insert_default();
            weight.clear();
            weight.reserve(rows);
        } else {
            edges.weight = None;
        }
    }

    fn read_batch(&self, batch: &EdgeBatch) -> Result<RecordBatch, EdgeReadError> {
        let damaged = |what: &str| self.damaged(batch.bucket, what);
        let mut buffer = MutableBuffer::from_len_zeroed(batch.length as usize);
        files::read_exact_at(&self.file, &self.path, buffer.as_slice_mut(), batch.offset)?;
        if crc32fast::hash(buffer.as_slice()) != batch.crc32 {
            return Err(damaged("a checksum does not match"));
        }
        let decoded = arrow::decode(&self.schema, buffer.into());
        let decoded = decoded.map_err(|what| damaged(&what))?;
        if decoded.num_rows() as u64 != batch.rows {
            let what = "the number of edges in a batch does not match the manifest";
            return Err(damaged(what));
        }
        Ok(decoded)
    }

    /// Checks that all ids are within the tables: the kernels use them as indices, so a wrong file must not pass.
    fn check_bounds(&self, bucket: Bucket, edges: &EdgeColumns) -> Result<(), EdgeReadError> {
        let count =
            |counts: &[u32], partition: u32| counts.get(partition as usize).copied().unwrap_or(0);
        let bounds = self.bounds.iter();
        let bounds = bounds.map(|b| (count(&b.lhs, bucket.lhs), count(&b.rhs, bucket.rhs)));
        let bounds: Vec<_> = bounds.collect();
        let within = |((&lhs, &rhs), &rel): ((&u32, &u32), &u32)| {
            let bounds = bounds.get(rel as usize);
            bounds.is_some_and(|&(left, right)| lhs < left && rhs < right)
        };
        if edges.lhs.iter().zip(&edges.rhs).zip(&edges.rel).all(within) {
            return Ok(());
        }
        let what = "an edge has an entity or relation that does not exist";
        Err(self.damaged(bucket, what))
    }

    /// Returns the error for edges that are damaged or belong to a dataset that was imported since.
    fn damaged(&self, bucket: Bucket, what: &str) -> EdgeReadError {
        let (folder, identity) = &self.dataset;
        match is_replaced(folder, identity) {
            true => EdgeReadError::Replaced(folder.clone()),
            false => EdgeReadError::Damaged {
                path: self.path.clone(),
                bucket,
                what: what.to_owned(),
            },
        }
    }
}

/// Verifies the parts of the file before and after the record batches.
fn check_frame(file: &File, path: &Path, info: &EdgeSetInfo) -> Result<(), DatasetError> {
    let metadata = file.metadata();
    let size = metadata.map_err(|e| FileError::new("open", path, e))?.len();
    let batches: u64 = info.batches.iter().map(|b| b.length).sum();
    let behind = info.header_size + batches;
    let footer_size = size.checked_sub(behind);
    let footer_size = footer_size.ok_or_else(|| DatasetError::damaged(path, "it is too short"))?;
    let mut hasher = crc32fast::Hasher::new();
    for (offset, length) in [(0, info.header_size), (behind, footer_size)] {
        let mut buffer = vec![0; length as usize];
        files::read_exact_at(file, path, &mut buffer, offset)?;
        hasher.update(&buffer);
    }
    if hasher.finalize() == info.frame_crc32 {
        return Ok(());
    }
    let what = "the checksum of its header and footer does not match";
    Err(DatasetError::damaged(path, what))
}

fn append(batch: &RecordBatch, rows: Range<usize>, edges: &mut EdgeColumns) {
    let integers =
        |at: usize| &batch.column(at).as_primitive::<UInt32Type>().values()[rows.clone()];
    edges.lhs.extend_from_slice(integers(0));
    edges.rel.extend_from_slice(integers(1));
    edges.rhs.extend_from_slice(integers(2));
    if let Some(weight) = &mut edges.weight {
        let column = batch.column(3).as_primitive::<Float32Type>();
        weight.extend_from_slice(&column.values()[rows]);
    }
}

impl Dataset {
    /// Opens an edge set.
    ///
    /// # Errors
    /// When there is no edge set of this name or its file is damaged.
    pub fn edge_set(&self, name: &str) -> Result<EdgeSet, DatasetError> {
        self.detect_replacement(EdgeSet::open(self, name))
    }
}
