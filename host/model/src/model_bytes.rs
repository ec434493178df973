//! Components of memory that training, queries and combinations of models have in common.

use pbg_dataset::Dataset;
use pbg_kernels::libtorch;
use pbg_rows::params::{Params, TensorSize};
use pbg_rows::spec::ModelSpec;

use crate::blueprint::Blueprint;
use crate::memory;

/// Memory of the program before it loads any data: measured, with a margin.
const PROGRAM: u64 = 64 << 20;
/// Additional memory of libtorch: measured, with a margin.
const LIBTORCH: u64 = 126 << 20;
/// Number of rows of a record batch that a read decodes at once.
pub const READ_ROWS: u64 = 1 << 20;

/// Returns the bytes of operator parameters and global embeddings with an accumulator each. Allocates nothing.
pub fn parameter_bytes(spec: &ModelSpec) -> u64 {
    memory::sum(Params::sizes(spec).map(TensorSize::bytes))
}

/// Returns the greatest size of a file with the parameters.
pub fn parameter_file_bytes(spec: &ModelSpec) -> u64 {
    /// More than the header's entry for a tensor takes, whose name contains that of a relation.
    const ENTRY: u64 = 64 << 10;
    let tensors = Params::sizes(spec).count() as u64;
    parameter_bytes(spec).saturating_add(2 * ENTRY * (tensors + 1))
}

/// Returns the bytes of the features of featurized types, as they are read and as they are laid out for the kernels.
pub fn feature_bytes(blueprint: &Blueprint, dataset: &Dataset) -> u64 {
    let manifest = dataset.manifest();
    let types = blueprint.layout.types.iter();
    let infos = types.filter_map(|t| manifest.entities.get(&t.name)?.features.as_ref());
    infos.map(|info| manifest.feature_bytes(info)).sum()
}

/// Returns the memory component of the program before any data.
pub fn program() -> (String, u64) {
    match has_libtorch() {
        true => ("program and libtorch".to_owned(), PROGRAM + LIBTORCH),
        false => ("program".to_owned(), PROGRAM),
    }
}

/// Returns whether this process has loaded libtorch; products of bfloat16 and GPUs need it.
#[must_use]
pub fn has_libtorch() -> bool {
    libtorch::installed().is_ok()
}
