//! What a checkpoint remembers of a run besides its tensors, and whether a run may go on from it.

use pbg_config::Config;
use pbg_core::event::{CallSeconds, IoStats, RankStats, TrainStats};
use pbg_core::graph::{Side, SidePartition};
use pbg_core::loss::LossState;
use pbg_core::plateau::Plateau;
use pbg_core::schedule::{Extent, Schedule};
use pbg_store::dataset::Dataset;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::within::Within;

/// Where the run is, and the sums of the epoch it is in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunState {
    /// Position in the loops.
    pub(crate) schedule: Schedule,
    /// Buckets trained in the whole run.
    pub(crate) index: u64,
    /// Groups in the buffer, so that an order that looks at them plans the same after a resume.
    pub(crate) resident: Vec<SidePartition>,
    /// Those of them that were trained since they entered the buffer, so that traffic is counted the same
    /// after a resume.
    #[serde(default)]
    pub(crate) changed: Vec<SidePartition>,
    /// Sums of the current epoch, of its buckets that are done.
    pub(crate) epoch: EpochSums,
    /// The bucket that was left before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within: Option<Within>,
    /// What the loss remembers, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss: Option<LossState>,
    /// What validation said so far.
    #[serde(default)]
    pub(crate) plateau: Plateau,
}

impl RunState {
    /// Whether a run over `extent` and `layout` can stand there; what keeps it from that, otherwise.
    pub(crate) fn check(&self, extent: Extent, layout: &Layout) -> Result<(), String> {
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
    pub(crate) io: IoStats,
    pub(crate) seconds: f64,
    #[serde(default)]
    pub(crate) calls: CallSeconds,
}

/// What identifies the ids that a checkpoint's rows stand for: the checksums of all dictionaries.
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
