//! Opening of input files: detection of their kind from the first bytes, and decompression of text.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ImportError;
use super::inputs::InputPath;
use pbg_files::{self as files, FileError};

/// Kind of a file according to its first bytes, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Text,
    Gzip,
    Zstandard,
    Parquet,
}

impl FileKind {
    /// Returns the name of the compression, if any.
    pub(super) fn compression(self) -> Option<&'static str> {
        match self {
            Self::Gzip => Some("gzip"),
            Self::Zstandard => Some("Zstandard"),
            Self::Text | Self::Parquet => None,
        }
    }
}

/// First bytes of unsupported kinds of files, the description, and a program that converts them to text.
const NOT_READ: [(&[u8], &str, &str); 13] = [
    (b"\xfd7zXZ\0", "compressed with xz", "xzcat"),
    (b"\x5d\0\0", "compressed with LZMA", "xzcat"),
    (
        b"PK\x03\x04",
        "a zip archive (or a spreadsheet, which is one)",
        "unzip -p",
    ),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "7z x -so"),
    (b"\x04\x22\x4d\x18", "compressed with LZ4", "lz4cat"),
    (b"\x1f\x9d", "compressed with compress", "zcat"),
    (b"ARROW1\0\0", "an Arrow file", ""),
    (b"\x93NUMPY", "a NumPy array", ""),
    (b"<?xml", "XML", ""),
    (b"<graphml", "GraphML", ""),
    (b"<rdf:RDF", "RDF/XML", ""),
    (b"\xff\xfe", "UTF-16 text", "iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "iconv -f UTF-16 -t UTF-8"),
];

/// File name extensions, and the kind that a file with this name must have.
const ENDINGS: [(&str, Option<FileKind>); 7] = [
    ("gz", Some(FileKind::Gzip)),
    ("zst", Some(FileKind::Zstandard)),
    ("parquet", Some(FileKind::Parquet)),
    ("bz2", None),
    ("xz", None),
    ("lz4", None),
    ("zip", None),
];

/// Opens a file, determines its kind, and refuses unsupported ones.
fn open(input: &InputPath) -> Result<(File, FileKind), ImportError> {
    let path = &input.path;
    let named = |error: FileError| FileError {
        path: path.clone(),
        ..error
    };
    let file = files::open(&input.source).map_err(|error| match error.cause.kind() {
        io::ErrorKind::IsADirectory => {
            ImportError::input(path, "it is a folder, but a file is expected")
        }
        _ => named(error).into(),
    })?;
    let mut magic = [0; 8];
    let read = read_first(&file, &mut magic).map_err(|e| FileError::new("read", path, e))?;
    if read == 0 {
        return Err(ImportError::input(path, "it is empty"));
    }
    let kind = kind(path, &file, &magic[..read])?;
    Ok((file, kind))
}

/// Fills as much of `buffer` as the file provides.
fn read_first(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Determines the kind of a file that begins with `magic`.
fn kind(path: &Path, file: &File, magic: &[u8]) -> Result<FileKind, ImportError> {
    refuse_by_name(path, magic)?;
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let kind = match *magic {
        [0x1f, 0x8b, ..] => FileKind::Gzip,
        // A Zstandard file may begin with a skippable frame.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => FileKind::Zstandard,
        // A text may begin like this too, but does not end like a Parquet file.
        [b'P', b'A', b'R', b'1', ..] if ending == "parquet" || ends_as_parquet(file) => {
            FileKind::Parquet
        }
        _ => FileKind::Text,
    };
    let told = ENDINGS
        .iter()
        .find(|(known, _)| ending.eq_ignore_ascii_case(known));
    match told {
        Some(&(known, expected)) if expected != Some(kind) => {
            let what = format!(
                "it is not a {known} file, although its name says so: fetch it again, or rename it"
            );
            Err(ImportError::input(path, what))
        }
        _ => Ok(kind),
    }
}

fn ends_as_parquet(file: &File) -> bool {
    let size = file.metadata().map_or(0, |found| found.len());
    let mut last = [0; 4];
    let read = file.read_at(&mut last, size.saturating_sub(4));
    read.is_ok_and(|read| read == 4) && last == *b"PAR1"
}

/// Refuses known unsupported kinds of files.
fn refuse_by_name(path: &Path, magic: &[u8]) -> Result<(), ImportError> {
    let known = NOT_READ.iter().find(|(first, ..)| magic.starts_with(first));
    let (what, program) = match known {
        Some(&(_, what, program)) => (what, program),
        // A digit comes between the two.
        None if magic.starts_with(b"BZh") && magic.ends_with(b"1AY&") => {
            ("compressed with bzip2", "bzcat")
        }
        None => return Ok(()),
    };
    let advice = match program {
        _ if path.extension().is_some_and(|ending| ending == "npz") => {
            "if it has NumPy arrays, read it in Python with `pbg_host.datasets.read_npz`".to_owned()
        }
        _ if magic.starts_with(b"<") => {
            "read GraphML in Python with `pbg_host.datasets.read_graphml`, and convert RDF/XML to N-Triples, for example \
             with `rapper -o ntriples`"
                .to_owned()
        }
        "" => "save it as Parquet or as text".to_owned(),
        program => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("pass its text as a file, or through a pipe: `NAME=<({program} {name})`")
        }
    };
    let what = format!("it is {what}, which is not supported; {advice}");
    Err(ImportError::input(path, what))
}

/// Determines the kind of a file.
pub(super) fn kind_of(input: &InputPath) -> Result<FileKind, ImportError> {
    open(input).map(|(_, kind)| kind)
}

/// Decompressed bytes of a text, and the number of bytes read from disk so far.
pub(super) struct TextSource {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) disk_bytes: Arc<AtomicU64>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl TextSource {
    /// Opens a text at its beginning, after the byte order mark if it has one.
    pub(super) fn open(input: &InputPath) -> Result<Self, ImportError> {
        let path = &input.path;
        let (file, kind) = open(input)?;
        let disk_bytes = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            file,
            bytes: Arc::clone(&disk_bytes),
        };
        let broken = |e| ImportError::File(FileError::new("read", path, e));
        let reader: Box<dyn Read + Send> = match kind {
            FileKind::Gzip => {
                let buffered = io::BufReader::with_capacity(128 << 10, counted);
                Box::new(Decompressed(flate2::bufread::MultiGzDecoder::new(buffered)))
            }
            FileKind::Zstandard => {
                let decoder = zstd::stream::read::Decoder::new(counted).map_err(broken)?;
                Box::new(Decompressed(decoder))
            }
            FileKind::Text => Box::new(counted),
            FileKind::Parquet => {
                return Err(ImportError::input(
                    path,
                    "it is a Parquet file, but text is expected",
                ));
            }
        };
        let mut source = Self { reader, disk_bytes };
        let mut first = Vec::new();
        let read = source.reader.by_ref().take(8).read_to_end(&mut first);
        if read.map_err(broken)? == 0 {
            return Err(ImportError::input(path, "it is empty"));
        }
        if kind != FileKind::Text {
            // The file may have been compressed twice.
            refuse_by_name(path, &first)?;
        }
        if first.starts_with(BYTE_ORDER_MARK) {
            first.drain(..BYTE_ORDER_MARK.len());
        }
        source.put_back(first);
        Ok(source)
    }

    /// Puts bytes before those that remain to be read.
    fn put_back(&mut self, first: Vec<u8>) {
        let reader = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = Box::new(Cursor::new(first).chain(reader));
    }

    /// Opens a text after its first `lines` lines.
    pub(super) fn open_behind(input: &InputPath, lines: u64) -> Result<Self, ImportError> {
        let mut source = Self::open(input)?;
        source
            .skip(lines)
            .map_err(|e| FileError::new("read", &input.path, e))?;
        Ok(source)
    }

    /// Skips lines.
    fn skip(&mut self, mut lines: u64) -> io::Result<()> {
        let mut block = Vec::new();
        while lines > 0 {
            block.clear();
            let read = self.reader.by_ref().take(1 << 16).read_to_end(&mut block)?;
            if read == 0 {
                break;
            }
            for end in memchr::memchr_iter(b'\n', &block) {
                lines -= 1;
                if lines == 0 {
                    let rest = block.split_off(end + 1);
                    self.put_back(rest);
                    break;
                }
            }
        }
        Ok(())
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

/// Decoder whose errors say what to do.
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
