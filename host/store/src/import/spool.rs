//! Edges that a program hands in, kept in a Parquet file until they are imported: an import reads its files more than
//! once, and what a program hands in comes once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use arrow_array::{ArrayRef, Float32Array, RecordBatch, StringArray};

use crate::export::parquet;
use crate::files::{FileError, SummedFile};

/// A file of edges being written.
pub struct EdgeSpool {
    path: PathBuf,
    /// With the columns of the first table.
    writer: Option<(ArrowWriter<SummedFile>, String)>,
    rows: u64,
}

/// Edges column by column, all of one length.
#[derive(Clone, Debug, Default)]
pub struct EdgeColumns {
    /// Left entities.
    pub lhs: Vec<String>,
    /// Relations, where there are any.
    pub rel: Option<Vec<String>>,
    /// Right entities.
    pub rhs: Vec<String>,
    /// Weights, where there are any.
    pub weight: Option<Vec<f32>>,
}

/// Why edges that were handed in are not taken.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// They are no edges, or other ones than those before.
    #[error("edges after the first {after}: {what}")]
    Batch {
        /// Rows before them.
        after: u64,
        /// What is wrong.
        what: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl EdgeSpool {
    /// Begins a file, whose name should end in `.parquet`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            writer: None,
            rows: 0,
        }
    }

    /// Adds a table of edges; columns are told apart when they are imported, as those of a Parquet file.
    ///
    /// # Errors
    /// When its columns are not those of the first table, or it cannot be written.
    pub fn put(&mut self, batch: &RecordBatch) -> Result<(), SpoolError> {
        let after = self.rows;
        let wrong = |what: String| SpoolError::Batch { after, what };
        let (writer, first) = match &mut self.writer {
            Some(begun) => begun,
            None => {
                let created = parquet::plain_writer(&self.path, &batch.schema())?;
                self.writer.insert((created, columns(batch)))
            }
        };
        let found = columns(batch);
        if found != *first {
            return Err(wrong(format!(
                "columns {found}, where those before were {first}"
            )));
        }
        let written = writer.write(batch);
        written.map_err(|error| match parquet::failed(&self.path, error) {
            error if error.cause.raw_os_error().is_some() => SpoolError::File(error),
            error => wrong(error.cause.to_string()),
        })?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Adds edges.
    ///
    /// # Errors
    /// When their columns have different lengths or are others than before, or they cannot be written.
    pub fn put_columns(&mut self, edges: EdgeColumns) -> Result<(), SpoolError> {
        let text = |texts: Vec<String>| Arc::new(StringArray::from(texts)) as ArrayRef;
        let columns = [
            Some(("lhs", text(edges.lhs))),
            edges.rel.map(|names| ("rel", text(names))),
            Some(("rhs", text(edges.rhs))),
            edges.weight.map(|weights| {
                let weights: ArrayRef = Arc::new(Float32Array::from(weights));
                ("weight", weights)
            }),
        ];
        let batch = RecordBatch::try_from_iter(columns.into_iter().flatten());
        let batch = batch.map_err(|error| SpoolError::Batch {
            after: self.rows,
            what: error.to_string(),
        })?;
        self.put(&batch)
    }

    /// Completes the file. Without any edges there is none, which the import says.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<(), SpoolError> {
        if let Some((writer, _)) = self.writer.take() {
            return Ok(parquet::finish(writer, &self.path)?);
        }
        let empty = fs::write(&self.path, b"");
        Ok(empty.map_err(|error| FileError::new("write", &self.path, error))?)
    }
}

/// Names and types of a table's columns.
fn columns(batch: &RecordBatch) -> String {
    let fields = batch.schema_ref().fields().iter();
    let shown: Vec<_> = fields
        .map(|field| format!("{}: {}", field.name(), field.data_type()))
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(weights: bool) -> EdgeColumns {
        EdgeColumns {
            lhs: vec!["a".to_owned(), "b".to_owned()],
            rhs: vec!["b".to_owned(), "c".to_owned()],
            rel: None,
            weight: weights.then(|| vec![1.0, 0.5]),
        }
    }

    #[test]
    fn what_is_handed_in_is_a_file_of_edges() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.parquet");
        let mut spool = EdgeSpool::new(&path);
        spool.put_columns(edges(true)).unwrap();
        spool.put_columns(edges(true)).unwrap();
        spool.finish().unwrap();
        let header = super::super::table::parquet_header(&path).unwrap();
        assert_eq!(header, ["lhs", "rhs", "weight"]);
    }

    #[test]
    fn columns_stay_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = EdgeSpool::new(&folder.path().join("train.parquet"));
        spool.put_columns(edges(false)).unwrap();
        let error = spool.put_columns(edges(true)).unwrap_err().to_string();
        assert!(error.starts_with("edges after the first 2: "), "{error}");
        let mut uneven = edges(false);
        uneven.lhs.pop();
        assert!(spool.put_columns(uneven).is_err());
    }
}
