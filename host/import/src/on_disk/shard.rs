//! Shards of names: their number, and their files.

use std::path::{Path, PathBuf};

use pbg_dataset::Dataset;

/// Maximum number of shards. This many files can be open at once, and Freebase's 86 million names give 340,000 per
/// file.
pub(in super::super) const MOST: usize = 256;

/// Number of shards for small imports, where creating files takes longer than filling them.
const FEW: usize = 16;

/// Maximum size of a small import in bytes: compressed edge files and entities of an earlier dataset.
const LITTLE: u64 = 1 << 20;

/// Returns the number of shards, a power of two.
pub(in super::super) fn shards(edges: u64, old: Option<&Dataset>) -> usize {
    let types = old
        .into_iter()
        .flat_map(|old| old.manifest().entities.values());
    // About 16 bytes per name, including its number.
    let known: u64 = types.map(|info| 16 * info.total()).sum();
    if edges + known > LITTLE { MOST } else { FEW }
}

/// Returns the size in bytes of an edge without names: both shards, the relation and, with weights, the weight.
pub(in super::super) fn record(has_weight: bool) -> usize {
    if has_weight { 10 } else { 6 }
}

/// Returns the shard, of `shards`, of a name whose entity is shuffled by `hash`.
pub(super) fn shard_of(hash: u64, shards: usize) -> usize {
    ((hash >> 56) as usize * shards) >> 8
}

/// Returns the folder of all these files.
pub(super) fn folder(job_folder: &Path) -> PathBuf {
    job_folder.join("names")
}

pub(super) fn names_path(job_folder: &Path, shard: usize) -> PathBuf {
    folder(job_folder).join(format!("{shard}.read"))
}

pub(super) fn known_path(job_folder: &Path, shard: usize) -> PathBuf {
    folder(job_folder).join(format!("{shard}.known"))
}

/// File of the numbers within the shard, from which that of [`numbers_path`] is computed.
pub(super) fn counted_path(job_folder: &Path, shard: usize) -> PathBuf {
    folder(job_folder).join(format!("{shard}.counted"))
}

pub(super) fn numbers_path(job_folder: &Path, shard: usize) -> PathBuf {
    folder(job_folder).join(format!("{shard}.numbers"))
}

pub(super) fn new_path(job_folder: &Path, shard: usize) -> PathBuf {
    folder(job_folder).join(format!("{shard}.new"))
}
