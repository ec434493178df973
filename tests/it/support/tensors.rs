//! Tensors of a checkpoint, read only by the description of their format.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Workplace;

/// Tensor of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) numbers: Vec<f32>,
}

/// Returns all tensors of the committed checkpoint, by name and by file without its version.
pub(crate) fn tensors(place: &Workplace, folder: &str) -> BTreeMap<(String, String), Tensor> {
    let mut all = BTreeMap::new();
    for (file, bytes) in place.committed(folder) {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        for (name, tensor) in header.as_object().unwrap() {
            let at = |end: usize| tensor["data_offsets"][end].as_u64().map(|at| at as usize);
            let (Some(from), Some(to)) = (at(0), at(1)) else {
                continue;
            };
            let bytes = &bytes[8 + length..][from..to];
            let dtype = tensor["dtype"].as_str().unwrap().to_owned();
            let numbers = match dtype.as_str() {
                "F32" => {
                    assert_eq!(from % 4, 0, "{file} {name}");
                    let numbers = bytes.as_chunks().0.iter();
                    numbers.map(|four| f32::from_le_bytes(*four)).collect()
                }
                "BF16" => {
                    let halves = bytes.as_chunks().0.iter();
                    let half =
                        |two: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*two)) << 16);
                    halves.map(half).collect()
                }
                other => panic!("{file} {name}: {other}"),
            };
            let sizes = tensor["shape"].as_array().unwrap().iter();
            let tensor = Tensor {
                dtype,
                shape: sizes.map(|size| size.as_u64().unwrap()).collect(),
                numbers,
            };
            all.insert((file.clone(), name.clone()), tensor);
        }
    }
    all
}
