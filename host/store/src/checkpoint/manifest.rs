//! `manifest.json` of a checkpoint: what the committed version consists of.

use std::path::Path;

use pbg_core::strategy::StrategyId;
use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::files::Summary;
use crate::sealed::{self, Format, SealError};

/// Name and version of the format.
pub const FORMAT: Format = Format {
    name: "pbg-host checkpoint",
    version: 1,
};
/// Name of the manifest in its folder.
pub const MANIFEST: &str = "manifest.json";

/// A committed version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Counts commits, from 1.
    pub version: u64,
    /// The rest that the run wants to find again.
    #[serde(flatten)]
    pub run: RunInfo,
    /// Bytes of `metrics.jsonl` at the commit.
    pub metrics_bytes: u64,
    /// Operators and global embeddings.
    pub model: Option<ModelFile>,
    /// Tables.
    pub partitions: Vec<PartitionFile>,
}

/// What a run says of itself when it commits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The effective configuration, as TOML.
    pub config: String,
    /// Hash of the part of it that a resumed run must not change.
    pub config_hash: String,
    /// Identifies the dataset's ids.
    pub dataset: String,
    /// Strategies used.
    pub strategies: Vec<StrategyId>,
    /// Where the run is; opaque here.
    pub state: serde_json::Value,
}

/// The file of the model's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFile {
    /// File name.
    pub file: String,
    /// Its size and checksum.
    #[serde(flatten)]
    pub summary: Summary,
}

/// The file of one partition of one entity type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionFile {
    /// Entity type.
    pub entity_type: String,
    /// Partition.
    pub partition: u32,
    /// File name.
    pub file: String,
    /// Its size and checksum.
    #[serde(flatten)]
    pub summary: Summary,
}

impl Manifest {
    /// Reads the manifest of `folder`; `None` when there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, CheckpointError> {
        let path = folder.join(MANIFEST);
        let manifest = match sealed::read::<Self>(&path, FORMAT) {
            Ok(unsealed) => unsealed.body,
            Err(SealError::File(e)) if e.is_not_found() => return Ok(None),
            Err(SealError::File(e)) => return Err(e.into()),
            Err(SealError::Damaged { path, what }) => {
                return Err(CheckpointError::damaged(&path, what));
            }
            Err(error @ SealError::Format { .. }) => return Err(CheckpointError::Format { error }),
        };
        if let Some(name) = manifest
            .files()
            .find(|name| name.contains('/') || !name.contains(".v"))
        {
            return Err(CheckpointError::damaged(
                &path,
                format!("it names the file `{name}`"),
            ));
        }
        Ok(Some(manifest))
    }

    /// Names of the files that the version consists of.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        let partitions = self.partitions.iter().map(|p| p.file.as_str());
        partitions.chain(self.model.iter().map(|m| m.file.as_str()))
    }

    /// The file of a partition.
    pub(super) fn partition(&self, entity_type: &str, partition: u32) -> Option<&PartitionFile> {
        self.partitions
            .iter()
            .find(|p| p.partition == partition && p.entity_type == entity_type)
    }
}
