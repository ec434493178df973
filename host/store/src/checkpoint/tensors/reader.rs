//! Reading of a safetensors file, piece by piece, with its checksum.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use super::{CHUNK, Entry, F32, METADATA};
use crate::checkpoint::CheckpointError;
use crate::files::{self, FileError, Summary};

/// The longest header that other readers accept.
const MAX_HEADER: u64 = 100_000_000;

/// Name, shape and bytes of a tensor in a file.
pub(super) type Listed = (String, Vec<usize>, Range<u64>);

/// A safetensors file being read from front to end, so that its checksum can be compared.
pub(super) struct Reader<'a> {
    path: &'a Path,
    file: &'a File,
    expected: Summary,
    hasher: crc32fast::Hasher,
    /// Bytes that were read.
    pub(super) position: u64,
    bytes: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        file: &'a File,
        path: &'a Path,
        expected: Summary,
    ) -> Result<Self, CheckpointError> {
        let size = file
            .metadata()
            .map_err(|e| FileError::new("open", path, e))?
            .len();
        if size != expected.size {
            let what = format!("it has {size} bytes instead of {}", expected.size);
            return Err(CheckpointError::damaged(path, what));
        }
        let hasher = crc32fast::Hasher::new();
        Ok(Self {
            path,
            file,
            expected,
            hasher,
            position: 0,
            bytes: Vec::new(),
        })
    }

    /// The next `length` bytes.
    fn take(&mut self, length: usize) -> Result<&[u8], CheckpointError> {
        self.bytes.resize(length, 0);
        files::read_exact_at(self.file, self.path, &mut self.bytes, self.position)?;
        self.hasher.update(&self.bytes);
        self.position += length as u64;
        Ok(&self.bytes)
    }

    /// Names, shapes and bytes of all tensors, in the order of the file.
    pub(super) fn header(&mut self) -> Result<Vec<Listed>, CheckpointError> {
        let path = self.path;
        let damaged = |what: &str| CheckpointError::damaged(path, what);
        let size = self.expected.size;
        if size < 8 {
            return Err(damaged("it is too short"));
        }
        let length = self
            .take(8)?
            .first_chunk()
            .map_or(0, |&bytes| u64::from_le_bytes(bytes));
        if length > MAX_HEADER || length > size - 8 {
            return Err(damaged("its header is too long"));
        }
        let text = self.take(length as usize)?;
        let mut parsed: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(text).map_err(|e| damaged(&format!("its header: {e}")))?;
        parsed.remove(METADATA);
        let mut tensors = Vec::new();
        for (name, entry) in parsed {
            let entry: Entry =
                serde_json::from_value(entry).map_err(|e| damaged(&format!("its header: {e}")))?;
            let (start, end) = entry.data_offsets;
            let count = entry
                .shape
                .iter()
                .try_fold(4_u64, |n, &d| n.checked_mul(d as u64));
            if entry.dtype != F32 || start > end || count != Some(end - start) {
                return Err(damaged(&format!(
                    "its tensor `{name}` has not the size of its shape"
                )));
            }
            tensors.push((name, entry.shape, start..end));
        }
        tensors.sort_by_key(|(_, _, range)| (range.start, range.end));
        let mut end = 0;
        for (_, _, range) in &tensors {
            if range.start != end {
                return Err(damaged("its tensors do not join"));
            }
            end = range.end;
        }
        if end != size - self.position {
            return Err(damaged("its tensors do not fill it"));
        }
        Ok(tensors)
    }

    /// The next tensor's numbers, in place of those in `values`.
    pub(super) fn numbers(
        &mut self,
        count: usize,
        values: &mut Vec<f32>,
    ) -> Result<(), CheckpointError> {
        values.resize(count, 0.0);
        for chunk in values.chunks_mut(CHUNK) {
            let bytes = self.take(4 * chunk.len())?;
            for (number, from) in chunk.iter_mut().zip(bytes.as_chunks().0) {
                *number = f32::from_le_bytes(*from);
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), CheckpointError> {
        if self.position == self.expected.size && self.hasher.finalize() == self.expected.crc32 {
            return Ok(());
        }
        Err(CheckpointError::damaged(
            self.path,
            "its checksum does not match its content",
        ))
    }
}
