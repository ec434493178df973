//! `manifest.json` of a checkpoint.

use std::collections::BTreeMap;
use std::path::Path;

use pbg_core::model::{EmbeddingFormat, Optimizer};
use pbg_core::strategy::StrategyId;
use pbg_ledger::{CheckpointCut, MAX_COUNT, Token};
use serde::{Deserialize, Serialize};

use super::{CheckpointError, names};
use pbg_dataset::IdSpace;
use pbg_dataset::manifest::EdgeSetId;
use pbg_files::FileSummary;
use pbg_files::owner::OwnerKind;
use pbg_files::sealed_json::{self, ManifestFormat};

/// Version with files of several trainers.
const OF_SEVERAL: u32 = 2;
/// Version with partition tensors other than those of the oldest version.
const OTHER_TENSORS: u32 = 3;
/// Version with a partly trained bucket, which earlier readers would train from its beginning.
const WITHIN_BUCKET: u32 = 4;

/// Name and versions of the manifest's format.
pub const FORMAT: ManifestFormat = ManifestFormat {
    name: OwnerKind::Checkpoint.format_name(),
    version: WITHIN_BUCKET,
    oldest: 1,
};

/// Manifest of one complete version of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointManifest {
    /// Number of the commit, from 1.
    pub version: u64,
    /// Description of the run that wrote it.
    pub run: RunInfo,
    /// Length of the part of `metrics.jsonl` that belongs to this version, in bytes.
    pub metrics_length: u64,
    /// Size and checksum of each partition and model file, by file name.
    pub files: BTreeMap<String, FileSummary>,
    /// Ledger revision that this version corresponds to, where several trainers wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CheckpointCut>,
    /// Bytes of each trainer's event file that `metrics.jsonl` already contains.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub told: BTreeMap<Token, u64>,
}

/// Description of a run in a commit, from which another run can resume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The configuration, in TOML.
    pub config: String,
    /// Hash of the configuration options that a resumed run must share.
    pub config_hash: String,
    /// Folder of the dataset, relative to that of the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_path: Option<String>,
    /// Identity of the dataset's entity ids.
    pub dataset: String,
    /// Description of the ids' order, by which a dataset that has grown is recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<IdSpace>,
    /// Edge sets that the run reads, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub edges: BTreeMap<String, EdgeSetId>,
    /// Strategies that the run uses.
    pub strategies: Vec<StrategyId>,
    /// Number format of the embeddings in partition files.
    #[serde(default, skip_serializing_if = "EmbeddingFormat::is_default")]
    pub storage: EmbeddingFormat,
    /// Optimizer whose state the partition files contain.
    #[serde(default, skip_serializing_if = "Optimizer::is_default")]
    pub optimizer: Optimizer,
    /// Whether the run stopped within a bucket; `state` records how much of the bucket is trained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub within_bucket: bool,
    /// Position of the run. Only the training loop interprets it.
    pub state: serde_json::Value,
}

impl RunInfo {
    /// Returns whether partition files contain tensors other than those of the oldest format version.
    fn has_other_tensors(&self) -> bool {
        !self.storage.is_default() || !self.optimizer.is_default()
    }
}

impl CheckpointManifest {
    /// Serializes the manifest for the file at `path`, in the oldest version of the format that can represent it.
    pub(super) fn seal(&self, path: &Path) -> Result<Vec<u8>, CheckpointError> {
        let is_of_trainer = |name: &String| names::parse(name).is_some_and(|n| n.writer.is_some());
        let of_several = self.cut.is_some() || self.files.keys().any(is_of_trainer);
        let version = match of_several {
            _ if self.run.within_bucket => WITHIN_BUCKET,
            _ if self.run.has_other_tensors() => OTHER_TENSORS,
            true => OF_SEVERAL,
            false => FORMAT.oldest,
        };
        let sealed = sealed_json::seal(ManifestFormat { version, ..FORMAT }, self);
        sealed.map_err(|e| CheckpointError::manifest(path, e))
    }

    /// Returns the cut of the ledger that this version corresponds to.
    #[must_use]
    pub fn cut(&self) -> CheckpointCut {
        let (version, begun) = (self.version, None);
        self.cut.unwrap_or(CheckpointCut { version, begun })
    }

    /// Returns the name and summary of the file of `key`.
    pub(super) fn find(&self, key: &str) -> Option<(&str, FileSummary)> {
        let mut files = self.files.iter();
        let (name, summary) = files.find(|(name, _)| names::key_of(name) == key)?;
        Some((name, *summary))
    }

    /// Returns the entity types and partitions that this version contains, sorted.
    #[must_use]
    pub fn partitions(&self) -> Vec<(String, u32)> {
        let names = self.files.keys();
        let partitions = names.filter_map(|name| names::parse_partition(name));
        let mut partitions: Vec<_> = partitions.collect();
        partitions.sort_unstable();
        partitions
    }

    /// Checks that all file names are names of checkpoint files, that the cut is of this version, and that no number is so
    /// large that a sum could overflow.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_known = |name: &String| {
            let name = names::parse(name);
            name.is_some_and(|name| name.version <= MAX_COUNT)
        };
        if let Some(name) = self.files.keys().find(|name| !is_known(name)) {
            let name = name.escape_debug();
            return Err(format!("`{name}` is not the name of a checkpoint file"));
        }
        let other = self.cut.filter(|cut| cut.version != self.version);
        if let Some(CheckpointCut { version, .. }) = other {
            let of = self.version;
            return Err(format!(
                "it is of version {of}, but its cut of version {version}"
            ));
        }
        let told = self.told.values().copied().max().unwrap_or(0);
        match [self.version, self.metrics_length, told]
            .iter()
            .any(|n| *n > MAX_COUNT)
        {
            true => Err("its version or a length is too large".to_owned()),
            false => Ok(()),
        }
    }
}
