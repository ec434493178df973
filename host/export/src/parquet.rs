//! Parquet tables of embeddings and parameters.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder, UInt64Builder};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::ExportError;
use super::embedding_file::EmbeddingFile;
use pbg_checkpoint::Tensor;
use pbg_files::{ChecksummedFile, FileError};

/// Writer of a table with columns `name` and `embedding`, a list of fixed size.
pub(super) struct ParquetWriter {
    path: PathBuf,
    dim: usize,
    item: Arc<Field>,
    schema: SchemaRef,
    writer: ArrowWriter<ChecksummedFile>,
}

impl ParquetWriter {
    pub(super) fn create(path: &Path, dim: usize) -> Result<Self, FileError> {
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let list = DataType::FixedSizeList(Arc::clone(&item), dim as i32);
        let schema = Arc::new(Schema::new(vec![
            Field::new("name", DataType::Utf8, false),
            Field::new("embedding", list, false),
        ]));
        let writer = writer(path, &schema, false)?;
        Ok(Self {
            path: path.to_owned(),
            dim,
            item,
            schema,
            writer,
        })
    }
}

impl EmbeddingFile for ParquetWriter {
    fn put(&mut self, names: &[&str], values: &[f32]) -> Result<(), ExportError> {
        let values = Arc::new(Float32Array::from(values.to_vec()));
        let lists = FixedSizeListArray::new(Arc::clone(&self.item), self.dim as i32, values, None);
        let names = Arc::new(StringArray::from(names.to_vec()));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![names, Arc::new(lists)]);
        let batch = batch.map_err(|e| ChecksummedFile::write_error(&self.path, e))?;
        Ok(self
            .writer
            .write(&batch)
            .map_err(|e| ChecksummedFile::write_error(&self.path, e))?)
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        Ok(finish(self.writer, &self.path)?)
    }
}

/// Writes the parameters as a table with columns `name`, `shape` and `values`.
pub(super) fn parameters(path: &Path, tensors: &[&Tensor]) -> Result<(), ExportError> {
    let mut shapes = ListBuilder::new(UInt64Builder::new());
    let mut values = ListBuilder::new(Float32Builder::new());
    for tensor in tensors {
        for &size in &tensor.shape {
            shapes.values().append_value(size as u64);
        }
        shapes.append(true);
        values.values().append_slice(&tensor.values);
        values.append(true);
    }
    let names = StringArray::from_iter_values(tensors.iter().map(|tensor| &tensor.name));
    let (shapes, values) = (shapes.finish(), values.finish());
    let schema = Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("shape", shapes.data_type().clone(), false),
        Field::new("values", values.data_type().clone(), false),
    ]));
    let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(shapes), Arc::new(values)];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
    let batch = batch.map_err(|e| ChecksummedFile::write_error(path, e))?;
    let mut writer = writer(path, &schema, false)?;
    writer
        .write(&batch)
        .map_err(|e| ChecksummedFile::write_error(path, e))?;
    Ok(finish(writer, path)?)
}

/// Creates a Parquet writer whose file gets its name when it is complete. `dictionaries` enables dictionary encoding,
/// for columns whose values repeat. Values of embeddings hardly ever do, so dictionaries would only cost time.
pub(crate) fn writer(
    path: &Path,
    schema: &SchemaRef,
    dictionaries: bool,
) -> Result<ArrowWriter<ChecksummedFile>, FileError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(dictionaries)
        .build();
    ArrowWriter::try_new(
        ChecksummedFile::unfinished(path)?,
        Arc::clone(schema),
        Some(properties),
    )
    .map_err(|e| ChecksummedFile::write_error(path, e))
}

/// Completes a file and syncs it to disk.
pub(crate) fn finish(writer: ArrowWriter<ChecksummedFile>, path: &Path) -> Result<(), FileError> {
    let file = writer
        .into_inner()
        .map_err(|e| ChecksummedFile::write_error(path, e))?;
    file.finish(true).map(|_| ())
}
