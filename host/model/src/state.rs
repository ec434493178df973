//! State of a run that a checkpoint stores in addition to its tensors, and the check before a run resumes from it.

use pbg_config::Config;
use pbg_core::event::{CallSeconds, DiskIo, PartitionIo, RankStats, TrainStats};
use pbg_core::graph::{Side, SidePartition};
use pbg_core::loss::LossState;
use pbg_core::plateau::ValidationState;
use pbg_core::schedule::{RunExtent, Schedule};
use pbg_dataset::Dataset;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::resume_point::InterruptedBucket;

/// Position of a run, content of its partition buffer, and sums of its current epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// Position in the training loops: epoch, edge set, edge chunk, and bucket of the plan.
    pub schedule: Schedule,
    /// Number of buckets trained in the whole run.
    pub index: u64,
    /// Groups in the buffer. A bucket order may depend on them, and then plans the same after a resume.
    pub resident: Vec<SidePartition>,
    /// Groups in the buffer that were trained since they were loaded. Their evictions are counted as writes, also after
    /// a resume.
    #[serde(default)]
    pub changed: Vec<SidePartition>,
    /// Sums over the trained buckets of the current epoch.
    pub epoch: EpochSums,
    /// Bucket in which the run was interrupted, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<InterruptedBucket>,
    /// State of the loss; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossState>,
    /// State of validation: the highest MRR so far, and the current factor of the learning rates.
    #[serde(default)]
    pub plateau: ValidationState,
}

impl RunState {
    /// Checks that a run of this `extent` and `layout` can be in this state.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check(&self, extent: RunExtent, layout: &Layout) -> Result<(), String> {
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
            Some((_, partition)) => Err(format!(
                "the buffer contains partition {partition}, which does not exist"
            )),
        }
    }
}

/// Sums over the buckets of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochSums {
    /// Trained edges and their losses.
    pub stats: TrainStats,
    /// Ranks of held-out edges before their bucket was trained.
    pub eval_before: RankStats,
    /// Partitions read and written.
    pub io: PartitionIo,
    /// Bytes written and read in fact until the commit began, and the tables that it writes; empty in runs of several
    /// trainers.
    #[serde(default)]
    pub disk: DiskIo,
    /// Seconds of training.
    pub seconds: f64,
    /// Seconds in calls of plugins.
    #[serde(default)]
    pub calls: CallSeconds,
}

/// Returns a text with the checksums of the dictionaries of relations, of the entity types of the configuration, and of
/// their features. It identifies the names to which the ids of a checkpoint refer.
pub fn dictionaries(config: &Config, dataset: &Dataset) -> String {
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
