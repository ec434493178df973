//! Replays: files with the arguments of a failed call, from which the call can be repeated.

mod asked;
mod scores;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pbg_core::graph::Bucket;
use pbg_core::loss::ScheduleProgress;
use pbg_core::strategy::{
    NegativeCandidates, NegativeChunk, Pass, RunLength, SchedulePosition, StrategyError, StrategyId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::Limits;
use crate::slot::PluginSlot;

pub use asked::LossExecutor;
pub use scores::RecordedScores;

/// Version of the file format.
const FORMAT: u32 = 1;
/// Replays that a folder keeps per plugin and function; later faults are not written.
const FILES: u32 = 20;
/// Largest number of scores in a replay; a call with more scores gets no replay.
pub(crate) const MAX_RECORDED_SCORES: usize = 1 << 20;
/// Size (bytes) of the largest file that is read.
const BYTES: u64 = 256 << 20;

/// A failed call, with everything but the plugin that its answer depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallReplay {
    format: u32,
    /// Plugin that failed.
    pub plugin: StrategyId,
    /// Slot that it filled.
    pub kind: PluginSlot,
    /// Source that it was loaded from: a file, or the name of a standard plugin.
    pub source: String,
    /// Function that failed.
    pub function: String,
    /// Error message.
    pub reason: String,
    /// Limits of the plugin.
    pub limits: Limits,
    /// Parameters that the configuration gave.
    pub parameters: Value,
    /// Length of the run.
    #[serde(default)]
    pub run: RunLength,
    /// The call.
    pub call: RecordedCall,
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
pub enum RecordedCall {
    /// `plan` of a bucket order.
    Plan {
        /// Pass to plan.
        pass: Pass,
    },
    /// `pick` of a bucket order.
    Pick {
        /// Pass that is being trained.
        pass: Pass,
        /// Buckets that other trainers hold.
        held: Vec<Bucket>,
        /// Buckets that are free.
        free: Vec<Bucket>,
    },
    /// Draws of a relation sampler, up to the fault.
    Draw {
        /// Edges of each relation.
        counts: Vec<u64>,
        /// Edges of a batch.
        batch_size: u32,
        /// Seed of the share.
        seed: u64,
        /// Mean loss observed after each draw that was trained.
        losses: Vec<f32>,
    },
    /// `build`: the formula of a loss, an operator or a comparator.
    Build,
    /// `distribution` of a negative sampler.
    Distribution {
        /// Entities that may be drawn.
        candidates: NegativeCandidates,
    },
    /// `select` of a negative selector.
    Select {
        /// Edges and candidates.
        chunk: NegativeChunk,
    },
    /// `factor` of a learning rate schedule.
    Factor {
        /// Position in the schedule.
        position: SchedulePosition,
    },
    /// `update`: new values of a formula's parameters.
    Update {
        /// Progress since the last update.
        progress: ScheduleProgress,
        /// Values before the update.
        values: Vec<f32>,
    },
    /// `evaluate` of a loss.
    Evaluate {
        /// Scores of the positives.
        positive: RecordedScores,
        /// Scores of the negatives, row by row.
        negative: RecordedScores,
        /// Number of negatives of a row.
        columns: usize,
        /// Values of a formula's parameters.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parameters: Vec<f32>,
    },
}

/// Reason why a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct ReplayError {
    path: PathBuf,
    reason: String,
}

/// Circumstances that all calls of a plugin have in common.
#[derive(Clone, Debug)]
pub(crate) struct CallContext {
    pub(crate) kind: PluginSlot,
    /// File or standard name that the plugin was loaded from.
    pub(crate) source: String,
    pub(crate) limits: Limits,
    /// Parameters that the user gave.
    pub(crate) parameters: Value,
    pub(crate) run: RunLength,
}

impl CallReplay {
    pub(crate) fn new(error: &StrategyError, context: CallContext, call: RecordedCall) -> Self {
        Self {
            format: FORMAT,
            plugin: error.strategy.clone(),
            kind: context.kind,
            source: context.source,
            function: error.function.to_owned(),
            reason: error.reason.to_string(),
            limits: context.limits,
            parameters: context.parameters,
            run: context.run,
            call,
        }
    }

    /// Reads a replay file.
    ///
    /// # Errors
    /// When it cannot be read, or does not hold a call that this program could make.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let failed = |reason: String| ReplayError {
            path: path.to_owned(),
            reason,
        };
        let size = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if !size.is_file() || size.len() > BYTES {
            return Err(failed("is not a replay file".to_owned()));
        }
        let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let mut replay: Self = serde_json::from_str(&text)
            .map_err(|error| failed(format!("is not a replay file: {error}")))?;
        if replay.format != FORMAT {
            let reason = format!(
                "has format {}, but this program reads format {FORMAT}",
                replay.format
            );
            return Err(failed(reason));
        }
        replay.call.check().map_err(failed)?;
        replay.limits = replay.limits.clamped();
        Ok(replay)
    }

    /// Writes the replay to a new file in `folder`, which is created if it does not exist.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let (path, file) = self.create(folder)?;
        let mut out = io::BufWriter::new(file);
        serde_json::to_writer(&mut out, self)?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(path)
    }

    fn create(&self, folder: &Path) -> io::Result<(PathBuf, File)> {
        for number in 1..=FILES {
            // The plugin's name has no characters with a meaning in a path.
            let name = format!("{}-{}-{number}.json", self.plugin.name, self.function);
            let path = folder.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other.map(|file| (path, file)),
            }
        }
        Err(io::Error::other(format!(
            "{FILES} replays of it are already in {}",
            folder.display()
        )))
    }
}

impl RecordedCall {
    /// Checks that a run could make this call, since a file may hold anything.
    fn check(&self) -> Result<(), String> {
        let sound = match self {
            Self::Plan { pass } | Self::Pick { pass, .. } => {
                let buckets = (pass.lhs_partitions as usize)
                    .checked_mul(pass.rhs_partitions as usize)
                    .filter(|&buckets| buckets > 0);
                buckets == Some(pass.edges.len())
                    && pass.lhs_bytes.len() == pass.lhs_partitions as usize
                    && pass.rhs_bytes.len() == pass.rhs_partitions as usize
            }
            Self::Draw {
                counts, batch_size, ..
            } => {
                let total = counts
                    .iter()
                    .try_fold(0_u64, |sum, &count| sum.checked_add(count));
                total.is_some() && *batch_size > 0
            }
            Self::Distribution { candidates } => {
                candidates.seen <= candidates.entities
                    && u64::from(candidates.seen) <= candidates.edges
            }
            Self::Select { chunk } => {
                let (edges, pool) = (chunk.replaced.len(), chunk.candidates.len());
                chunk.negatives > 0
                    && [&chunk.relations, &chunk.kept].map(Vec::len) == [edges; 2]
                    && chunk
                        .candidates
                        .iter()
                        .all(|&entity| entity < chunk.entities)
                    && chunk.scores.as_ref().is_none_or(|scores| {
                        scores.positives.len() == edges
                            && [&scores.means, &scores.highest].map(Vec::len) == [pool; 2]
                    })
            }
            Self::Factor {
                position: SchedulePosition { epoch, start, end },
            } => 0.0 <= *start && start <= epoch && epoch <= end && end.is_finite(),
            Self::Build | Self::Update { .. } => true,
            Self::Evaluate {
                positive,
                negative,
                columns,
                parameters: _,
            } => {
                let rows = positive.0.len();
                rows > 0 && rows.checked_mul(*columns) == Some(negative.0.len())
            }
        };
        if sound {
            Ok(())
        } else {
            Err("holds a call that no run makes: its numbers contradict each other".to_owned())
        }
    }
}
