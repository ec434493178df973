//! Options of an import.

use std::path::PathBuf;

use super::columns::ColumnSpec;
use super::format::{OnBadLine, TextOptions};
use super::rdf::RdfOptions;

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Folder of the dataset.
    pub target: PathBuf,
    /// Seed of the assignment of entities to partitions.
    pub seed: u64,
    /// Meaning of the columns. Default: taken from the header of files that have one; `lhs, rel, rhs` for the others.
    pub columns: Option<ColumnSpec>,
    /// Options for text files. Default: detected from their first lines.
    pub text: TextOptions,
    /// Options for RDF files.
    pub rdf: RdfOptions,
    /// Treatment of lines that are not edges.
    pub on_bad_line: OnBadLine,
    /// Number of worker threads. Default: one per core.
    pub threads: Option<usize>,
    /// Memory limit in bytes for names and buffers together, at least [`crate::LEAST_MEMORY`]. Names that do not fit are
    /// sorted on disk. Default: `names_memory`, and 256 MiB of buffers.
    pub memory: Option<u64>,
    /// Memory limit in bytes for names, used if `memory` is `None`. Default: none.
    pub names_memory: Option<u64>,
    /// Location of the names of entities. Default: in files if the edges take more than [`LARGE`] bytes, otherwise in
    /// memory.
    pub name_storage: Option<NameStorage>,
    /// Minimum number of edges of an entity; entities with fewer are dropped, with their edges.
    pub entity_min_count: u32,
    /// Minimum number of edges of a relation; relations with fewer are dropped, with their edges.
    pub relation_min_count: u32,
    /// Dataset whose ids are kept. Default: the one in the target folder, if there is one.
    pub dictionary: Option<PathBuf>,
    /// Whether to discard the dataset in the target folder instead of keeping its ids and edge sets.
    pub fresh: bool,
    /// Files with the features of entities, by featurized entity type.
    pub features: Vec<(String, PathBuf)>,
    /// Names of the edge sets that will be trained on. Entities and relations that only other sets have are counted.
    pub trained: Vec<String>,
}

/// Location of the names of entities while an import numbers them. The resulting dataset is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameStorage {
    /// In memory. If they do not fit, the import starts again with names in files.
    Memory,
    /// In files next to the target, which take about as much space as the edges do as text. This is faster for many
    /// names, because the hash table of each file's names fits in the processor's cache.
    Files,
}

/// Total size in bytes of the edge files above which names are kept in files.
pub const LARGE: u64 = 256 << 20;
