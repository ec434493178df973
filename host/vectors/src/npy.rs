//! Header of NumPy's `.npy` format.

use std::fs::File;
use std::path::Path;

use crate::VectorError;
use crate::numbers::NumberFormat;
use crate::raw::{RawArray, read_first};

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header in bytes. NumPy itself refuses to evaluate longer ones than 10,000 bytes.
const MAX_HEADER: usize = 64 << 10;

/// Opens the array of a file.
pub(crate) fn open(file: File, path: &Path) -> Result<RawArray, VectorError> {
    let first = read_first(&file, path, MAX_HEADER)?;
    let (text, start) =
        header(&first).ok_or_else(|| VectorError::content(path, "its NumPy header is damaged"))?;
    let wrong = |what: String| {
        let what = format!(
            "it must be an array of 16-, 32- or 64-bit floating-point numbers with 2 dimensions, but {what}"
        );
        VectorError::content(path, what)
    };
    let value = |key: &str| value_of(text, key).unwrap_or_default();
    let kind = value("descr").trim_matches(['\'', '"']);
    let format = match kind {
        "<f2" => NumberFormat::F16,
        "<f4" => NumberFormat::F32,
        "<f8" => NumberFormat::F64,
        _ => return Err(wrong(format!("its type is `{}`", kind.escape_debug()))),
    };
    if value("fortran_order") != "False" {
        return Err(wrong(
            "it is stored by columns; save `numpy.ascontiguousarray(ARRAY)`".to_owned(),
        ));
    }
    let shape = value("shape");
    let sizes = shape.trim_matches(['(', ')']).split(',').map(str::trim);
    let sizes: Option<Vec<u64>> = sizes
        .filter(|size| !size.is_empty())
        .map(|size| size.parse().ok())
        .collect();
    match sizes.as_deref() {
        Some(&[rows, dimension]) => Ok(RawArray {
            file,
            start,
            format,
            rows,
            dimension: usize::try_from(dimension).unwrap_or(usize::MAX),
        }),
        _ => Err(wrong(format!("its shape is `{}`", shape.escape_debug()))),
    }
}

/// Returns the text of the header, and the position behind it.
fn header(bytes: &[u8]) -> Option<(&str, u64)> {
    let version = *bytes.get(MAGIC.len())?;
    let (length, start) = match version {
        1 => {
            let length = bytes.get(8..10)?.try_into().ok()?;
            (usize::from(u16::from_le_bytes(length)), 10)
        }
        2 | 3 => {
            let length = bytes.get(8..12)?.try_into().ok()?;
            (usize::try_from(u32::from_le_bytes(length)).ok()?, 12)
        }
        _ => return None,
    };
    let end = length.checked_add(start)?;
    let text = std::str::from_utf8(bytes.get(start..end)?).ok()?;
    Some((text, end as u64))
}

/// Returns the value of a key in the text of a Python dictionary: a tuple, or the text up to a comma.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text
        .split_once(&format!("'{key}':"))
        .or_else(|| text.split_once(&format!("\"{key}\":")))?;
    let rest = rest.trim_start();
    let end = match rest.starts_with('(') {
        true => rest.find(')')? + 1,
        false => rest.find([',', '}'])?,
    };
    Some(rest[..end].trim())
}
