//! Reading tables with named columns: CSV and Parquet.

use std::path::Path;
use std::sync::atomic::Ordering;

use arrow_array::{Array, Float32Array, RecordBatch, StringArray};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;

use super::ImportError;
use super::block::{BLOCK_BYTES, Content, EdgeRows, InputFile, Span, Wrong};
use super::cast;
use super::columns::ColumnLayout;
use super::source::Source;
use super::text::{check_name, check_weight, parse_weight};
use crate::files;

/// What takes the content of a file; false when no more is wanted.
pub(super) trait Sink {
    /// A buffer to fill, if more content is wanted.
    fn buffer(&mut self) -> Option<Vec<u8>>;
    /// Takes content and the bytes of the disk that it took.
    fn take(&mut self, content: Content, disk_bytes: u64) -> bool;
}

fn csv_reader(source: Source) -> csv::Reader<Box<dyn std::io::Read + Send>> {
    csv::ReaderBuilder::new()
        .flexible(true)
        .buffer_capacity(256 << 10)
        .from_reader(source.reader)
}

fn csv_error(path: &Path, error: csv::Error) -> ImportError {
    match error.into_kind() {
        csv::ErrorKind::Io(e) => files::FileError::new("read", path, e).into(),
        other => ImportError::input(path, csv::Error::from(io_error(&other)).to_string()),
    }
}

fn io_error(kind: &csv::ErrorKind) -> std::io::Error {
    std::io::Error::other(format!("{kind:?}"))
}

/// Names of the columns.
pub(super) fn csv_header(path: &Path) -> Result<Vec<String>, ImportError> {
    let mut reader = csv_reader(Source::open(path)?);
    let header = reader.byte_headers().map_err(|e| csv_error(path, e))?;
    let text = |field: &[u8]| {
        let text = std::str::from_utf8(field).map(|t| t.trim_start_matches('\u{feff}').to_owned());
        text.map_err(|_| ImportError::input(path, "its header is not UTF-8 text"))
    };
    header.iter().map(text).collect()
}

/// Reads a CSV file, record by record: a quoted name may hold line ends, so it cannot be cut.
pub(super) fn read_csv(file: &InputFile, sink: &mut dyn Sink) -> Result<(), ImportError> {
    let source = Source::open(&file.path)?;
    let disk = std::sync::Arc::clone(&source.disk_bytes);
    let mut reader = csv_reader(source);
    let mut record = csv::ByteRecord::new();
    let mut told = 0;
    let mut first_line = 1;
    let mut at_end = false;
    while !at_end {
        let Some(mut buffer) = sink.buffer() else {
            return Ok(());
        };
        let mut rows = EdgeRows::default();
        let mut wrong = None;
        while buffer.len() < BLOCK_BYTES / 2 && wrong.is_none() {
            at_end = !reader
                .read_byte_record(&mut record)
                .map_err(|e| csv_error(&file.path, e))?;
            if at_end {
                break;
            }
            let line = record.position().map_or(first_line, csv::Position::line) - first_line;
            rows.lines.push(line as u32);
            let result = push_record(&record, &file.layout, &mut buffer, &mut rows);
            wrong = result.err().map(|what| Wrong { line, what });
        }
        let next_line = reader.position().line();
        let disk_bytes = disk.load(Ordering::Relaxed);
        let content = Content::EdgeRows {
            buffer,
            rows,
            lines: next_line - first_line,
            wrong,
        };
        if !sink.take(content, disk_bytes - told) {
            return Ok(());
        }
        (told, first_line) = (disk_bytes, next_line);
    }
    Ok(())
}

fn push_record(
    record: &csv::ByteRecord,
    layout: &ColumnLayout,
    buffer: &mut Vec<u8>,
    rows: &mut EdgeRows,
) -> Result<(), String> {
    if record.len() != layout.count {
        let (expected, found) = (layout.count, record.len());
        return Err(format!(
            "{expected} columns are expected, and {found} found"
        ));
    }
    let mut name = |column: usize| push_name(&record[column], column, buffer);
    rows.lhs.push(name(layout.lhs)?);
    rows.rhs.push(name(layout.rhs)?);
    if let Some(rel) = layout.rel {
        rows.rel.push(name(rel)?);
    }
    if let Some(weight) = layout.weight {
        rows.weight.push(parse_weight(&record[weight])?);
    }
    Ok(())
}

fn push_name(name: &[u8], column: usize, buffer: &mut Vec<u8>) -> Result<Span, String> {
    check_name(name, column)?;
    if std::str::from_utf8(name).is_err() {
        return Err(format!("column {} is not UTF-8 text", column + 1));
    }
    let start = buffer.len() as u32;
    buffer.extend_from_slice(name);
    Ok(Span {
        start,
        end: buffer.len() as u32,
    })
}

fn parquet_reader(
    path: &Path,
) -> Result<ParquetRecordBatchReaderBuilder<std::fs::File>, ImportError> {
    let size = files::size(path)?;
    if size == 0 {
        return Err(ImportError::input(path, "it is empty"));
    }
    let file = files::open(path)?;
    let not_whole = |what| ImportError::input(path, format!("it is no whole Parquet file: {what}"));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file);
    let builder = builder.map_err(|e| not_whole(e.to_string()))?;
    match lies_elsewhere(builder.metadata(), size) {
        Some(column) => Err(not_whole(format!("column {column} lies outside of it"))),
        None => Ok(builder),
    }
}

/// A column of which a part is said to lie outside of the `size` bytes of the file: the library takes places for granted.
fn lies_elsewhere(metadata: &ParquetMetaData, size: u64) -> Option<String> {
    let mut columns = metadata.row_groups().iter().flat_map(|rows| rows.columns());
    let lies_elsewhere = columns.find(|column| {
        let first = column.dictionary_page_offset();
        let start = first.unwrap_or_else(|| column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        start < 0 || column.compressed_size() < 0 || end.is_none_or(|end| end > size)
    });
    lies_elsewhere.map(|column| column.column_path().string())
}

/// Names of the columns.
pub(super) fn parquet_header(path: &Path) -> Result<Vec<String>, ImportError> {
    let reader = parquet_reader(path)?;
    Ok(reader
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect())
}

/// Rows decoded at a time: a block's worth of names.
const PARQUET_ROWS: usize = 8192;

/// Reads a Parquet file, batch by batch, decoding only the columns that are needed.
pub(super) fn read_parquet(file: &InputFile, sink: &mut dyn Sink) -> Result<(), ImportError> {
    let path = &file.path;
    let wrong = |e: String| ImportError::input(path, format!("it cannot be decoded: {e}"));
    let builder = parquet_reader(path)?;
    let layout = &file.layout;
    let used: Vec<usize> = [
        Some(layout.lhs),
        layout.rel,
        Some(layout.rhs),
        layout.weight,
    ]
    .into_iter()
    .flatten()
    .collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), used.iter().copied());
    let rows_total = builder.metadata().file_metadata().num_rows().max(1) as u64;
    let size = files::size(path)?;
    let reader = builder
        .with_projection(mask)
        .with_batch_size(PARQUET_ROWS)
        .build();
    let (mut rows_done, mut told) = (0_u64, 0);
    for batch in reader.map_err(|e| wrong(e.to_string()))? {
        let batch = batch.map_err(|e| wrong(e.to_string()))?;
        let Some(mut buffer) = sink.buffer() else {
            return Ok(());
        };
        let mut rows = EdgeRows::default();
        let columns = TableColumns::new(&batch, layout, &used).map_err(wrong)?;
        let result = (0..batch.num_rows()).try_for_each(|row| {
            rows.lines.push(row as u32);
            let result = columns.push(row, &mut buffer, &mut rows);
            result.map_err(|what| Wrong {
                line: row as u64,
                what,
            })
        });
        rows_done += batch.num_rows() as u64;
        let disk_bytes = (u128::from(size) * u128::from(rows_done) / u128::from(rows_total)) as u64;
        let lines = batch.num_rows() as u64;
        let content = Content::EdgeRows {
            buffer,
            rows,
            lines,
            wrong: result.err(),
        };
        if !sink.take(content, disk_bytes.saturating_sub(told)) {
            return Ok(());
        }
        told = disk_bytes;
    }
    Ok(())
}

/// The columns of a batch as text and numbers.
struct TableColumns {
    lhs: (usize, StringArray),
    rel: Option<(usize, StringArray)>,
    rhs: (usize, StringArray),
    weight: Option<Float32Array>,
}

impl TableColumns {
    fn new(batch: &RecordBatch, layout: &ColumnLayout, used: &[usize]) -> Result<Self, String> {
        // The projection keeps the order of the file.
        let position = |at: usize| used.iter().filter(|&&other| other < at).count();
        let of = |at: usize, error: String| {
            let name = batch
                .schema_ref()
                .field(position(at))
                .name()
                .escape_debug()
                .to_string();
            format!("column `{name}`: {error}")
        };
        let text = |at: usize| {
            let names = cast::names(batch.column(position(at)));
            names.map(|names| (at, names)).map_err(|e| of(at, e))
        };
        let number = |at: usize| cast::weights(batch.column(position(at))).map_err(|e| of(at, e));
        Ok(Self {
            lhs: text(layout.lhs)?,
            rel: layout.rel.map(text).transpose()?,
            rhs: text(layout.rhs)?,
            weight: layout.weight.map(number).transpose()?,
        })
    }

    fn push(&self, row: usize, buffer: &mut Vec<u8>, rows: &mut EdgeRows) -> Result<(), String> {
        let mut name = |(column, array): &(usize, StringArray)| {
            let name = if array.is_null(row) {
                ""
            } else {
                array.value(row)
            };
            push_name(name.as_bytes(), *column, buffer)
        };
        rows.lhs.push(name(&self.lhs)?);
        rows.rhs.push(name(&self.rhs)?);
        if let Some(rel) = &self.rel {
            rows.rel.push(name(rel)?);
        }
        if let Some(weight) = &self.weight {
            let number = if weight.is_null(row) {
                f32::NAN
            } else {
                weight.value(row)
            };
            rows.weight.push(check_weight(number)?);
        }
        Ok(())
    }
}
