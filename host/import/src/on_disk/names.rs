//! Files of names. Each entry is the name's length and its type in two bytes each, then the name.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::super::block::MAX_NAME;
use pbg_files::{self as files, ChecksummedFile, FileError};

/// Buffer size of the files that a thread reads and writes, in bytes.
pub(super) const BUFFER: usize = 64 << 10;
/// Bytes before each name.
pub(super) const HEAD: usize = 4;
/// Bytes of the type in a key. A key identifies a name: two bytes of its type, then the name.
const TYPE: usize = 2;

/// Maximum size of an entry, including a number after the name.
const LONGEST: usize = HEAD + MAX_NAME + 4;
const _: () = assert!(LONGEST < BUFFER, "the buffer holds any name");

/// Returns the bytes before a name in a file.
pub(super) fn head(of_type: usize, len: usize) -> [u8; HEAD] {
    // The number of entity types fits in 16 bits, and so does the maximum name length of 32 KiB.
    let ([a, b], [c, d]) = ((len as u16).to_le_bytes(), (of_type as u16).to_le_bytes());
    [a, b, c, d]
}

/// Splits a key into type and name.
pub(super) fn split(key: &[u8]) -> (usize, &[u8]) {
    match key.split_first_chunk::<TYPE>() {
        Some((of_type, name)) => (usize::from(u16::from_le_bytes(*of_type)), name),
        None => (0, key),
    }
}

/// Writes the entry of a key.
pub(super) fn put(file: &mut ChecksummedFile, key: &[u8]) -> Result<(), FileError> {
    let (of_type, name) = split(key);
    file.put(&head(of_type, name.len()))?;
    file.put(name)
}

/// Reader of a file of names.
pub(super) struct NameFile {
    path: PathBuf,
    file: File,
    /// Number of bytes not yet read from the file.
    left: u64,
    buffer: Vec<u8>,
    /// Range of the buffer that was read and not yet returned.
    ready: Range<usize>,
}

impl NameFile {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let size = files::size(path)?;
        Self::open_range(path, &(0..size))
    }

    /// Opens the names in this byte range of the file.
    pub(super) fn open_range(path: &Path, range: &Range<u64>) -> Result<Self, FileError> {
        let mut file = files::open(path)?;
        let moved = file.seek(SeekFrom::Start(range.start));
        moved.map_err(|e| FileError::new("read", path, e))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            left: range.end - range.start,
            buffer: vec![0; BUFFER],
            ready: 0..0,
        })
    }

    /// Returns the key of the next name.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, FileError> {
        self.fill()?;
        let Some(key) = self.take() else {
            return self.ended().map(|()| None);
        };
        Ok(Some(&self.buffer[key]))
    }

    /// Returns the key of the next name, and the number after it.
    pub(super) fn next_with_number(&mut self) -> Result<Option<(&[u8], u32)>, FileError> {
        self.fill()?;
        let Some(key) = self.take() else {
            return self.ended().map(|()| None);
        };
        let number = self.buffer[self.ready.clone()].first_chunk();
        let number = number.map(|&bytes| u32::from_le_bytes(bytes));
        self.ready.start += 4;
        match number {
            Some(number) => Ok(Some((&self.buffer[key], number))),
            None => self.ended().map(|()| None),
        }
    }

    /// Reads up to `most` names. Returns the buffer; `keys` gets the positions of the keys in it, none at the end of
    /// the file.
    pub(super) fn next_some(
        &mut self,
        most: usize,
        keys: &mut Vec<Range<usize>>,
    ) -> Result<&[u8], FileError> {
        keys.clear();
        self.fill()?;
        while keys.len() < most
            && let Some(key) = self.take()
        {
            keys.push(key);
        }
        if keys.is_empty() {
            self.ended()?;
        }
        Ok(&self.buffer)
    }

    /// Ensures that the buffer contains a complete name, if there is another one.
    fn fill(&mut self) -> Result<(), FileError> {
        if self.ready.len() >= LONGEST || self.left == 0 {
            return Ok(());
        }
        self.buffer.copy_within(self.ready.clone(), 0);
        let kept = self.ready.len();
        let more = self.left.min((BUFFER - kept) as u64) as usize;
        let read = self.file.read_exact(&mut self.buffer[kept..kept + more]);
        read.map_err(|e| FileError::new("read", &self.path, e))?;
        self.left -= more as u64;
        self.ready = 0..kept + more;
        Ok(())
    }

    /// Returns the position of the next name's key, if the buffer contains all of it.
    fn take(&mut self) -> Option<Range<usize>> {
        let ready = &self.buffer[self.ready.clone()];
        let len = usize::from(u16::from_le_bytes(*ready.first_chunk()?));
        let end = HEAD + len;
        (end <= ready.len()).then(|| {
            let start = self.ready.start;
            self.ready.start += end;
            start + HEAD - TYPE..start + end
        })
    }

    /// Checks that all names were returned.
    fn ended(&self) -> Result<(), FileError> {
        if self.ready.is_empty() && self.left == 0 {
            return Ok(());
        }
        let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        Err(FileError::new("read", &self.path, cut))
    }
}
