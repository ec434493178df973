//! Files of names: for each its length and its type in two bytes each, then the name.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::super::block::MAX_NAME;
use crate::files::{self, FileError, SummedFile};

/// Buffers of the files that a thread reads and writes.
pub(super) const BUFFER: usize = 64 << 10;
/// Bytes before each name.
pub(super) const HEAD: usize = 4;
/// A name is known by its key: two bytes of its type, then the name.
const TYPE: usize = 2;

/// The longest name in a file, with a number behind it.
const LONGEST: usize = HEAD + MAX_NAME + 4;
const _: () = assert!(LONGEST < BUFFER, "the buffer holds any name");

/// What a name begins with in a file.
pub(super) fn head(of_type: usize, len: usize) -> [u8; HEAD] {
    // There are fewer entity types than that, and the longest name has 32 KiB.
    let ([a, b], [c, d]) = ((len as u16).to_le_bytes(), (of_type as u16).to_le_bytes());
    [a, b, c, d]
}

/// The type and the name of a key.
pub(super) fn split(key: &[u8]) -> (usize, &[u8]) {
    match key.split_first_chunk::<TYPE>() {
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

/// A file of names being read.
pub(super) struct NameFile {
    path: PathBuf,
    file: File,
    /// Bytes that are to be read from the file.
    left: u64,
    buffer: Vec<u8>,
    /// What of the buffer was read and not given yet.
    ready: Range<usize>,
}

impl NameFile {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let size = files::size(path)?;
        Self::open_range(path, &(0..size))
    }

    /// Opens the names at these bytes of the file.
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

    /// The key of the next name.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, FileError> {
        self.fill()?;
        let Some(key) = self.take() else {
            return self.ended().map(|()| None);
        };
        Ok(Some(&self.buffer[key]))
    }

    /// The key of the next name, and the number behind it.
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

    /// The keys of the next names, in the buffer that comes with them: some, or none at the end.
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

    /// Sees to it that a whole name is in the buffer, if there is another one.
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

    /// Where the key of the next name is, if all of it is in the buffer.
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

    /// Whether all names were given.
    fn ended(&self) -> Result<(), FileError> {
        if self.ready.is_empty() && self.left == 0 {
            return Ok(());
        }
        let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        Err(FileError::new("read", &self.path, cut))
    }
}
