//! Edges that a program passes in memory, stored in a Parquet file until they are imported: an import reads its files
//! more than once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, NullArray, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use pbg_files::{ChecksummedFile, FileError};

/// File of edges that is being written.
pub struct EdgeSpool {
    path: PathBuf,
    /// Writer, and the description of the columns of the first table.
    writer: Option<(ArrowWriter<ChecksummedFile>, String)>,
    rows: u64,
}

/// Column of edges, with one value per edge.
#[derive(Clone, Debug)]
pub enum ColumnValues {
    /// Names of entities or relations.
    Names(Vec<String>),
    /// Weights.
    Weights(Vec<f32>),
    /// Number of values that an import does not read.
    Unread(usize),
}

/// Error of adding edges.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The batch is not valid, or its columns differ from those of earlier batches.
    #[error("edges after the first {after}: {what}")]
    Batch {
        /// Number of edges before the batch.
        after: u64,
        /// Description of the problem.
        what: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl EdgeSpool {
    /// Creates a spool for the file at `path`, whose name should end in `.parquet`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            writer: None,
            rows: 0,
        }
    }

    /// Adds a table of edges. The roles of its columns are determined by the import, as for any Parquet file.
    ///
    /// # Errors
    /// When its columns differ from those of the first table, or it cannot be written.
    pub fn put(&mut self, batch: &RecordBatch) -> Result<(), SpoolError> {
        let after = self.rows;
        let wrong = |what: String| SpoolError::Batch { after, what };
        let (writer, first) = match &mut self.writer {
            Some(begun) => begun,
            None => {
                let created = plain_writer(&self.path, &batch.schema())?;
                self.writer.insert((created, columns(batch)))
            }
        };
        let found = columns(batch);
        if found != *first {
            return Err(wrong(format!(
                "its columns are {found}, but earlier ones are {first}"
            )));
        }
        let written = writer.write(batch);
        written.map_err(
            |error| match ChecksummedFile::write_error(&self.path, error) {
                error if error.cause.raw_os_error().is_some() => SpoolError::File(error),
                error => wrong(error.cause.to_string()),
            },
        )?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Adds edges as named columns.
    ///
    /// # Errors
    /// When the columns have different lengths or differ from earlier ones, or they cannot be written.
    pub fn put_columns(&mut self, columns: Vec<(String, ColumnValues)>) -> Result<(), SpoolError> {
        let columns = columns.into_iter().map(|(name, values)| {
            let array: ArrayRef = match values {
                ColumnValues::Names(names) => Arc::new(StringArray::from(names)),
                ColumnValues::Weights(weights) => Arc::new(Float32Array::from(weights)),
                ColumnValues::Unread(count) => Arc::new(NullArray::new(count)),
            };
            (name, array)
        });
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, array)| (name, array, true)),
        );
        let batch = batch.map_err(|error| SpoolError::Batch {
            after: self.rows,
            what: error.to_string(),
        })?;
        self.put(&batch)
    }

    /// Completes the file. Without edges it is empty, which the import reports as an error.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<(), SpoolError> {
        if let Some((writer, _)) = self.writer.take() {
            return Ok(finish(writer, &self.path)?);
        }
        let empty = fs::write(&self.path, b"");
        Ok(empty.map_err(|error| FileError::new("write", &self.path, error))?)
    }
}

/// Returns names and types of a table's columns.
fn columns(batch: &RecordBatch) -> String {
    let fields = batch.schema_ref().fields().iter();
    let shown: Vec<_> = fields
        .map(|field| format!("{}: {}", field.name(), field.data_type()))
        .collect();
    shown.join(", ")
}

/// Creates a Parquet writer without the embedded Arrow schema, so that readers see only Parquet's own types.
fn plain_writer(
    path: &Path,
    schema: &SchemaRef,
) -> Result<ArrowWriter<ChecksummedFile>, FileError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let options = ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(true);
    ArrowWriter::try_new_with_options(ChecksummedFile::create(path)?, Arc::clone(schema), options)
        .map_err(|e| ChecksummedFile::write_error(path, e))
}

/// Completes a file and syncs it to disk.
fn finish(writer: ArrowWriter<ChecksummedFile>, path: &Path) -> Result<(), FileError> {
    let file = writer
        .into_inner()
        .map_err(|e| ChecksummedFile::write_error(path, e))?;
    file.finish(true).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(weights: bool) -> Vec<(String, ColumnValues)> {
        let names = |names: [&str; 2]| ColumnValues::Names(names.map(str::to_owned).to_vec());
        let mut columns = vec![
            ("lhs".to_owned(), names(["a", "b"])),
            ("since".to_owned(), ColumnValues::Unread(2)),
            ("rhs".to_owned(), names(["b", "c"])),
        ];
        if weights {
            columns.push(("weight".to_owned(), ColumnValues::Weights(vec![1.0, 0.5])));
        }
        columns
    }

    #[test]
    fn what_is_handed_in_is_a_file_of_edges() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.parquet");
        let mut spool = EdgeSpool::new(&path);
        spool.put_columns(edges(true)).unwrap();
        spool.put_columns(edges(true)).unwrap();
        spool.finish().unwrap();
        let file = fs::File::open(&path).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file);
        let fields = reader.unwrap().schema().fields().clone();
        let header: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
        assert_eq!(header, ["lhs", "since", "rhs", "weight"]);
    }

    #[test]
    fn columns_stay_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = EdgeSpool::new(&folder.path().join("train.parquet"));
        spool.put_columns(edges(false)).unwrap();
        let error = spool.put_columns(edges(true)).unwrap_err().to_string();
        assert!(error.starts_with("edges after the first 2: "), "{error}");
        let mut uneven = edges(false);
        uneven[1].1 = ColumnValues::Unread(1);
        assert!(spool.put_columns(uneven).is_err());
    }
}
