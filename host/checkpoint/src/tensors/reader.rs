//! Sequential reader of a safetensors file that computes its checksum.
//!
//! The file may be an object that arrives over a network. Files on disk are read by position, because several readers
//! may use the same open file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use pbg_core::bfloat16;
use pbg_core::model::EmbeddingFormat;

use super::header::{BF16, CHUNK, Entry, F32, METADATA};
use crate::CheckpointError;
use pbg_files::{FileError, FileSummary};

/// Maximum header length in bytes; other readers of the format have the same limit.
const MAX_HEADER: u64 = 100_000_000;

/// Header entry of a tensor.
pub(super) struct TensorEntry {
    pub(super) name: String,
    /// Number format of the values.
    pub(super) storage: EmbeddingFormat,
    pub(super) shape: Vec<usize>,
    /// Byte range of the values, relative to the end of the header.
    pub(super) bytes: Range<u64>,
}

/// Open file that is read from its beginning without moving its shared position.
pub(super) struct FileStart<'a> {
    file: &'a File,
    position: u64,
}

impl Read for FileStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

/// Reader of a safetensors file from beginning to end, so that its checksum can be compared.
pub(super) struct SafetensorsReader<'a, R> {
    path: &'a Path,
    source: R,
    expected: FileSummary,
    hasher: crc32fast::Hasher,
    /// Number of bytes read so far.
    pub(super) position: u64,
    bytes: Vec<u8>,
    halves: Vec<u16>,
}

impl<'a> SafetensorsReader<'a, FileStart<'a>> {
    /// Creates the reader of a file, whose size must be the expected one.
    pub(super) fn of_file(
        file: &'a File,
        path: &'a Path,
        expected: FileSummary,
    ) -> Result<Self, CheckpointError> {
        let metadata = file.metadata();
        let size = metadata.map_err(|e| FileError::new("open", path, e))?.len();
        let position = 0;
        Self::new(FileStart { file, position }, size, path, expected)
    }
}

impl<'a, R: Read> SafetensorsReader<'a, R> {
    /// Creates the reader of `source`, which has `size` bytes. `path` is its name in messages.
    pub(super) fn new(
        source: R,
        size: u64,
        path: &'a Path,
        expected: FileSummary,
    ) -> Result<Self, CheckpointError> {
        if size != expected.size {
            let what = format!("it has {size} bytes instead of {}", expected.size);
            return Err(CheckpointError::damaged(path, what));
        }
        Ok(Self {
            path,
            source,
            expected,
            hasher: crc32fast::Hasher::new(),
            position: 0,
            bytes: Vec::new(),
            halves: Vec::new(),
        })
    }

    /// Reads the next `length` bytes.
    fn take(&mut self, length: usize) -> Result<&[u8], CheckpointError> {
        self.bytes.resize(length, 0);
        let read = self.source.read_exact(&mut self.bytes);
        read.map_err(|e| FileError::new("read", self.path, e))?;
        self.hasher.update(&self.bytes);
        self.position += length as u64;
        Ok(&self.bytes)
    }

    /// Reads the header. Returns all tensors in the order of their values.
    pub(super) fn header(&mut self) -> Result<Vec<TensorEntry>, CheckpointError> {
        let path = self.path;
        let damaged = |what: &str| CheckpointError::damaged(path, what);
        let size = self.expected.size;
        if size < 8 {
            return Err(damaged("it is too short"));
        }
        let length = self.take(8)?.first_chunk();
        let length = length.map_or(0, |&bytes| u64::from_le_bytes(bytes));
        if length > MAX_HEADER || length > size - 8 {
            return Err(damaged("its header is too long"));
        }
        let text = self.take(length as usize)?;
        let invalid = |e: serde_json::Error| damaged(&format!("its header: {e}"));
        let mut parsed: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(text).map_err(invalid)?;
        parsed.remove(METADATA);
        let mut tensors = Vec::new();
        for (name, entry) in parsed {
            let entry: Entry = serde_json::from_value(entry).map_err(invalid)?;
            let (start, end) = entry.data_offsets;
            let storage = match entry.dtype.as_str() {
                F32 => EmbeddingFormat::F32,
                BF16 => EmbeddingFormat::Bf16,
                _ => return Err(damaged(&format!("tensor `{name}` is not F32 or BF16"))),
            };
            let mut sizes = entry.shape.iter();
            let size = sizes.try_fold(storage.bytes(), |n, &d| n.checked_mul(d as u64));
            if start > end || size != Some(end - start) {
                let what = format!("the size of its tensor `{name}` does not match its shape");
                return Err(damaged(&what));
            }
            tensors.push(TensorEntry {
                name,
                storage,
                shape: entry.shape,
                bytes: start..end,
            });
        }
        tensors.sort_by_key(|tensor| (tensor.bytes.start, tensor.bytes.end));
        let mut end = 0;
        for TensorEntry { bytes, .. } in &tensors {
            if bytes.start != end {
                return Err(damaged("its tensors are not contiguous"));
            }
            end = bytes.end;
        }
        if end != size - self.position {
            return Err(damaged("its tensors do not cover the whole file"));
        }
        Ok(tensors)
    }

    /// Reads the next tensor's values into `values`, replacing its content.
    pub(super) fn numbers(
        &mut self,
        storage: EmbeddingFormat,
        count: usize,
        values: &mut Vec<f32>,
    ) -> Result<(), CheckpointError> {
        values.resize(count, 0.0);
        for chunk in values.chunks_mut(CHUNK) {
            self.take(storage.bytes() as usize * chunk.len())?;
            match storage {
                EmbeddingFormat::F32 => {
                    for (number, from) in chunk.iter_mut().zip(self.bytes.as_chunks().0) {
                        *number = f32::from_le_bytes(*from);
                    }
                }
                EmbeddingFormat::Bf16 => {
                    let halves = self.bytes.as_chunks().0.iter();
                    self.halves.clear();
                    let halves = halves.map(|half| u16::from_le_bytes(*half));
                    self.halves.extend(halves);
                    bfloat16::widen(&self.halves, chunk);
                }
            }
        }
        Ok(())
    }

    /// Reads the rest of the file, for the checksum only.
    pub(super) fn skip_to_end(&mut self) -> Result<(), CheckpointError> {
        while self.position < self.expected.size {
            let left = self.expected.size - self.position;
            self.take(left.min(4 * CHUNK as u64) as usize)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), CheckpointError> {
        if self.position == self.expected.size && self.hasher.finalize() == self.expected.crc32 {
            return Ok(());
        }
        let what = "its checksum does not match its content";
        Err(CheckpointError::damaged(self.path, what))
    }
}
