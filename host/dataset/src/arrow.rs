//! Robust reading of the Arrow files that this program writes.
//!
//! Arrow's reader trusts the lengths and offsets in a file; where they are wrong, it panics or allocates all memory.
//! Checksums detect accidental damage, but a forged file has forged checksums. So every length and offset is checked
//! against the actual file before it is decoded.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MetadataVersion};
use arrow_schema::{DataType, SchemaRef};

use super::DatasetError;
use pbg_files as files;

/// Last bytes of an Arrow file, after the length of its footer.
const MAGIC: &[u8; 6] = b"ARROW1";
/// Size in bytes of the footer's length and [`MAGIC`].
const END: u64 = 10;

/// Iterator over the record batches of a file with a known schema.
pub(super) struct Batches {
    path: PathBuf,
    file: File,
    schema: SchemaRef,
    blocks: std::vec::IntoIter<(u64, u64)>,
}

impl Batches {
    /// Reads the footer of `file`, which was opened from `path`.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub(super) fn open(path: PathBuf, file: File, schema: SchemaRef) -> Result<Self, DatasetError> {
        let size = files::size(&path)?;
        let damaged = |what: &str| DatasetError::damaged(&path, what);
        let mut end = [0; END as usize];
        let at = size.checked_sub(END);
        let at = at.ok_or_else(|| damaged("it is too short"))?;
        files::read_exact_at(&file, &path, &mut end, at)?;
        let [a, b, c, d, magic @ ..] = end;
        let length = u64::try_from(i32::from_le_bytes([a, b, c, d])).ok();
        let start = length.and_then(|length| at.checked_sub(length));
        let start = start.filter(|_| magic == *MAGIC);
        let start = start.ok_or_else(|| damaged("it does not end like an Arrow file"))?;
        let mut footer = vec![0; (at - start) as usize];
        files::read_exact_at(&file, &path, &mut footer, start)?;
        let footer = arrow_ipc::root_as_footer(&footer)
            .map_err(|e| damaged(&format!("its footer cannot be read: {e}")))?;
        let mut blocks = Vec::new();
        for block in footer.recordBatches().into_iter().flatten() {
            let offset = u64::try_from(block.offset()).ok();
            let body = u64::try_from(block.bodyLength()).ok();
            let length = u64::try_from(block.metaDataLength()).ok();
            let length = length.zip(body).and_then(|(m, b)| m.checked_add(b));
            let within = |&(offset, length): &(u64, u64)| {
                offset.checked_add(length).is_some_and(|end| end <= start)
            };
            let block = offset.zip(length).filter(within);
            blocks.push(block.ok_or_else(|| damaged("its footer points outside the file"))?);
        }
        Ok(Self {
            file,
            schema,
            blocks: blocks.into_iter(),
            path,
        })
    }

    fn read(&self, offset: u64, length: u64) -> Result<RecordBatch, DatasetError> {
        let mut buffer = MutableBuffer::from_len_zeroed(length as usize);
        files::read_exact_at(&self.file, &self.path, buffer.as_slice_mut(), offset)?;
        decode(&self.schema, buffer.into()).map_err(|what| DatasetError::damaged(&self.path, what))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (offset, length) = self.blocks.next()?;
        Some(self.read(offset, length))
    }
}

/// Returns a column of texts, if the batch has it.
pub(super) fn texts<'b>(batch: &'b RecordBatch, name: &str) -> Option<&'b StringArray> {
    batch.column_by_name(name)?.as_string_opt::<i32>()
}

/// Decodes an encapsulated IPC message; the columns of the batch are views of `buffer`.
///
/// # Errors
/// Returns a description of the damage.
pub(super) fn decode(schema: &SchemaRef, buffer: Buffer) -> Result<RecordBatch, String> {
    // The prefix is a continuation marker and the length of the metadata.
    let prefix: Option<&[u8; 8]> = buffer.as_slice().first_chunk();
    let [_, _, _, _, a, b, c, d] = *prefix.ok_or("a batch is too short")?;
    let length = i32::from_le_bytes([a, b, c, d]);
    let metadata = usize::try_from(length).ok().and_then(|n| n.checked_add(8));
    let metadata = metadata.filter(|&end| end <= buffer.len());
    let metadata = metadata.ok_or("the metadata of a batch is too long")?;
    let body = buffer.len() - metadata;
    check(schema, &buffer.as_slice()[8..metadata], body)?;
    let length = i32::try_from(metadata).map_err(|e| e.to_string())?;
    let decoder = FileDecoder::new(Arc::clone(schema), MetadataVersion::V5);
    match decoder.read_record_batch(&Block::new(0, length, body as i64), &buffer) {
        Ok(Some(batch)) => Ok(batch),
        Ok(None) => Err("a message is not a record batch".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// Checks that the columns described by `metadata` lie within a body of `body` bytes and are as this program writes
/// them: uncompressed and without nulls.
fn check(schema: &SchemaRef, metadata: &[u8], body: usize) -> Result<(), String> {
    let message = arrow_ipc::root_as_message(metadata)
        .map_err(|e| format!("the metadata of a batch cannot be read: {e}"))?;
    let batch = message.header_as_record_batch();
    let batch = batch.ok_or("a message is not a record batch")?;
    if batch.compression().is_some() {
        return Err("a batch is compressed".to_owned());
    }
    // Every value takes at least one byte.
    let count = |n: i64| usize::try_from(n).is_ok_and(|n| n <= body);
    let nodes = batch.nodes().into_iter().flatten();
    let mut counts = nodes.map(|node| count(node.length()) && node.null_count() == 0);
    if !count(batch.length()) || !counts.all(|right| right) {
        return Err("a batch has more rows than bytes".to_owned());
    }
    let within = |buffer: &arrow_ipc::Buffer| {
        let end = buffer.offset().checked_add(buffer.length());
        buffer.offset() >= 0
            && buffer.length() >= 0
            && end.is_some_and(|end| usize::try_from(end).is_ok_and(|end| end <= body))
    };
    let mut widths = Vec::new();
    for field in schema.fields() {
        buffer_widths(field.data_type(), &mut widths);
    }
    let buffers: Vec<_> = batch.buffers().into_iter().flatten().collect();
    if buffers.len() != widths.len() {
        return Err("a batch has columns other than those of its schema".to_owned());
    }
    for (buffer, width) in buffers.into_iter().zip(widths) {
        if !within(buffer) {
            return Err("a column extends beyond its batch".to_owned());
        }
        if buffer.offset() % 8 != 0 || buffer.length() % width != 0 {
            return Err("a column ends within a value".to_owned());
        }
    }
    Ok(())
}

/// Appends the bytes per value of each buffer of a column of this type, in the order of the format: validity bits,
/// offsets, values.
fn buffer_widths(of: &DataType, widths: &mut Vec<i64>) {
    widths.push(1);
    match of {
        DataType::Utf8 | DataType::Binary => widths.extend([4, 1]),
        DataType::List(item) => {
            widths.push(4);
            buffer_widths(item.data_type(), widths);
        }
        other => widths.push(other.primitive_width().unwrap_or(1) as i64),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, StringArray};
    use arrow_ipc::writer::FileWriter;
    use arrow_schema::{DataType, Field, Schema};
    use proptest::prelude::*;

    use super::*;

    fn schema() -> SchemaRef {
        let list = DataType::List(Arc::new(Field::new("item", DataType::UInt32, false)));
        Arc::new(Schema::new(vec![
            Field::new("name", DataType::Utf8, false),
            Field::new("features", list, false),
        ]))
    }

    fn file() -> Vec<u8> {
        use arrow_array::builder::{ListBuilder, UInt32Builder};
        let item = Field::new("item", DataType::UInt32, false);
        let mut lists = ListBuilder::new(UInt32Builder::new()).with_field(item);
        for count in [2, 0, 3] {
            lists.values().append_slice(&[7; 3][..count]);
            lists.append(true);
        }
        let names = StringArray::from(vec!["north", "", "süd"]);
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(names), Arc::new(lists.finish())];
        let batch = RecordBatch::try_new(schema(), columns).unwrap();
        let mut writer = FileWriter::try_new(Vec::new(), &schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<usize, DatasetError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names.arrow");
        std::fs::write(&path, bytes).unwrap();
        let file = files::open(&path)?;
        let batches = Batches::open(path, file, schema())?;
        let rows = batches.map(|batch| Ok(batch?.num_rows()));
        rows.sum()
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(&file()).unwrap(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

        /// Any bytes yield a batch or an error: nothing panics, and no allocation is larger than the file.
        #[test]
        fn forged_bytes_are_an_error_or_a_batch(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            wide in any::<bool>(),
        ) {
            let mut bytes = file();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                let end = bytes.len().min(at + if wide { 8 } else { 1 });
                bytes[at..end].fill(value);
            }
            let _either = read(&bytes);
        }
    }
}
