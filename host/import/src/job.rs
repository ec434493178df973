//! State that all steps of an import share.

use std::path::Path;

use pbg_core::graph::Schema;
use pbg_dataset::Dataset;

use super::inputs::InputFiles;
use super::{ImportOptions, NameStorage, memory, relations, types};

/// Shared state of all steps of an import.
pub(super) struct ImportJob<'a> {
    pub(super) schema: &'a Schema,
    pub(super) options: &'a ImportOptions,
    pub(super) inputs: &'a InputFiles,
    pub(super) name_storage: NameStorage,
    /// Number of files that names on disk are divided into.
    pub(super) shards: usize,
    pub(super) types: &'a types::Types,
    pub(super) relations: &'a relations::RelationTable,
    /// Dataset whose ids are kept.
    pub(super) old: Option<&'a Dataset>,
    pub(super) folder: &'a Path,
    pub(super) threads: usize,
    pub(super) memory: memory::MemoryBudget,
}
