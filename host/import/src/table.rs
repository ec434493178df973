//! Reader of Parquet files.

use arrow_array::{Array, Float32Array, RecordBatch, StringArray};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;

use super::block::{BadLines, Content, EdgeFormat, EdgeRows, InputFile, LineError, NameSpan};
use super::columns::ColumnLayout;
use super::detect::detected::{DetectedFormat, UserOptions};
use super::inputs::InputPath;
use super::reading::{FormatDescription, HeaderSource};
use super::text::{check_name, check_weight};
use super::{ImportError, cast};
use pbg_files as files;

/// Consumer of the content of a file.
pub(super) trait Sink {
    /// Returns a buffer to fill, or `None` if no more content is wanted.
    fn buffer(&mut self) -> Option<Vec<u8>>;
    /// Takes content and the number of bytes that it takes on disk. Returns whether more is wanted.
    fn take(&mut self, content: Content, disk_bytes: u64) -> bool;
}

/// Appends a name to `buffer`.
pub(super) fn push_name(
    name: &[u8],
    column: usize,
    buffer: &mut Vec<u8>,
) -> Result<NameSpan, String> {
    check_name(name, column)?;
    if std::str::from_utf8(name).is_err() {
        return Err(format!("column {} is not UTF-8 text", column + 1));
    }
    let start = buffer.len() as u32;
    buffer.extend_from_slice(name);
    Ok(NameSpan {
        start,
        end: buffer.len() as u32,
    })
}

fn parquet_reader(
    input: &InputPath,
) -> Result<ParquetRecordBatchReaderBuilder<std::fs::File>, ImportError> {
    let path = &input.path;
    let size = files::size(&input.source)?;
    let file = files::open(&input.source)?;
    let not_whole =
        |what| ImportError::input(path, format!("it is not a complete Parquet file: {what}"));
    let builder = ParquetRecordBatchReaderBuilder::try_new(file);
    let builder = builder.map_err(|e| not_whole(e.to_string()))?;
    match lies_elsewhere(builder.metadata(), size) {
        Some(column) => Err(not_whole(format!("column {column} extends beyond its end"))),
        None => Ok(builder),
    }
}

/// Returns a column that extends beyond the `size` bytes of the file according to the metadata. The Parquet library
/// does not check this.
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

/// Detects the roles of the columns of a Parquet file.
pub(super) fn detect(
    input: &InputPath,
    said: UserOptions<'_>,
) -> Result<DetectedFormat, ImportError> {
    let reader = parquet_reader(input)?;
    let fields = reader.schema().fields().iter();
    let names: Vec<String> = fields.map(|field| field.name().clone()).collect();
    let header: Vec<&str> = names.iter().map(String::as_str).collect();
    let layout = ColumnLayout::with_header(said.columns, &header);
    let layout = layout.map_err(|what| ImportError::input(&input.path, what))?;
    // Decoding errors are reported when the file is read, with the row.
    let first = first_row(reader, &layout, names.len());
    Ok(DetectedFormat {
        format: EdgeFormat::Parquet,
        layout,
        reading: FormatDescription {
            head: HeaderSource::Columns(names),
            first,
            ..FormatDescription::default()
        },
        prefixes: Vec::new(),
    })
}

/// Returns the first row's cells of the used columns, and empty cells for the others.
fn first_row(
    builder: ParquetRecordBatchReaderBuilder<std::fs::File>,
    layout: &ColumnLayout,
    columns: usize,
) -> Option<Vec<String>> {
    let used = layout.used();
    let mut reader = reader_of(builder, &used, 1).ok()?;
    let batch = reader.next()?.ok()?;
    let mut cells = vec![String::new(); columns];
    let table = TableColumns::new(&batch, layout, &used).ok()?;
    for (column, array) in [&table.lhs, &table.rhs].into_iter().chain(&table.rel) {
        cells[*column] = array.iter().next().flatten().unwrap_or_default().to_owned();
    }
    if let (Some(column), Some(weights)) = (layout.weight, &table.weight) {
        cells[column] = weights.iter().next().flatten()?.to_string();
    }
    Some(cells)
}

/// Returns the reader of the `used` columns, in batches of `rows` rows.
fn reader_of(
    builder: ParquetRecordBatchReaderBuilder<std::fs::File>,
    used: &[usize],
    rows: usize,
) -> parquet::errors::Result<ParquetRecordBatchReader> {
    let mask = ProjectionMask::roots(builder.parquet_schema(), used.iter().copied());
    builder.with_projection(mask).with_batch_size(rows).build()
}

/// Rows that are decoded per batch: about as many names as a block of text has.
const PARQUET_ROWS: usize = 8192;

/// Reads a Parquet file in batches, decoding only the columns that are needed.
pub(super) fn read_parquet(file: &InputFile, sink: &mut dyn Sink) -> Result<(), ImportError> {
    let path = &file.file.path;
    let wrong = |e: String| ImportError::input(path, format!("it cannot be decoded: {e}"));
    let builder = parquet_reader(&file.file)?;
    let layout = &file.layout;
    let used = layout.used();
    let rows_total = builder.metadata().file_metadata().num_rows().max(1) as u64;
    let size = file.file.bytes();
    let reader = reader_of(builder, &used, PARQUET_ROWS);
    let (mut rows_done, mut told) = (0_u64, 0);
    for batch in reader.map_err(|e| wrong(e.to_string()))? {
        let batch = batch.map_err(|e| wrong(e.to_string()))?;
        let Some(mut buffer) = sink.buffer() else {
            return Ok(());
        };
        let mut rows = EdgeRows::default();
        let mut bad = BadLines::default();
        let columns = TableColumns::new(&batch, layout, &used).map_err(wrong)?;
        let result = (0..batch.num_rows()).try_for_each(|row| {
            let bytes = buffer.len();
            columns.push(row, &mut buffer, &mut rows).or_else(|what| {
                buffer.truncate(bytes);
                let line = row as u64;
                bad.record(file.on_bad_line, LineError { line, what })
            })
        });
        rows_done += batch.num_rows() as u64;
        let disk_bytes = (u128::from(size) * u128::from(rows_done) / u128::from(rows_total)) as u64;
        let lines = batch.num_rows() as u64;
        let content = Content::EdgeRows {
            buffer,
            rows,
            lines,
            bad,
            wrong: result.err(),
        };
        if !sink.take(content, disk_bytes.saturating_sub(told)) {
            return Ok(());
        }
        told = disk_bytes;
    }
    Ok(())
}

/// Columns of a batch, converted to text and numbers.
struct TableColumns {
    lhs: (usize, StringArray),
    rel: Option<(usize, StringArray)>,
    rhs: (usize, StringArray),
    weight: Option<Float32Array>,
}

impl TableColumns {
    fn new(batch: &RecordBatch, layout: &ColumnLayout, used: &[usize]) -> Result<Self, String> {
        // The projection keeps the column order of the file.
        let position = |at: usize| used.iter().filter(|&&other| other < at).count();
        let of = |at: usize, error: String| {
            let name = batch.schema_ref().field(position(at)).name();
            format!("column `{}`: {error}", name.escape_debug())
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
        let (lhs, rhs) = (name(&self.lhs)?, name(&self.rhs)?);
        let rel = self.rel.as_ref().map(name).transpose()?;
        let weight = |weights: &Float32Array| match weights.is_null(row) {
            true => check_weight(f32::NAN),
            false => check_weight(weights.value(row)),
        };
        let weight = self.weight.as_ref().map(weight).transpose()?;
        rows.push(row as u64, (lhs, rel, rhs), weight);
        Ok(())
    }
}
