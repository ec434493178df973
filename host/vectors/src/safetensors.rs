//! Header of safetensors files.

use std::fs::File;
use std::path::Path;

use serde_json::Value as Json;

use crate::VectorError;
use crate::numbers::NumberFormat;
use crate::raw::{RawArray, read_first};

/// Longest header in bytes. Parsed, it may take twenty times as much.
const MAX_HEADER: usize = 1 << 20;

/// Bytes of the length of the header.
const LENGTH: usize = 8;

/// Name that a tensor has if there are several.
const USUAL_NAME: &str = "embeddings";

/// Whether a file that begins with these bytes may be a safetensors file.
pub(crate) fn is_likely(first: &[u8]) -> bool {
    first.get(LENGTH) == Some(&b'{') && length_of(first).is_some_and(|n| n <= MAX_HEADER)
}

/// Opens the only tensor of a file with two dimensions, or the one that is called `embeddings`.
pub(crate) fn open(file: File, path: &Path) -> Result<RawArray, VectorError> {
    let damaged = || VectorError::content(path, "its safetensors header is damaged");
    let first = read_first(&file, path, LENGTH)?;
    let end = LENGTH + length_of(&first).ok_or_else(damaged)?;
    let text = read_first(&file, path, end)?;
    let text = text.get(LENGTH..end).ok_or_else(damaged)?;
    let header: serde_json::Map<String, Json> =
        serde_json::from_slice(text).map_err(|_| damaged())?;
    let is_matrix = |tensor: &Json| tensor["shape"].as_array().is_some_and(|s| s.len() == 2);
    let matrices: Vec<_> = header
        .iter()
        .filter(|(name, tensor)| *name != "__metadata__" && is_matrix(tensor))
        .collect();
    let usual = matrices.iter().find(|(name, _)| *name == USUAL_NAME);
    let (name, tensor) = match (&matrices[..], usual) {
        ([only], _) | (_, Some(only)) => *only,
        (several, None) => {
            let what = format!(
                "it has {} tensors with 2 dimensions; save the vectors as its only one, or as `{USUAL_NAME}`",
                several.len()
            );
            return Err(VectorError::content(path, what));
        }
    };
    let kind = tensor["dtype"].as_str().unwrap_or_default();
    let format = match kind {
        "F16" => NumberFormat::F16,
        "BF16" => NumberFormat::Bf16,
        "F32" => NumberFormat::F32,
        "F64" => NumberFormat::F64,
        _ => {
            let what = format!(
                "the tensor `{}` has the type `{}`, but floating-point numbers of 16, 32 or 64 bits are expected",
                name.escape_debug(),
                kind.escape_debug()
            );
            return Err(VectorError::content(path, what));
        }
    };
    let number = |value: &Json| value.as_u64().ok_or_else(damaged);
    let (shape, span) = (&tensor["shape"], &tensor["data_offsets"]);
    let (from, to) = (number(&span[0])?, number(&span[1])?);
    let array = RawArray {
        file,
        start: from.checked_add(end as u64).ok_or_else(damaged)?,
        format,
        rows: number(&shape[0])?,
        dimension: usize::try_from(number(&shape[1])?).unwrap_or(usize::MAX),
    };
    match array.bytes() == to.checked_sub(from) {
        true => Ok(array),
        false => Err(damaged()),
    }
}

/// Returns the length of the header; `None` if it is not plausible.
fn length_of(first: &[u8]) -> Option<usize> {
    let length = first.get(..LENGTH)?.try_into().ok()?;
    let length = usize::try_from(u64::from_le_bytes(length)).ok()?;
    (length <= MAX_HEADER).then_some(length)
}
