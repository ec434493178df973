//! Parquet files with a column of names, and a column of lists of numbers or a column for each number.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, downcast_integer_array};
use arrow_schema::{DataType, Field};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;
use pbg_files as files;

use crate::names::{NameVisitor, checked};
use crate::raw::RowVisitor;
use crate::{BUFFER_BYTES, VectorError};

pub(crate) const MAGIC: &[u8] = b"PAR1";

/// Usual names of columns, for files with several that could be meant.
const NAME_COLUMNS: [&str; 4] = ["name", "entity", "id", "node"];
const VECTOR_COLUMNS: [&str; 3] = ["embedding", "vector", "embeddings"];

/// Names read at a time.
const NAMES_AT_ONCE: usize = 4096;

type ReaderBuilder = ParquetRecordBatchReaderBuilder<std::fs::File>;

/// Parquet file whose columns are known.
#[derive(Debug)]
pub(crate) struct ParquetVectors {
    path: PathBuf,
    pub(crate) rows: u64,
    pub(crate) dimension: usize,
    /// Index of the column of names.
    pub(crate) names: Option<usize>,
    vectors: VectorColumns,
}

#[derive(Debug)]
enum VectorColumns {
    /// Column of lists.
    List(usize),
    /// Column for each number of a vector.
    Numbers(Vec<usize>),
}

impl ParquetVectors {
    /// Finds the columns of a file.
    pub(crate) fn open(path: &Path) -> Result<Self, VectorError> {
        let builder = builder(path)?;
        let fields = builder.schema().fields().clone();
        let rows = builder.metadata().file_metadata().num_rows();
        let of_kind = |is: fn(&DataType) -> bool| -> Vec<usize> {
            let fields = fields.iter().enumerate();
            let found = fields.filter(|(_, field)| is(field.data_type()));
            found.map(|(at, _)| at).collect()
        };
        let name = |at: usize| fields[at].name().as_str();
        let usual = |columns: &[usize], usual: &[&str]| {
            usual.iter().find_map(|&usual| {
                let mut columns = columns.iter().copied();
                columns.find(|&at| name(at).eq_ignore_ascii_case(usual))
            })
        };
        let lists = of_kind(|kind| list_item(kind).is_some_and(|item| is_float(item.data_type())));
        let numbers = of_kind(is_float);
        let vectors = match (&lists[..], usual(&lists, &VECTOR_COLUMNS)) {
            (&[only], _) | (_, Some(only)) => VectorColumns::List(only),
            ([], None) if !numbers.is_empty() => VectorColumns::Numbers(numbers),
            ([], None) => {
                let what = "it has no column of vectors: a column of lists of floating-point numbers, or a column for each \
                            number";
                return Err(VectorError::content(path, what));
            }
            (several, None) => {
                let names: Vec<String> = several.iter().map(|&at| shown(name(at))).collect();
                let what = format!(
                    "several columns may be the vectors: {}; call one of them `embedding`",
                    names.join(", ")
                );
                return Err(VectorError::content(path, what));
            }
        };
        let texts = of_kind(is_text);
        let integers = of_kind(DataType::is_integer);
        let found = usual(&texts, &NAME_COLUMNS)
            .or_else(|| {
                <[usize; 1]>::try_from(texts.clone())
                    .ok()
                    .map(|[only]| only)
            })
            .or_else(|| usual(&integers, &NAME_COLUMNS));
        if found.is_none() && !texts.is_empty() {
            let names: Vec<String> = texts.iter().map(|&at| shown(name(at))).collect();
            let what = format!(
                "several columns may be the names of the entities: {}; call one of them `name`",
                names.join(", ")
            );
            return Err(VectorError::content(path, what));
        }
        let mut file = Self {
            path: path.to_owned(),
            rows: u64::try_from(rows).unwrap_or(0),
            dimension: 0,
            names: found,
            vectors,
        };
        file.dimension = file.find_dimension(&fields)?;
        Ok(file)
    }

    fn find_dimension(&self, fields: &[std::sync::Arc<Field>]) -> Result<usize, VectorError> {
        let column = match &self.vectors {
            VectorColumns::Numbers(columns) => return Ok(columns.len()),
            VectorColumns::List(column) => *column,
        };
        if let DataType::FixedSizeList(_, size) = fields[column].data_type() {
            return Ok(usize::try_from(*size).unwrap_or(0));
        }
        let mut first = self.reader(&[column], 1)?;
        match first.next() {
            Some(batch) => {
                let batch = batch.map_err(|e| self.damaged(&e))?;
                Ok(list(batch.column(0), 0).map_or(0, |list| list.len()))
            }
            None => Ok(0),
        }
    }

    /// Calls `visit` with the names in the column `column`.
    pub(crate) fn visit_names(
        &self,
        column: usize,
        visit: &mut NameVisitor<'_>,
    ) -> Result<u64, VectorError> {
        let mut row = 0;
        for batch in self.reader(&[column], NAMES_AT_ONCE)? {
            let batch = batch.map_err(|e| self.damaged(&e))?;
            let names =
                names(batch.column(0)).map_err(|what| VectorError::content(&self.path, what))?;
            for name in &names {
                let name = name.ok_or_else(|| "the name is missing".to_owned());
                let name = name.and_then(|name| checked(name.as_bytes()));
                let name = name.map_err(|what| self.wrong_row(row, &what))?;
                visit(row, name)?;
                row += 1;
            }
        }
        Ok(row)
    }

    /// Calls `visit` with the vector of each of `wanted`, which ascend.
    pub(crate) fn visit(
        &self,
        wanted: &mut dyn Iterator<Item = u64>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), VectorError> {
        let columns = match &self.vectors {
            VectorColumns::List(column) => std::slice::from_ref(column),
            VectorColumns::Numbers(columns) => columns,
        };
        let at_once = (BUFFER_BYTES / (8 * self.dimension)).clamp(1, NAMES_AT_ONCE);
        let (mut start, mut wanted) = (0, wanted.peekable());
        let mut vector = Vec::with_capacity(self.dimension);
        for batch in self.reader(columns, at_once)? {
            let batch = batch.map_err(|e| self.damaged(&e))?;
            let end = start + batch.num_rows() as u64;
            while let Some(row) = wanted.next_if(|&row| row < end) {
                vector.clear();
                self.decode(&batch, (row - start) as usize, &mut vector)
                    .map_err(|what| self.wrong_row(row, &what))?;
                visit(row, &vector)?;
            }
            start = end;
            if wanted.peek().is_none() {
                break;
            }
        }
        match wanted.next() {
            Some(row) => Err(not_whole(
                &self.path,
                &format!("row {} of {} is missing", row + 1, self.rows),
            )),
            None => Ok(()),
        }
    }

    /// Decodes the vector in a row of a batch.
    fn decode(&self, batch: &RecordBatch, row: usize, out: &mut Vec<f32>) -> Result<(), String> {
        match &self.vectors {
            VectorColumns::Numbers(_) => {
                for column in batch.columns() {
                    append(&column.slice(row, 1), out)?;
                }
            }
            VectorColumns::List(_) => {
                let list = list(batch.column(0), row).ok_or("it has no vector")?;
                append(&list, out)?;
            }
        }
        match out.len() == self.dimension {
            true => Ok(()),
            false => Err(format!(
                "its vector has {} numbers, but that of the first row has {}",
                out.len(),
                self.dimension
            )),
        }
    }

    fn reader(
        &self,
        columns: &[usize],
        at_once: usize,
    ) -> Result<ParquetRecordBatchReader, VectorError> {
        let builder = builder(&self.path)?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
        let reader = builder.with_projection(mask).with_batch_size(at_once);
        reader.build().map_err(|e| self.damaged(&e))
    }

    fn damaged(&self, error: &dyn std::error::Error) -> VectorError {
        not_whole(&self.path, &error.to_string())
    }

    fn wrong_row(&self, row: u64, what: &str) -> VectorError {
        VectorError::content(&self.path, format!("row {}: {what}", row + 1))
    }
}

fn not_whole(path: &Path, what: &str) -> VectorError {
    VectorError::content(path, format!("it is not a complete Parquet file: {what}"))
}

fn builder(path: &Path) -> Result<ReaderBuilder, VectorError> {
    let size = files::size(path)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(files::open(path)?);
    let builder = builder.map_err(|e| not_whole(path, &e.to_string()))?;
    match extends_beyond(builder.metadata(), size) {
        true => Err(not_whole(path, "a column extends beyond its end")),
        false => Ok(builder),
    }
}

/// Returns whether a column extends beyond the `size` bytes of the file according to the metadata. The Parquet library
/// does not check this.
fn extends_beyond(metadata: &ParquetMetaData, size: u64) -> bool {
    let mut columns = metadata.row_groups().iter().flat_map(|rows| rows.columns());
    columns.any(|column| {
        let first = column.dictionary_page_offset();
        let start = first.unwrap_or_else(|| column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        start < 0 || column.compressed_size() < 0 || end.is_none_or(|end| end > size)
    })
}

fn is_float(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Float16 | DataType::Float32 | DataType::Float64
    )
}

fn is_text(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn list_item(kind: &DataType) -> Option<&Field> {
    match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item)
        }
        _ => None,
    }
}

/// Returns the list in a row of a column; `None` if it is null.
fn list(column: &ArrayRef, row: usize) -> Option<ArrayRef> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::List(_) => Some(column.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Some(column.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => Some(column.as_fixed_size_list().value(row)),
        _ => None,
    }
}

/// Appends the numbers of an array.
fn append(numbers: &ArrayRef, out: &mut Vec<f32>) -> Result<(), String> {
    if numbers.null_count() > 0 {
        return Err("a number is missing".to_owned());
    }
    match numbers.data_type() {
        DataType::Float16 => {
            let numbers = numbers.as_primitive::<Float16Type>();
            out.extend(numbers.values().iter().map(|number| number.to_f32()));
        }
        DataType::Float32 => out.extend_from_slice(numbers.as_primitive::<Float32Type>().values()),
        DataType::Float64 => {
            let numbers = numbers.as_primitive::<Float64Type>();
            out.extend(numbers.values().iter().map(|&number| number as f32));
        }
        other => return Err(format!("numbers of the type {other} are not vectors")),
    }
    Ok(())
}

/// Returns the names in a column of text or integers.
fn names(column: &ArrayRef) -> Result<StringArray, String> {
    downcast_integer_array!(
        column => Ok(column.iter().map(|number| number.map(|n| n.to_string())).collect()),
        DataType::Utf8 => Ok(column.as_string::<i32>().clone()),
        DataType::LargeUtf8 => Ok(column.as_string::<i64>().iter().collect()),
        DataType::Utf8View => Ok(column.as_string_view().iter().collect()),
        other => Err(format!("names cannot have the type {other}")),
    )
}

fn shown(name: &str) -> String {
    format!("`{}`", name.escape_debug())
}
