//! `manifest.json` of a checkpoint.

use std::collections::BTreeMap;

use pbg_core::ledger::{Cut, Token};
use pbg_core::model::{Optimizer, Storage};
use pbg_core::strategy::StrategyId;
use serde::{Deserialize, Serialize};

use super::names;
use crate::dataset::Ids;
use crate::dataset::manifest::EdgesId;
use crate::files::Summary;
use crate::sealed::{self, Format};

/// Where several trainers wrote.
const OF_SEVERAL: u32 = 2;
/// Where partitions have other tensors than those of the oldest version.
const OTHER_TENSORS: u32 = 3;
/// Where a bucket is trained in part, which earlier readers would train from its beginning.
const WITHIN_BUCKET: u32 = 4;

/// Name and versions of the format.
pub const FORMAT: Format = Format {
    name: "pbg-host checkpoint",
    version: WITHIN_BUCKET,
    oldest: 1,
};

/// A complete version of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Number of the commit, from 1.
    pub version: u64,
    /// The run that wrote it.
    pub run: RunInfo,
    /// Bytes of `metrics.jsonl` that belong to this version.
    pub metrics_length: u64,
    /// Size and checksum of every partition and of the model.
    pub files: BTreeMap<String, Summary>,
    /// The revision of the ledger that it is of, where several trainers wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Bytes of the files of events of its trainers that `metrics.jsonl` has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub told: BTreeMap<Token, u64>,
}

/// What a commit says about its run, so that another can go on from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The configuration, in TOML.
    pub config: String,
    /// Hash of the part of it that a resumed run must share.
    pub config_hash: String,
    /// Folder of the dataset, seen from that of the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_path: Option<String>,
    /// Identity of the dataset's ids.
    pub dataset: String,
    /// What the ids stand for, so that a dataset that has grown is recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Ids>,
    /// The edge sets that the run reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub edges: BTreeMap<String, EdgesId>,
    /// The strategies that took part.
    pub strategies: Vec<StrategyId>,
    /// What embeddings are made of in the files of partitions.
    #[serde(default, skip_serializing_if = "Storage::is_default")]
    pub storage: Storage,
    /// What the optimizer's state in them is.
    #[serde(default, skip_serializing_if = "Optimizer::is_default")]
    pub optimizer: Optimizer,
    /// Whether it was left within a bucket, of which `state` has how much is trained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub within_bucket: bool,
    /// Where the run stands; the training loop knows what it means.
    pub state: serde_json::Value,
}

impl RunInfo {
    /// Whether partitions have other tensors than they had before there was a choice.
    fn has_other_tensors(&self) -> bool {
        !self.storage.is_default() || !self.optimizer.is_default()
    }
}

impl Manifest {
    /// Its text, in the oldest version of the format that can say what it says.
    pub(super) fn seal(&self) -> Result<Vec<u8>, serde_json::Error> {
        let is_of_trainer = |name: &String| names::parse(name).is_some_and(|n| n.writer.is_some());
        let of_several = self.cut.is_some() || self.files.keys().any(is_of_trainer);
        let version = match of_several {
            _ if self.run.within_bucket => WITHIN_BUCKET,
            _ if self.run.has_other_tensors() => OTHER_TENSORS,
            true => OF_SEVERAL,
            false => FORMAT.oldest,
        };
        sealed::seal(Format { version, ..FORMAT }, self)
    }

    /// The revision that it is of: what a ledger has to know to go with it.
    #[must_use]
    pub fn cut(&self) -> Cut {
        let version = self.version;
        let alone = Cut {
            version,
            begun: None,
        };
        self.cut.unwrap_or(alone)
    }

    /// File and summary of what `key` names.
    pub(super) fn find(&self, key: &str) -> Option<(&str, Summary)> {
        let (name, summary) = self
            .files
            .iter()
            .find(|(name, _)| names::key_of(name) == key)?;
        Some((name, *summary))
    }

    /// Entity types and partitions that it holds.
    #[must_use]
    pub fn partitions(&self) -> Vec<(String, u32)> {
        let mut partitions: Vec<_> = self
            .files
            .keys()
            .filter_map(|name| names::parse_partition(name))
            .collect();
        partitions.sort_unstable();
        partitions
    }

    /// Whether the names are those of our files.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.files.keys().find(|name| !names::is_ours(name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "`{}` is no file of a checkpoint",
                name.escape_debug()
            )),
        }
    }
}
