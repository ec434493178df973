//! Writers of the files of a dataset.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, Float32Array, RecordBatch, StringArray, UInt32Array};
use arrow_ipc::writer::FileWriter;
use arrow_schema::SchemaRef;
use pbg_core::graph::{Bucket, EdgeColumns};

use super::NameChecksum;
use super::manifest::{EdgeBatch, EdgeSetInfo};
use super::relations::Relation;
use super::schemas;
use pbg_files::{ChecksummedFile, FileError, FileSummary};

/// Maximum rows per record batch: small enough that reading an edge chunk reads little more than its own rows.
pub const BATCH_ROWS: usize = 1 << 20;

/// Writer of an Arrow IPC file.
struct ArrowFile<'a> {
    path: &'a Path,
    schema: SchemaRef,
    writer: FileWriter<ChecksummedFile>,
}

impl<'a> ArrowFile<'a> {
    fn create(path: &'a Path, schema: SchemaRef) -> Result<Self, FileError> {
        let writer = FileWriter::try_new(ChecksummedFile::create(path)?, &schema);
        let writer = writer.map_err(|e| ChecksummedFile::write_error(path, e))?;
        Ok(Self {
            path,
            schema,
            writer,
        })
    }

    fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), FileError> {
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(|e| ChecksummedFile::write_error(self.path, e))
    }

    fn position(&self) -> u64 {
        self.writer.get_ref().position()
    }

    fn end_section(&mut self) -> FileSummary {
        self.writer.get_mut().end_section()
    }

    /// Writes the footer. Returns the summaries of the footer and of the file.
    fn finish(mut self) -> Result<(FileSummary, FileSummary), FileError> {
        let path = self.path;
        let failed = |e| ChecksummedFile::write_error(path, e);
        self.writer.finish().map_err(failed)?;
        let footer = self.end_section();
        let file = self.writer.into_inner().map_err(failed)?;
        Ok((footer, file.finish(true)?))
    }
}

/// Writer of an edge file, bucket by bucket.
pub struct EdgeFile<'a> {
    file: ArrowFile<'a>,
    info: EdgeSetInfo,
    frame: crc32fast::Hasher,
}

impl<'a> EdgeFile<'a> {
    /// Creates the file at `path`, for a grid of `grid` = (left, right) partitions.
    pub fn create(path: &'a Path, has_weight: bool, grid: (u32, u32)) -> Result<Self, FileError> {
        let mut file = ArrowFile::create(path, schemas::edge_schema(has_weight))?;
        let header = file.end_section();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let info = EdgeSetInfo {
            file: name.into_owned(),
            edges: 0,
            has_weight,
            lhs_partitions: grid.0,
            rhs_partitions: grid.1,
            header_size: header.size,
            frame_crc32: 0,
            batches: Vec::new(),
        };
        let frame = crc32fast::Hasher::new_with_initial_len(header.crc32, header.size);
        Ok(Self { file, info, frame })
    }

    /// Writes a record batch of at most [`BATCH_ROWS`] edges. Buckets must be written in ascending order.
    pub fn write(&mut self, bucket: Bucket, edges: EdgeColumns) -> Result<(), FileError> {
        let rows = edges.len() as u64;
        if rows == 0 {
            return Ok(());
        }
        let integers = |column: Vec<u32>| Arc::new(UInt32Array::from(column)) as ArrayRef;
        let mut columns = [edges.lhs, edges.rel, edges.rhs].map(integers).to_vec();
        if self.info.has_weight {
            let weight = edges.weight.unwrap_or_else(|| vec![1.0; rows as usize]);
            columns.push(Arc::new(Float32Array::from(weight)));
        }
        let offset = self.file.position();
        self.file.write(columns)?;
        let written = self.file.end_section();
        self.info.batches.push(EdgeBatch {
            bucket,
            offset,
            length: written.size,
            rows,
            crc32: written.crc32,
        });
        self.info.edges += rows;
        Ok(())
    }

    /// Completes the file.
    pub fn finish(mut self) -> Result<(EdgeSetInfo, FileSummary), FileError> {
        let (footer, summary) = self.file.finish()?;
        let footer = crc32fast::Hasher::new_with_initial_len(footer.crc32, footer.size);
        self.frame.combine(&footer);
        self.info.frame_crc32 = self.frame.finalize();
        Ok((self.info, summary))
    }
}

/// Writes `entities_<type>.arrow`: `names` in global order, divided into partitions by `counts`. Returns the file's
/// summary and the checksum of the names of each partition.
pub fn dictionary<'n>(
    path: &Path,
    names: impl Iterator<Item = &'n str>,
    counts: &[u32],
) -> Result<(FileSummary, Vec<u32>), FileError> {
    let mut file = DictionaryFile::create(path, counts)?;
    for name in names {
        file.push(name)?;
    }
    file.finish()
}

/// Writer of `entities_<type>.arrow`, name by name in global order.
pub struct DictionaryFile<'a> {
    file: ArrowFile<'a>,
    counts: &'a [u32],
    /// Partition that is being written, and the number of its names written so far.
    partition: usize,
    written: u32,
    batch: StringBuilder,
    sum: NameChecksum,
    sums: Vec<u32>,
}

impl<'a> DictionaryFile<'a> {
    /// Creates the file at `path`; its partitions have `counts` names.
    pub fn create(path: &'a Path, counts: &'a [u32]) -> Result<Self, FileError> {
        Ok(Self {
            file: ArrowFile::create(path, schemas::dictionary_schema())?,
            counts,
            partition: 0,
            written: 0,
            batch: StringBuilder::new(),
            sum: NameChecksum::default(),
            sums: Vec::with_capacity(counts.len()),
        })
    }

    /// Writes the next name.
    pub fn push(&mut self, name: &str) -> Result<(), FileError> {
        self.end_full_partitions()?;
        self.sum.add(name);
        self.batch.append_value(name);
        if self.batch.len() == DICTIONARY_ROWS as usize {
            self.write_batch()?;
        }
        Ok(())
    }

    /// Completes the file. Returns its summary and the checksum of the names of each partition.
    pub fn finish(mut self) -> Result<(FileSummary, Vec<u32>), FileError> {
        self.end_full_partitions()?;
        Ok((self.file.finish()?.1, self.sums))
    }

    /// Ends the partition if it has all its names, and the following ones that are empty.
    fn end_full_partitions(&mut self) -> Result<(), FileError> {
        while let Some(&count) = self.counts.get(self.partition)
            && self.written + self.batch.len() as u32 >= count
        {
            self.write_batch()?;
            self.sums.push(std::mem::take(&mut self.sum).finish());
            (self.partition, self.written) = (self.partition + 1, 0);
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), FileError> {
        let names = self.batch.finish();
        let rows = names.len() as u32;
        if rows == 0 {
            return Ok(());
        }
        let first = self.written;
        self.written += rows;
        let partitions = UInt32Array::from_value(self.partition as u32, rows as usize);
        let offsets = UInt32Array::from_iter_values(first..first + rows);
        let columns: [ArrayRef; 3] = [Arc::new(names), Arc::new(partitions), Arc::new(offsets)];
        self.file.write(columns.to_vec())
    }
}

/// Maximum rows per batch of names, so that 32-bit offsets suffice for names of any allowed length.
const DICTIONARY_ROWS: u32 = 1 << 15;

/// Writes a list of names, as `feature_names_<type>.arrow`. Returns the file's summary and the checksum of the names.
pub fn names<'n>(
    path: &Path,
    names: impl ExactSizeIterator<Item = &'n str>,
) -> Result<(FileSummary, u32), FileError> {
    let mut file = ArrowFile::create(path, schemas::names_schema())?;
    let mut names = names.peekable();
    let mut sum = NameChecksum::default();
    while names.peek().is_some() {
        let batch: Vec<&str> = names.by_ref().take(DICTIONARY_ROWS as usize).collect();
        batch.iter().for_each(|name| sum.add(name));
        file.write(vec![Arc::new(StringArray::from(batch))])?;
    }
    Ok((file.finish()?.1, sum.finish()))
}

/// Writes `relations.arrow`.
pub fn relations(path: &Path, relations: &[Relation]) -> Result<FileSummary, FileError> {
    let mut file = ArrowFile::create(path, schemas::relations_schema())?;
    for batch in relations.chunks(DICTIONARY_ROWS as usize) {
        let text = |pick: fn(&Relation) -> &str| {
            Arc::new(StringArray::from_iter_values(batch.iter().map(pick))) as ArrayRef
        };
        file.write(vec![text(|r| &r.name), text(|r| &r.lhs), text(|r| &r.rhs)])?;
    }
    Ok(file.finish()?.1)
}

/// Writes `features_<type>.arrow`: a list of feature ids per entity, in global order.
pub fn features<'f>(
    path: &Path,
    lists: impl Iterator<Item = &'f [u32]>,
) -> Result<FileSummary, FileError> {
    use arrow_array::builder::{ListBuilder, UInt32Builder};
    let mut file = ArrowFile::create(path, schemas::features_schema())?;
    let mut lists = lists.peekable();
    while lists.peek().is_some() {
        let mut builder = ListBuilder::new(UInt32Builder::new()).with_field(schemas::item());
        for ids in lists.by_ref().take(DICTIONARY_ROWS as usize) {
            builder.values().append_slice(ids);
            builder.append(true);
        }
        file.write(vec![Arc::new(builder.finish())])?;
    }
    Ok(file.finish()?.1)
}
