//! Parquet tables of predicted edges.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use arrow_array::builder::{Float32Builder, StringBuilder, UInt32Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::parquet;
use pbg_files::{ChecksummedFile, FileError};

/// Rows per row group, which are buffered in memory.
const GROUP: usize = 1 << 16;

/// Predicted edge.
#[derive(Clone, Copy, Debug)]
pub struct PredictedEdge<'a> {
    /// Left entity.
    pub head: &'a str,
    /// Relation.
    pub relation: &'a str,
    /// Right entity.
    pub tail: &'a str,
    /// What was predicted: `head`, `relation`, `tail`, or the whole `edge`.
    pub asked: &'a str,
    /// Rank among the answers, from 1.
    pub rank: u32,
    /// Score of the edge.
    pub score: f32,
}

/// Writer of a table of predicted edges with columns `head`, `relation`, `tail`, `asked`, `rank` and `score`. The file
/// gets its name when it is complete.
pub struct PredictionTable {
    path: PathBuf,
    schema: SchemaRef,
    writer: Option<ArrowWriter<ChecksummedFile>>,
    texts: [StringBuilder; 4],
    ranks: UInt32Builder,
    scores: Float32Builder,
    rows: usize,
}

impl PredictionTable {
    /// Creates the table.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        let text = |name| Field::new(name, DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![
            text("head"),
            text("relation"),
            text("tail"),
            text("asked"),
            Field::new("rank", DataType::UInt32, false),
            Field::new("score", DataType::Float32, false),
        ]));
        let writer = parquet::writer(path, &schema, true)?;
        Ok(Self {
            path: path.to_owned(),
            schema,
            writer: Some(writer),
            texts: Default::default(),
            ranks: UInt32Builder::new(),
            scores: Float32Builder::new(),
            rows: 0,
        })
    }

    /// Appends an edge.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put(&mut self, edge: &PredictedEdge<'_>) -> Result<(), FileError> {
        let values = [edge.head, edge.relation, edge.tail, edge.asked];
        for (column, value) in self.texts.iter_mut().zip(values) {
            column.append_value(value);
        }
        self.ranks.append_value(edge.rank);
        self.scores.append_value(edge.score);
        self.rows += 1;
        if self.rows == GROUP {
            self.write()?;
        }
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<(), FileError> {
        self.write()?;
        match self.writer.take() {
            Some(writer) => parquet::finish(writer, &self.path),
            None => Ok(()),
        }
    }

    /// Writes the buffered rows as a row group.
    fn write(&mut self) -> Result<(), FileError> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        for column in &mut self.texts {
            columns.push(Arc::new(column.finish()));
        }
        columns.push(Arc::new(self.ranks.finish()));
        columns.push(Arc::new(self.scores.finish()));
        self.rows = 0;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch = batch.map_err(|e| ChecksummedFile::write_error(&self.path, e))?;
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let written = writer.write(&batch).and_then(|()| writer.flush());
        written.map_err(|e| ChecksummedFile::write_error(&self.path, e))
    }
}
