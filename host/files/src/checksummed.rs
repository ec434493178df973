//! Sequentially written file that computes its own checksum.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::FileError;
use crate::faults::{attempt, step, synced};
use crate::unfinished::UnnamedFile;

/// Buffered file writer that computes the checksum of everything written.
#[derive(Debug)]
pub struct ChecksummedFile {
    path: PathBuf,
    file: File,
    /// State of a file that gets its name when it is complete.
    unfinished: Option<UnnamedFile>,
    buffer: Vec<u8>,
    capacity: usize,
    total: crc32fast::Hasher,
    section: crc32fast::Hasher,
    size: u64,
    section_start: u64,
}

/// Buffer size in bytes: large enough to make system calls rare, small enough to stay in the cache.
const BUFFER_BYTES: usize = 256 << 10;

impl ChecksummedFile {
    /// Creates the file, replacing an existing one.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: &Path) -> Result<Self, FileError> {
        Self::with_buffer(path, BUFFER_BYTES)
    }

    /// Creates the file, replacing an existing one, with a buffer of `capacity` bytes.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn with_buffer(path: &Path, capacity: usize) -> Result<Self, FileError> {
        let file = attempt("create", path, || create_anew(path))?;
        Ok(Self::new(path, file, None, capacity))
    }

    /// Creates a file that gets its name only when it is complete ([`ChecksummedFile::finish`]) and then replaces an
    /// existing file of that name. If the writer is dropped earlier, no file remains.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn unfinished(path: &Path) -> Result<Self, FileError> {
        let (file, unfinished) = UnnamedFile::create(path)?;
        Ok(Self::new(path, file, Some(unfinished), BUFFER_BYTES))
    }

    fn new(path: &Path, file: File, unfinished: Option<UnnamedFile>, capacity: usize) -> Self {
        Self {
            path: path.to_owned(),
            file,
            unfinished,
            buffer: Vec::with_capacity(capacity),
            capacity,
            total: crc32fast::Hasher::new(),
            section: crc32fast::Hasher::new(),
            size: 0,
            section_start: 0,
        }
    }

    /// Returns the number of bytes written so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.size
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.write_all(bytes).map_err(|e| self.error(e))
    }

    /// Returns size and checksum of everything written since the last call, or since the beginning.
    pub fn end_section(&mut self) -> FileSummary {
        let section = std::mem::replace(&mut self.section, crc32fast::Hasher::new());
        self.total.combine(&section);
        let size = self.size - self.section_start;
        self.section_start = self.size;
        FileSummary {
            size,
            crc32: section.finalize(),
        }
    }

    /// Writes the buffer, syncs the file to disk if `sync` is set, and names a file that has no name yet. Returns size
    /// and checksum of the whole file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self, sync: bool) -> Result<FileSummary, FileError> {
        self.end_section();
        self.write_buffer().map_err(|e| self.error(e))?;
        if sync {
            let result = self.file.sync_all();
            result.map_err(|e| FileError::new("sync", &self.path, e))?;
            synced(&self.path);
        }
        if let Some(unfinished) = self.unfinished.take() {
            unfinished.name(&self.file, &self.path)?;
        }
        Ok(FileSummary {
            size: self.size,
            crc32: self.total.finalize(),
        })
    }

    /// Converts an I/O error into the error of a failed write to this file.
    #[must_use]
    pub fn error(&self, cause: io::Error) -> FileError {
        FileError::new("write", &self.path, cause)
    }

    /// Converts the error of a library that writes to the file at `path`. If an I/O error caused it, that error is kept.
    #[must_use]
    pub fn write_error(path: &Path, error: impl Error + Send + Sync + 'static) -> FileError {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(current) = cause {
            if let Some(found) = current.downcast_ref::<io::Error>() {
                let kept = match found.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(found.kind(), found.to_string()),
                };
                return FileError::new("write", path, kept);
            }
            cause = current.source();
        }
        FileError::new("write", path, io::Error::other(error))
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        step(&self.path)?;
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl Write for ChecksummedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > self.capacity && !self.buffer.is_empty() {
            self.write_buffer()?;
        }
        if bytes.len() >= self.capacity {
            step(&self.path)?;
            self.file.write_all(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.section.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// Does nothing: `finish` writes the buffer.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates a new file. An existing file or link of that name is removed first: writing to a link would change its
/// target.
fn create_anew(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            File::create_new(path)
        }
        created => created,
    }
}

/// Size and checksum of a byte sequence on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSummary {
    /// Size in bytes.
    pub size: u64,
    /// CRC-32 (IEEE) of the bytes.
    pub crc32: u32,
}

/// Computes size and checksum of a file, reading it in chunks.
///
/// # Errors
/// When the file cannot be read.
pub fn summarize(file: &File, path: &Path) -> Result<FileSummary, FileError> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut size = 0;
    loop {
        let read = match file.read_at(&mut buffer, size) {
            Ok(0) => {
                return Ok(FileSummary {
                    size,
                    crc32: hasher.finalize(),
                });
            }
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(FileError::new("read", path, e)),
        };
        hasher.update(&buffer[..read]);
        size += read as u64;
    }
}
