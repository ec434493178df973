//! Text lines with a name and numbers, separated by tabs.

use std::io::Write;
use std::path::Path;

use super::ExportError;
use super::embedding_file::EmbeddingFile;
use pbg_files::{ChecksummedFile, FileError};

pub(super) struct TsvWriter {
    file: ChecksummedFile,
    dim: usize,
    line: Vec<u8>,
}

impl TsvWriter {
    pub(super) fn create(path: &Path, dim: usize) -> Result<Self, FileError> {
        Ok(Self {
            file: ChecksummedFile::unfinished(path)?,
            dim,
            line: Vec::new(),
        })
    }
}

/// Appends `text`, or returns an error if a column cannot represent it.
pub(super) fn put_text(line: &mut Vec<u8>, text: &str) -> Result<(), ExportError> {
    if text.contains(['\t', '\n', '\r']) {
        return Err(ExportError::Name(text.escape_debug().to_string()));
    }
    line.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Appends numbers, each after a tab, with the fewest digits that identify the `f32`.
pub(super) fn put_numbers(line: &mut Vec<u8>, values: &[f32]) {
    for value in values {
        // Writing to memory cannot fail.
        let _ = write!(line, "\t{value}");
    }
}

impl EmbeddingFile for TsvWriter {
    fn put(&mut self, names: &[&str], values: &[f32]) -> Result<(), ExportError> {
        for (name, values) in names.iter().zip(values.chunks_exact(self.dim)) {
            self.line.clear();
            put_text(&mut self.line, name)?;
            put_numbers(&mut self.line, values);
            self.line.push(b'\n');
            self.file.put(&self.line)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        self.file.finish(true)?;
        Ok(())
    }
}
