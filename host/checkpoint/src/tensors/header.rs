//! Header of a safetensors file, which names the tensors.

use std::collections::BTreeMap;

use pbg_core::model::EmbeddingFormat;
use serde::{Deserialize, Serialize};

/// Key of the metadata in the header.
pub(super) const METADATA: &str = "__metadata__";
/// Names of the number formats.
pub(super) const F32: &str = "F32";
pub(super) const BF16: &str = "BF16";

/// Number of values that are converted per chunk.
pub(super) const CHUNK: usize = 256 << 10;

/// Entry of a safetensors header.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    pub(super) data_offsets: (u64, u64),
}

/// Name, number format and shape of a tensor to write.
pub(crate) type TensorSpec<'a> = (&'a str, EmbeddingFormat, &'a [usize]);

/// Returns the part of a file before the values, for tensors with these names and shapes.
pub fn header(tensors: &[TensorSpec<'_>], metadata: &[(&str, String)]) -> Result<Vec<u8>, String> {
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for &(name, storage, shape) in tensors {
        let start = end;
        end += storage.bytes() * shape.iter().product::<usize>() as u64;
        let entry = Entry {
            dtype: dtype(storage).to_owned(),
            shape: shape.to_vec(),
            data_offsets: (start, end),
        };
        let entry = serde_json::to_value(entry).map_err(|e| e.to_string())?;
        if entries.insert(name, entry).is_some() {
            return Err(format!("two tensors are named `{name}`"));
        }
    }
    if !metadata.is_empty() {
        let metadata = metadata.iter().map(|(key, value)| (*key, value.as_str()));
        entries.insert(METADATA, metadata.collect());
    }
    let mut text = serde_json::to_vec(&entries).map_err(|e| e.to_string())?;
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut text);
    Ok(bytes)
}

const fn dtype(storage: EmbeddingFormat) -> &'static str {
    match storage {
        EmbeddingFormat::F32 => F32,
        EmbeddingFormat::Bf16 => BF16,
    }
}
