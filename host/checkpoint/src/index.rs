//! Nearest-neighbour indexes of a checkpoint: graphs over the rows of its partitions.
//!
//! A graph links each row to near rows and stores a checksum of every row. So a search can read single rows and links
//! by position and still verify every byte before it uses it. The embeddings stay in the files of the checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::MANIFEST;
use pbg_files::owner::OwnerKind;
use pbg_files::sealed_json::{self, ManifestFormat, SealError};
use pbg_files::{self as files, FileError, FileSummary, FolderLock};

mod error;
mod graph;
mod open_index;

pub use error::IndexError;
pub use graph::GraphFile;
use graph::put;
pub use open_index::OpenIndexFiles;

/// Name and version of the manifest's format.
pub const FORMAT: ManifestFormat = ManifestFormat {
    name: OwnerKind::Index.format_name(),
    version: 1,
    oldest: 1,
};

/// Manifest of an index (`manifest.json`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IndexManifest {
    /// Number of the build, from 1.
    pub version: u64,
    /// Comparator that the index was built for.
    pub comparator: String,
    /// Indexes by entity type.
    pub types: BTreeMap<String, TypeIndex>,
    /// Size and checksum of each graph file.
    pub files: BTreeMap<String, FileSummary>,
}

/// Graphs of an entity type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeIndex {
    /// Checksum of the type's global embedding, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_crc32: Option<u32>,
    /// One graph per partition.
    pub graphs: Vec<GraphInfo>,
    /// Number of questions of each kind with which the recall was measured.
    pub questions: u32,
    /// Recall measured when the index was built, for several beam widths.
    pub recall: Vec<Recall>,
}

/// Graph of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphInfo {
    /// Name of its file.
    pub file: String,
    /// Number of entities.
    pub points: u32,
    /// Maximum number of links of an entity.
    pub degree: u32,
    /// Entity at which searches start.
    pub entry: u32,
    /// Number of rows of the partition's table: entities, or features of a featurized type.
    pub rows: u32,
    /// Checksum of the checksums of all rows.
    pub rows_crc32: u32,
    /// Size and checksum of the checkpoint file with the rows.
    pub embeddings: FileSummary,
}

impl GraphInfo {
    /// Returns the size in bytes of an entity's record: the number of links, the links, a checksum.
    const fn stride(degree: u32) -> u64 {
        4 * (degree as u64 + 2)
    }

    fn size(&self) -> u64 {
        let records = u64::from(self.points).saturating_mul(Self::stride(self.degree));
        records.saturating_add(4 * u64::from(self.rows))
    }
}

/// Recall at 10 of searches: the share of the ten best by exhaustive scoring that they find.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recall {
    /// Beam width: the number of points that a search keeps in each partition.
    pub width: u32,
    /// Recall of nearest neighbours of entities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbors: Option<f64>,
    /// Recall of predictions, with known edges among the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictions: Option<f64>,
}

/// Returns the folder of the index for `comparator` of the checkpoint in folder `checkpoint`.
#[must_use]
pub fn folder(checkpoint: &Path, comparator: &str) -> PathBuf {
    checkpoint.join(format!("index_{comparator}"))
}

/// Reads the manifest of the index in `folder`; `None` if there is no index.
///
/// # Errors
/// When the manifest cannot be read or is damaged.
pub fn read(folder: &Path) -> Result<Option<IndexManifest>, IndexError> {
    let path = folder.join(MANIFEST);
    let manifest: IndexManifest = match sealed_json::read(&path, FORMAT) {
        Ok(unsealed) => unsealed.body,
        Err(SealError::File(error)) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for graph in manifest.types.values().flat_map(|of| &of.graphs) {
        let is_ours = is_graph(&graph.file);
        let summary = manifest.files.get(&graph.file);
        let fits = summary.is_some_and(|summary| summary.size == graph.size());
        if !is_ours || !fits || (graph.entry >= graph.points && graph.points > 0) {
            let name = graph.file.escape_debug();
            let what = format!("its entry for graph `{name}` is invalid");
            return Err(IndexError::damaged(&path, what));
        }
    }
    Ok(Some(manifest))
}

/// Returns the name of a graph's file.
fn graph_name(entity_type: &str, partition: u32, version: u64) -> String {
    format!("graph_{entity_type}_{partition}.v{version}.bin")
}

fn is_graph(name: &str) -> bool {
    name.starts_with("graph_") && name.ends_with(".bin") && !name.contains(['/', '\\'])
}

/// Index that is being built.
#[derive(Debug)]
pub struct IndexBuild {
    folder: PathBuf,
    manifest: IndexManifest,
    /// Lock against other builds, which would remove the files of this one.
    _lock: FolderLock,
}

impl IndexBuild {
    /// Starts a build in `folder`. Types that are not built again keep their graphs.
    ///
    /// # Errors
    /// When the folder cannot be created, or another process builds an index there.
    pub fn begin(folder: &Path, comparator: &str) -> Result<Self, IndexError> {
        files::create_folder(folder)?;
        let lock = files::lock_folder(folder)?;
        if matches!(lock, FolderLock::Busy) {
            return Err(IndexError::Busy(folder.to_owned()));
        }
        // A damaged index is discarded: rebuilding is how it is repaired.
        let before = read(folder).unwrap_or_default().unwrap_or_default();
        let manifest = IndexManifest {
            version: before.version + 1,
            comparator: comparator.to_owned(),
            ..before
        };
        Ok(Self {
            folder: folder.to_owned(),
            manifest,
            _lock: lock,
        })
    }

    /// Writes the graph of a partition: the checksums `sums` of the rows of its table, and the `links` of each entity.
    ///
    /// # Errors
    /// When the file cannot be written. The incomplete file is removed.
    pub fn write(
        &mut self,
        entity_type: &str,
        partition: u32,
        (entry, links): (u32, &[Vec<u32>]),
        sums: &[u32],
        embeddings: FileSummary,
    ) -> Result<GraphInfo, IndexError> {
        let file = graph_name(entity_type, partition, self.manifest.version);
        let path = self.folder.join(&file);
        let degree = links.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let written = put(&path, degree, links, sums);
        let (rows_crc32, summary) = written.inspect_err(|_| drop(files::remove(&path)))?;
        self.manifest.files.insert(file.clone(), summary);
        Ok(GraphInfo {
            file,
            points: links.len() as u32,
            degree,
            entry,
            rows: sums.len() as u32,
            rows_crc32,
            embeddings,
        })
    }

    /// Sets the index of an entity type.
    pub fn set(&mut self, entity_type: &str, built: TypeIndex) {
        self.manifest.types.insert(entity_type.to_owned(), built);
    }

    /// Returns the manifest as it is so far.
    #[must_use]
    pub const fn manifest(&self) -> &IndexManifest {
        &self.manifest
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the folder's index atomically with this one, and removes the previous graphs.
    ///
    /// # Errors
    /// When the manifest cannot be written; the previous index is kept then.
    pub fn commit(mut self) -> Result<IndexManifest, IndexError> {
        let graphs = self.manifest.types.values().flat_map(|of| &of.graphs);
        let named: BTreeSet<String> = graphs.map(|graph| graph.file.clone()).collect();
        self.manifest.files.retain(|name, _| named.contains(name));
        let path = self.folder.join(MANIFEST);
        let sealed = sealed_json::seal(FORMAT, &self.manifest);
        let sealed =
            sealed.map_err(|e| FileError::new("write", &path, std::io::Error::other(e)))?;
        files::replace(&path, &sealed)?;
        self.sweep(&named)?;
        Ok(std::mem::take(&mut self.manifest))
    }

    /// Removes graphs that are not `named`.
    fn sweep(&self, named: &BTreeSet<String>) -> Result<(), FileError> {
        let failed = |e| FileError::new("read", &self.folder, e);
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(name) = name.to_str().filter(|name| is_graph(name))
                && !named.contains(name)
            {
                // A file that is being read is left for the next build.
                files::remove_unless_read(&self.folder.join(name))?;
            }
        }
        Ok(())
    }
}

impl Drop for IndexBuild {
    /// Removes files of a build that was not committed.
    fn drop(&mut self) {
        if self.manifest.version > 0
            && let Ok(kept) = read(&self.folder)
        {
            let kept = kept.unwrap_or_default().files.into_keys().collect();
            let _ = self.sweep(&kept);
        }
    }
}

#[cfg(test)]
mod tests;
