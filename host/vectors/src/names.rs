//! Names beside an array: a name per line, or a list in JSON as `pbg-host export` writes it.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use pbg_files::{self as files, FileError};
use serde::de::{Deserializer as _, SeqAccess, Visitor};

use crate::{MAX_NAME, VectorError};

/// Consumer of names, each with its row. An error of its own ends the reading.
pub(crate) type NameVisitor<'a> = dyn FnMut(u64, &str) -> Result<(), VectorError> + 'a;

/// File of names in the order of the rows of an array.
#[derive(Clone, Debug)]
pub(crate) struct VectorNames {
    path: PathBuf,
}

impl VectorNames {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `visit` with the names in order. Returns their number.
    pub(crate) fn visit(&self, visit: &mut NameVisitor<'_>) -> Result<u64, VectorError> {
        let reader = BufReader::new(files::open(&self.path)?);
        let is_json = self.path.extension().is_some_and(|ending| ending == "json");
        match is_json {
            true => self.visit_list(reader, visit),
            false => self.visit_lines(reader, visit),
        }
    }

    fn visit_lines(
        &self,
        mut reader: BufReader<File>,
        visit: &mut NameVisitor<'_>,
    ) -> Result<u64, VectorError> {
        let mut line = Vec::new();
        let mut row = 0;
        loop {
            line.clear();
            // Room for a carriage return and a line feed.
            let read = reader
                .by_ref()
                .take(MAX_NAME as u64 + 2)
                .read_until(b'\n', &mut line)
                .map_err(|e| FileError::new("read", &self.path, e))?;
            if read == 0 {
                return Ok(row);
            }
            if row == 0 && line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3);
            }
            let name = line.strip_suffix(b"\n").unwrap_or(&line);
            let name = name.strip_suffix(b"\r").unwrap_or(name);
            let name = checked(name).map_err(|what| {
                VectorError::content(&self.path, format!("line {}: {what}", row + 1))
            })?;
            visit(row, name)?;
            row += 1;
        }
    }

    fn visit_list(
        &self,
        reader: BufReader<File>,
        visit: &mut NameVisitor<'_>,
    ) -> Result<u64, VectorError> {
        let left = Cell::new(MAX_QUOTED_NAME);
        let mut names = NameSequence {
            path: &self.path,
            visit,
            row: 0,
            failed: None,
            left: &left,
        };
        let reader = NameReader {
            inner: reader,
            left: &left,
        };
        let mut deserializer = serde_json::Deserializer::from_reader(reader);
        let read = deserializer.deserialize_seq(&mut names);
        let (row, failed) = (names.row, names.failed.take());
        match (failed, read.and_then(|()| deserializer.end())) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(row),
            (None, Err(error)) => {
                let what = format!("it is not a list of names in JSON: {error}");
                Err(VectorError::content(&self.path, what))
            }
        }
    }
}

/// Checks a name as an import does.
pub(crate) fn checked(name: &[u8]) -> Result<&str, String> {
    if name.is_empty() {
        return Err("the name is empty".to_owned());
    }
    if name.len() > MAX_NAME {
        return Err(format!("the name is longer than {MAX_NAME} bytes"));
    }
    std::str::from_utf8(name).map_err(|_| "the name is not UTF-8 text".to_owned())
}

/// Longest name in JSON with what stands around it. Each of its bytes may be written in six (`\u0061`).
const MAX_QUOTED_NAME: usize = 6 * MAX_NAME + 1024;

/// Reader of a list in JSON that ends where a name is too long to be kept in memory.
struct NameReader<'a> {
    inner: BufReader<File>,
    /// Number of bytes that may be read until the next name is complete.
    left: &'a Cell<usize>,
}

impl Read for NameReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.left.get());
        if most == 0 && !buffer.is_empty() {
            let what = format!("a name is longer than {MAX_NAME} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let read = self.inner.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - read);
        Ok(read)
    }
}

/// Visitor of a list in JSON, which keeps one name in memory.
struct NameSequence<'a, 'v> {
    path: &'a Path,
    visit: &'a mut NameVisitor<'v>,
    row: u64,
    /// Error that ended the reading, other than one in the JSON.
    failed: Option<VectorError>,
    left: &'a Cell<usize>,
}

impl<'de> Visitor<'de> for &mut NameSequence<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(name) = list.next_element::<String>()? {
            let taken = match checked(name.as_bytes()) {
                Ok(name) => (self.visit)(self.row, name),
                Err(what) => {
                    let what = format!("name {}: {what}", self.row + 1);
                    Err(VectorError::content(self.path, what))
                }
            };
            if let Err(error) = taken {
                self.failed = Some(error);
                return Err(serde::de::Error::custom("stopped"));
            }
            self.row += 1;
            self.left.set(MAX_QUOTED_NAME);
        }
        Ok(())
    }
}
