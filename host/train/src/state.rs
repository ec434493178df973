//! State of a run that a checkpoint stores besides its tensors, and the check before resuming from it.

use pbg_config::Config;
use pbg_core::event::{CallSeconds, PartitionIo, RankStats, TrainStats};
use pbg_core::graph::{Side, SidePartition};
use pbg_core::loss::LossState;
use pbg_core::plateau::ValidationState;
use pbg_core::schedule::{RunExtent, Schedule};
use pbg_dataset::Dataset;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::resume_point::InterruptedBucket;

/// Position of a run, and sums of its current epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunState {
    /// Position in the training loops.
    pub(crate) schedule: Schedule,
    /// Number of buckets trained in the whole run.
    pub(crate) index: u64,
    /// Groups in the buffer, so that an order that depends on them plans the same after a resume.
    pub(crate) resident: Vec<SidePartition>,
    /// Resident groups that were trained since they entered the buffer, so that traffic is counted the same after a
    /// resume.
    #[serde(default)]
    pub(crate) changed: Vec<SidePartition>,
    /// Sums over the finished buckets of the current epoch.
    pub(crate) epoch: EpochSums,
    /// Bucket that was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within: Option<InterruptedBucket>,
    /// State of the loss, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss: Option<LossState>,
    /// Results of validation so far.
    #[serde(default)]
    pub(crate) plateau: ValidationState,
}

impl RunState {
    /// Checks that a run over `extent` and `layout` can be in this state. Returns the reason if not.
    pub(crate) fn check(&self, extent: RunExtent, layout: &Layout) -> Result<(), String> {
        let grid = layout.grid().collect();
        self.schedule.check(extent, grid)?;
        if let Some(within) = &self.within {
            within.check(&self.schedule)?;
        }
        let exists = |&(side, partition): &SidePartition| match side {
            Side::Lhs => partition < layout.lhs_partitions,
            Side::Rhs => partition < layout.rhs_partitions && !layout.shared,
        };
        match self.resident.iter().find(|group| !exists(group)) {
            None => Ok(()),
            Some((_, partition)) => Err(format!("there is no partition {partition}")),
        }
    }
}

/// Sums over the buckets of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EpochSums {
    pub(crate) stats: TrainStats,
    pub(crate) eval_before: RankStats,
    pub(crate) io: PartitionIo,
    pub(crate) seconds: f64,
    #[serde(default)]
    pub(crate) calls: CallSeconds,
}

/// Returns the checksums of all dictionaries, which identify the names that a checkpoint's ids stand for.
pub(crate) fn dictionaries(config: &Config, dataset: &Dataset) -> String {
    let manifest = dataset.manifest();
    let sum = |file: &String| manifest.files.get(file).map_or(0, |s| s.crc32);
    let mut parts = vec![format!("relations {:08x}", sum(&manifest.relations.file))];
    for name in config.entities.keys() {
        if let Some(info) = manifest.entities.get(name) {
            parts.push(format!("{name} {:08x}", sum(&info.file)));
            if let Some(features) = &info.features {
                parts.push(format!("features {:08x}", sum(&features.names_file)));
            }
        }
    }
    parts.join(", ")
}
