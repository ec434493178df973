//! Indexes of near neighbours beside a checkpoint: graphs over the rows of its partitions.
//!
//! A graph says which rows are near which, and has a checksum of every row, so that a walk may read single rows
//! and links by position and still compare each byte with a checksum before it is used. Embeddings stay
//! where they are, in the files of the checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkpoint::MANIFEST;
use crate::files::{self, FileError, FolderLock, Summary};
use crate::sealed::{self, Format, SealError};

mod error;
mod graph;
mod opened;

pub use error::IndexError;
pub use graph::GraphFile;
use graph::put;
pub use opened::Opened;

/// Name and version of the format.
pub const FORMAT: Format = Format {
    name: "pbg-host index",
    version: 1,
    oldest: 1,
};

/// `manifest.json` of an index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Number of the build, from 1.
    pub version: u64,
    /// What embeddings are compared with.
    pub comparator: String,
    /// What was built, by entity type.
    pub types: BTreeMap<String, TypeIndex>,
    /// Size and checksum of the graphs.
    pub files: BTreeMap<String, Summary>,
}

/// The graphs of an entity type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeIndex {
    /// Checksum of the type's global embedding, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_crc32: Option<u32>,
    /// A graph for each partition.
    pub graphs: Vec<GraphInfo>,
    /// Questions of each kind that the recall was measured with.
    pub questions: u32,
    /// What was found of the nearest when it was built, by how many points a walk keeps in view.
    pub recall: Vec<Recall>,
}

/// The graph of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphInfo {
    /// Its file.
    pub file: String,
    /// Entities.
    pub points: u32,
    /// Links that an entity has at most.
    pub degree: u32,
    /// The entity that walks begin with.
    pub entry: u32,
    /// Rows of the partition's table: entities, or features of a featurized type.
    pub rows: u32,
    /// Checksum of the checksums of the rows.
    pub rows_crc32: u32,
    /// The file of the checkpoint that the rows are in.
    pub embeddings: Summary,
}

impl GraphInfo {
    /// Bytes of an entity's record: how many links, the links, a checksum.
    const fn stride(degree: u32) -> u64 {
        4 * (degree as u64 + 2)
    }

    fn size(&self) -> u64 {
        let records = u64::from(self.points).saturating_mul(Self::stride(self.degree));
        records.saturating_add(4 * u64::from(self.rows))
    }
}

/// Of the ten nearest by all scores, the share that walks find.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recall {
    /// Points that a walk keeps in view in each partition.
    pub width: u32,
    /// Of the neighbours of entities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbors: Option<f64>,
    /// Of what completes edges, known ones among it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predictions: Option<f64>,
}

/// The folder of the index for `comparator` of the checkpoint in `checkpoint`.
#[must_use]
pub fn folder(checkpoint: &Path, comparator: &str) -> PathBuf {
    checkpoint.join(format!("index_{comparator}"))
}

/// The manifest of the index in `folder`; `None` if there is no index.
///
/// # Errors
/// When it cannot be read, or is damaged.
pub fn read(folder: &Path) -> Result<Option<Manifest>, IndexError> {
    let path = folder.join(MANIFEST);
    let manifest: Manifest = match sealed::read(&path, FORMAT) {
        Ok(unsealed) => unsealed.body,
        Err(SealError::File(error)) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let graphs = manifest.types.values().flat_map(|of| &of.graphs);
    for graph in graphs {
        let is_ours = is_graph(&graph.file);
        let summary = manifest.files.get(&graph.file);
        let fits = summary.is_some_and(|summary| summary.size == graph.size());
        if !is_ours || !fits || (graph.entry >= graph.points && graph.points > 0) {
            let what = format!("its graph `{}` cannot be", graph.file.escape_debug());
            return Err(IndexError::damaged(&path, what));
        }
    }
    Ok(Some(manifest))
}

/// Name of a graph's file.
fn graph_name(entity_type: &str, partition: u32, version: u64) -> String {
    format!("graph_{entity_type}_{partition}.v{version}.bin")
}

fn is_graph(name: &str) -> bool {
    name.starts_with("graph_") && name.ends_with(".bin") && !name.contains(['/', '\\'])
}

/// An index that is being built.
#[derive(Debug)]
pub struct Building {
    folder: PathBuf,
    manifest: Manifest,
    /// Keeps other builds out, which would remove what this one has written.
    _lock: FolderLock,
}

impl Building {
    /// Beside what `folder` holds, whose types stay unless they are built anew.
    ///
    /// # Errors
    /// When the folder cannot be made, or another process builds there.
    pub fn begin(folder: &Path, comparator: &str) -> Result<Self, IndexError> {
        files::create_folder(folder)?;
        let lock = files::lock_folder(folder)?;
        if matches!(lock, FolderLock::Elsewhere) {
            let path = folder.to_owned();
            return Err(IndexError::Busy { path });
        }
        // What is damaged is what somebody builds anew.
        let before = read(folder).unwrap_or_default().unwrap_or_default();
        let manifest = Manifest {
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

    /// Writes the graph of a partition: `sums` of the rows of its table, and `links` of each entity.
    ///
    /// # Errors
    /// When it cannot be written. What was written of it is removed.
    pub fn write(
        &mut self,
        entity_type: &str,
        partition: u32,
        (entry, links): (u32, &[Vec<u32>]),
        sums: &[u32],
        embeddings: Summary,
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

    /// What can be asked before the index is whole.
    pub fn set(&mut self, entity_type: &str, built: TypeIndex) {
        self.manifest.types.insert(entity_type.to_owned(), built);
    }

    /// As it is so far.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes it the index of the folder, in one step, and removes the graphs that were there before.
    ///
    /// # Errors
    /// When it cannot be written; what was there before still is then.
    pub fn commit(mut self) -> Result<Manifest, IndexError> {
        let graphs = self.manifest.types.values().flat_map(|of| &of.graphs);
        let named: BTreeSet<String> = graphs.map(|graph| graph.file.clone()).collect();
        self.manifest.files.retain(|name, _| named.contains(name));
        let path = self.folder.join(MANIFEST);
        let sealed = sealed::seal(FORMAT, &self.manifest);
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
                // One that is being read stays for the next build.
                files::remove_unread(&self.folder.join(name))?;
            }
        }
        Ok(())
    }
}

impl Drop for Building {
    /// What was not committed takes up no room.
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
