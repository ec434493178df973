//! Writer of safetensors files, in chunks.

use std::path::Path;

use pbg_core::bfloat16::StochasticRounding;

use super::header::{CHUNK, TensorSpec, header};
use pbg_files::{ChecksummedFile, FileError, FileSummary};

/// Function that copies consecutive rows, beginning with the given one, until the slice is full.
pub type CopyRows<'a> = &'a dyn Fn(usize, &mut [f32]);

/// What tensors are written to: a file, or an object that is sent.
pub trait TensorOutput {
    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// When they cannot be written.
    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError>;

    /// Returns the error of a content that this output cannot have.
    fn refuse(&self, what: String) -> FileError;
}

impl TensorOutput for ChecksummedFile {
    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        Self::put(self, bytes)
    }

    fn refuse(&self, what: String) -> FileError {
        self.error(std::io::Error::other(what))
    }
}

/// Writes the file `path` with tensors of these names and shapes; `put` writes all values, in order.
pub(super) fn write_with(
    path: &Path,
    shapes: &[TensorSpec<'_>],
    metadata: &[(&str, String)],
    put: impl FnOnce(&mut ChecksummedFile) -> Result<(), FileError>,
) -> Result<FileSummary, FileError> {
    let mut file = ChecksummedFile::create(path)?;
    put_header(&mut file, shapes, metadata)?;
    put(&mut file)?;
    file.finish(false)
}

/// Writes the header of tensors with these names and shapes.
pub(super) fn put_header(
    out: &mut impl TensorOutput,
    shapes: &[TensorSpec<'_>],
    metadata: &[(&str, String)],
) -> Result<(), FileError> {
    let header = header(shapes, metadata).map_err(|what| out.refuse(what))?;
    out.put(&header)
}

/// Writes `rows` rows of `width` values.
pub(super) fn put_rows(
    out: &mut impl TensorOutput,
    rows: usize,
    width: usize,
    copy: CopyRows<'_>,
) -> Result<(), FileError> {
    let step = (CHUNK / width.max(1)).max(1);
    let mut numbers = vec![0.0; step.min(rows) * width];
    for first in (0..rows).step_by(step) {
        let part = &mut numbers[..step.min(rows - first) * width];
        copy(first, part);
        put_numbers(out, part)?;
    }
    Ok(())
}

/// Writes `rows` rows of `width` values, rounded to bfloat16.
pub(super) fn put_rounded(
    out: &mut impl TensorOutput,
    rows: usize,
    width: usize,
    copy: CopyRows<'_>,
    rounding: StochasticRounding,
) -> Result<(), FileError> {
    let step = (CHUNK / width.max(1)).max(1).min(rows);
    let mut numbers = vec![0.0; step * width];
    let mut halves = vec![0; step * width];
    let mut bytes = vec![0; 2 * step * width];
    for first in (0..rows).step_by(step.max(1)) {
        let count = step.min(rows - first) * width;
        let (part, halves) = (&mut numbers[..count], &mut halves[..count]);
        copy(first, part);
        let rows = part.chunks_exact(width.max(1));
        let rounded = halves.chunks_exact_mut(width.max(1));
        for ((row, numbers), rounded) in (first..).zip(rows).zip(rounded) {
            rounding.narrow(row, numbers, rounded);
        }
        let bytes = &mut bytes[..2 * count];
        for (to, half) in bytes.as_chunks_mut().0.iter_mut().zip(halves) {
            *to = half.to_le_bytes();
        }
        out.put(bytes)?;
    }
    Ok(())
}

/// Writes values, little-endian.
pub fn put_numbers(out: &mut impl TensorOutput, numbers: &[f32]) -> Result<(), FileError> {
    let mut bytes = vec![0; 4 * numbers.len().min(CHUNK)];
    for chunk in numbers.chunks(CHUNK) {
        let bytes = &mut bytes[..4 * chunk.len()];
        for (to, number) in bytes.as_chunks_mut().0.iter_mut().zip(chunk) {
            *to = number.to_le_bytes();
        }
        out.put(bytes)?;
    }
    Ok(())
}
