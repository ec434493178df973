//! NumPy's `.npy` format: a header with the shape, then the numbers.

use std::path::Path;

use pbg_files::{ChecksummedFile, FileError};

/// Creates the file of an array of 32-bit floating-point numbers, to which only the numbers remain to be written.
pub(super) fn create(path: &Path, shape: &[usize]) -> Result<ChecksummedFile, FileError> {
    let mut file = ChecksummedFile::unfinished(path)?;
    file.put(&header(shape))?;
    Ok(file)
}

/// Returns the header in format version 1.0, padded so that the numbers start at a multiple of 64 bytes.
fn header(shape: &[usize]) -> Vec<u8> {
    const FIXED: usize = 10;
    let sizes: String = shape.iter().map(|size| format!("{size},")).collect();
    let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({sizes}), }}");
    let end = (FIXED + text.len() + 1).next_multiple_of(64) - FIXED - 1;
    text.push_str(&" ".repeat(end - text.len()));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
