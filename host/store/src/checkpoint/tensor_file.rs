//! safetensors, streamed: neither writing nor reading needs a second copy of a tensor.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{self, FileError, Summary, SummedFile};

/// Bytes converted at a time.
const BLOCK: usize = 1 << 20;
/// Longest header that is believed: enough for a hundred thousand tensors.
const MAX_HEADER: u64 = 64 << 20;

/// A tensor to write.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Name.
    pub name: &'a str,
    /// Shape; its product is the number of values.
    pub shape: &'a [usize],
    /// Values, row-major.
    pub values: &'a [f32],
}

/// A tensor that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// Values, row-major.
    pub values: Vec<f32>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// What is wrong with a tensor file.
pub(super) enum TensorError {
    File(FileError),
    Damaged(String),
}

impl From<FileError> for TensorError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// Writes `tensors` in their order.
pub(super) fn write(
    path: &Path,
    tensors: &[TensorRef<'_>],
    metadata: &BTreeMap<&str, String>,
) -> Result<Summary, FileError> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), serde_json::json!(metadata));
    let mut offset = 0;
    for tensor in tensors {
        let end = offset + 4 * tensor.values.len() as u64;
        let entry = serde_json::json!({
            "dtype": "F32", "shape": tensor.shape, "data_offsets": [offset, end],
        });
        header.insert(tensor.name.to_owned(), entry);
        offset = end;
    }
    let mut text = serde_json::Value::Object(header).to_string().into_bytes();
    // The format wants the values to start at a multiple of eight.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut file = SummedFile::create(path)?;
    file.put(&(text.len() as u64).to_le_bytes())?;
    file.put(&text)?;
    let mut block = Vec::with_capacity(BLOCK);
    for tensor in tensors {
        for values in tensor.values.chunks(BLOCK / 4) {
            block.clear();
            block.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            file.put(&block)?;
        }
    }
    file.finish(false)
}

/// Reads all tensors and compares the file with `expected`.
pub(super) fn read(
    file: &File,
    path: &Path,
    expected: Summary,
) -> Result<Vec<Tensor>, TensorError> {
    let damaged = |what: &str| TensorError::Damaged(what.to_owned());
    let size = file
        .metadata()
        .map_err(|e| FileError::new("open", path, e))?
        .len();
    if size != expected.size {
        let what = format!("it has {size} bytes instead of {}", expected.size);
        return Err(TensorError::Damaged(what));
    }
    let mut hasher = crc32fast::Hasher::new();
    let mut prefix = [0; 8];
    files::read_exact_at(file, path, &mut prefix, 0)?;
    hasher.update(&prefix);
    let length = u64::from_le_bytes(prefix);
    if length > MAX_HEADER || length + 8 > size {
        return Err(damaged("its header is longer than the file"));
    }
    let mut header = vec![0; length as usize];
    files::read_exact_at(file, path, &mut header, 8)?;
    hasher.update(&header);
    let mut tensors = parse_header(&header, size - 8 - length).map_err(TensorError::Damaged)?;
    let mut at = 8 + length;
    let mut block = vec![0; BLOCK];
    for (tensor, bytes) in &mut tensors {
        let mut left = *bytes;
        while left > 0 {
            let part = left.min(BLOCK as u64) as usize;
            files::read_exact_at(file, path, &mut block[..part], at)?;
            hasher.update(&block[..part]);
            let (words, _) = block[..part].as_chunks::<4>();
            tensor
                .values
                .extend(words.iter().map(|word| f32::from_le_bytes(*word)));
            at += part as u64;
            left -= part as u64;
        }
    }
    if hasher.finalize() != expected.crc32 {
        return Err(damaged("its checksum does not match its content"));
    }
    Ok(tensors.into_iter().map(|(tensor, _)| tensor).collect())
}

/// The tensors of a header, empty, in the order of their bytes; each with its number of bytes.
fn parse_header(header: &[u8], data_bytes: u64) -> Result<Vec<(Tensor, u64)>, String> {
    let entries: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|e| format!("its header is no JSON: {e}"))?;
    let mut found = Vec::new();
    for (name, value) in entries {
        if name == "__metadata__" {
            continue;
        }
        let entry: Entry = serde_json::from_value(value)
            .map_err(|e| format!("its header says of `{name}`: {e}"))?;
        found.push((name, entry));
    }
    found.sort_by_key(|(_, entry)| entry.data_offsets[0]);
    let mut end = 0;
    let mut tensors = Vec::new();
    for (
        name,
        Entry {
            dtype,
            shape,
            data_offsets: [from, to],
        },
    ) in found
    {
        let count = shape
            .iter()
            .try_fold(4_u64, |n, &d| n.checked_mul(d as u64));
        if dtype != "F32" || from != end || count.is_none_or(|n| from.checked_add(n) != Some(to)) {
            return Err(format!(
                "tensor `{name}` is not where or what its header says"
            ));
        }
        if to > data_bytes {
            return Err(format!("tensor `{name}` ends behind the file"));
        }
        end = to;
        let values = Vec::with_capacity(((to - from) / 4) as usize);
        tensors.push((
            Tensor {
                name,
                shape,
                values,
            },
            to - from,
        ));
    }
    if end == data_bytes {
        Ok(tensors)
    } else {
        Err("it has bytes that belong to no tensor".to_owned())
    }
}
