//! Files of names: for each its type and length in two bytes each, then the name.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::files::{self, FileError, SummedFile};

/// Buffers of the files that a thread reads and writes.
pub(super) const BUFFER: usize = 64 << 10;
/// Bytes before each name.
pub(super) const HEAD: usize = 4;

/// What a name begins with in a file.
pub(super) fn head(of_type: usize, len: usize) -> [u8; HEAD] {
    // There are fewer entity types than that, and the longest name has 32 KiB.
    let ([a, b], [c, d]) = ((of_type as u16).to_le_bytes(), (len as u16).to_le_bytes());
    [a, b, c, d]
}

/// The type and the name of a key.
pub(super) fn split(key: &[u8]) -> (usize, &[u8]) {
    match key.split_first_chunk() {
        Some((of_type, name)) => (usize::from(u16::from_le_bytes(*of_type)), name),
        None => (0, key),
    }
}

/// Writes the name of a key.
pub(super) fn put(file: &mut SummedFile, key: &[u8]) -> Result<(), FileError> {
    let (of_type, name) = split(key);
    file.put(&head(of_type, name.len()))?;
    file.put(name)
}

/// A file of names being read. A name is given as its key: type and name.
pub(super) struct NameFile {
    path: PathBuf,
    reader: BufReader<File>,
    left: u64,
    key: Vec<u8>,
}

impl NameFile {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let left = files::size(path)?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(BUFFER, files::open(path)?),
            left,
            key: Vec::new(),
        })
    }

    /// Opens the names at these bytes of the file.
    pub(super) fn open_range(path: &Path, range: &Range<u64>) -> Result<Self, FileError> {
        let mut file = Self::open(path)?;
        file.left = range.end - range.start;
        let moved = file.reader.seek(SeekFrom::Start(range.start));
        moved.map_err(|e| FileError::new("read", path, e))?;
        Ok(file)
    }

    /// The next name.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, FileError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut head = [0; HEAD];
        self.fill(&mut head)?;
        let [type_low, type_high, low, high] = head;
        let len = usize::from(u16::from_le_bytes([low, high]));
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend([type_low, type_high]);
        key.resize(2 + len, 0);
        let read = self.fill(&mut key[2..]);
        self.key = key;
        read.map(|()| Some(&self.key[..]))
    }

    /// The next name and the number behind it.
    pub(super) fn next_with_number(&mut self) -> Result<Option<(&[u8], u32)>, FileError> {
        if self.next()?.is_none() {
            return Ok(None);
        }
        let mut number = [0; 4];
        self.fill(&mut number)?;
        Ok(Some((&self.key, u32::from_le_bytes(number))))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), FileError> {
        let read = self.reader.read_exact(bytes);
        read.map_err(|e| FileError::new("read", &self.path, e))?;
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok(())
    }
}
