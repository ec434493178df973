//! Opening files of edges: what they are, and what is in their columns.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::columns::{ColumnLayout, Columns};
use super::{ImportError, table};
use crate::files::{self, FileError};

/// How the edges of a file are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeFormat {
    /// A line per edge, columns separated by tabs.
    Lines,
    /// Comma-separated values with a header.
    Csv,
    /// Parquet.
    Parquet,
}

impl EdgeFormat {
    /// By the ending of the name, without that of a compression; text unless it says otherwise.
    pub(super) fn of(path: &Path) -> Self {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let name = [".gz", ".zst"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(&name);
        if name.ends_with(".csv") {
            Self::Csv
        } else if name.ends_with(".parquet") {
            Self::Parquet
        } else {
            Self::Lines
        }
    }
}

/// The decompressed bytes of a file, and how many bytes of the disk they took so far.
pub(super) struct Source {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) disk_bytes: Arc<AtomicU64>,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, ImportError> {
        let file = files::open(path).map_err(|error| match error.cause.kind() {
            io::ErrorKind::IsADirectory => {
                ImportError::input(path, "it is a folder, and files are imported")
            }
            // Files are read more than once, which a pipe cannot be, and to their end.
            io::ErrorKind::InvalidData => ImportError::input(
                path,
                "it is no regular file but a pipe or a device; write the edges to a file first",
            ),
            _ => error.into(),
        })?;
        let mut magic = [0; 4];
        if file.read_at(&mut magic, 0).unwrap_or(0) == 0 {
            return Err(ImportError::input(path, "it is empty"));
        }
        let disk_bytes = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            file,
            bytes: Arc::clone(&disk_bytes),
        };
        let broken = |e| ImportError::File(FileError::new("read", path, e));
        let reader: Box<dyn Read + Send> = match magic {
            [0x1f, 0x8b, ..] => {
                let buffered = io::BufReader::with_capacity(128 << 10, counted);
                Box::new(Decompressed(flate2::bufread::MultiGzDecoder::new(buffered)))
            }
            [0x28, 0xb5, 0x2f, 0xfd] => {
                let decoder = zstd::stream::read::Decoder::new(counted).map_err(broken)?;
                Box::new(Decompressed(decoder))
            }
            _ => {
                let ending = path.extension().unwrap_or_default().to_string_lossy();
                if matches!(&*ending, "gz" | "zst") {
                    return Err(ImportError::input(path, format!("it is no {ending} file")));
                }
                Box::new(counted)
            }
        };
        Ok(Self { reader, disk_bytes })
    }
}

struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// What a decoder gives, with errors of its own that say what to do.
struct Decompressed<R>(R);

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            let what = format!(
                "the compressed data is damaged or ends too early ({error}); fetch the file again"
            );
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }
}

/// Finds out what the columns of a file are. Files are looked at before the first is read, so
/// that the last one's mistake does not take hours to show.
pub(super) fn layout(path: &Path, columns: Option<&Columns>) -> Result<ColumnLayout, ImportError> {
    let wrong = |what| ImportError::input(path, what);
    match EdgeFormat::of(path) {
        EdgeFormat::Lines => {
            Source::open(path)?;
            ColumnLayout::without_header(columns).map_err(wrong)
        }
        EdgeFormat::Csv => {
            let header = table::csv_header(path)?;
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            ColumnLayout::with_header(columns, &header).map_err(wrong)
        }
        EdgeFormat::Parquet => {
            let header = table::parquet_header(path)?;
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            ColumnLayout::with_header(columns, &header).map_err(wrong)
        }
    }
}
