//! What a run reports. The training loop emits events; the terminal, `metrics.jsonl` and
//! `--progress json` are readers of the same stream.

mod ranks;
mod stats;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::ranks::RankTotals;
pub use self::stats::{CallSeconds, GroupSeconds, IoStats, RankStats, TrainStats};
use crate::graph::Bucket;
use crate::plan::PlanCost;
use crate::schedule::PassId;

/// How much a line of a plugin matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// For the plugin's author.
    Debug,
    /// For the person who trains.
    Info,
    /// Something is odd, and training goes on.
    Warn,
    /// Explains the fault that follows.
    Error,
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        })
    }
}

/// Everything that happens in a run, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Training starts, or goes on.
    RunStarted {
        /// Epochs to train in all.
        epochs: u32,
        /// Passes per epoch.
        passes_per_epoch: u32,
        /// Buckets per pass.
        buckets: u64,
        /// Edges of one epoch, held-out ones included.
        edges_per_epoch: u64,
        /// Hogwild workers.
        workers: u32,
        /// Where an earlier run stopped.
        resumed: Option<Resumed>,
    },
    /// The dataset has more than it had when the checkpoint was committed: rows and parameters were
    /// drawn for it.
    Grown {
        /// New rows by entity type: entities, or features of a featurized type.
        rows: BTreeMap<String, u64>,
        /// New relations.
        relations: u64,
    },
    /// Training goes on with other edges than those before, as it was asked to.
    DataChanged {
        /// What is not as it was.
        changes: Vec<String>,
    },
    /// A bucket order planned a pass.
    PassPlanned {
        /// Which pass.
        #[serde(flatten)]
        pass: PassId,
        /// Name and version of the order.
        order: String,
        /// Buckets in the plan.
        buckets: u64,
        /// What the plan will load.
        #[serde(flatten)]
        cost: PlanCost,
    },
    /// A bucket's partitions and edges are in memory.
    BucketStarted {
        /// Which pass.
        #[serde(flatten)]
        pass: PassId,
        /// Which bucket.
        #[serde(flatten)]
        bucket: Bucket,
        /// Its position in the plan.
        position: u64,
        /// Edges that will be trained.
        edges: u64,
    },
    /// Some edges of the current bucket were trained.
    Progress {
        /// Edges trained in this bucket so far.
        edges: u64,
        /// Mean loss of this bucket so far.
        loss: f64,
    },
    /// A bucket is trained.
    BucketFinished {
        /// Which pass.
        #[serde(flatten)]
        pass: PassId,
        /// Which bucket.
        #[serde(flatten)]
        bucket: Bucket,
        /// Position in the plan.
        position: u64,
        /// Number of buckets trained before it in the whole run.
        index: u64,
        /// Sums over its trained edges.
        stats: TrainStats,
        /// Quality on the held-out edges before it was trained.
        #[serde(skip_serializing_if = "Option::is_none")]
        eval_before: Option<RankStats>,
        /// The same afterwards.
        #[serde(skip_serializing_if = "Option::is_none")]
        eval_after: Option<RankStats>,
        /// Seconds of training.
        seconds: f64,
        /// Traffic before and during it.
        io: IoStats,
    },
    /// All passes of an epoch are trained.
    EpochFinished {
        /// Epoch, from 0.
        epoch: u32,
        /// Sums over its trained edges.
        stats: TrainStats,
        /// Quality on held-out edges, each measured before its bucket was trained.
        #[serde(skip_serializing_if = "Option::is_none")]
        eval_before: Option<RankStats>,
        /// Seconds of the epoch, as far as this process trained it.
        seconds: f64,
        /// What of them went to strategies.
        #[serde(default)]
        calls: CallSeconds,
        /// Traffic of the epoch.
        io: IoStats,
        /// The most main memory that the process has occupied by then, where the system tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak_bytes: Option<u64>,
        /// Where the time of each group of the pipeline went, as far as this process trained the epoch.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupSeconds>,
    },
    /// The validation edges were ranked.
    Validated {
        /// Epochs trained by then.
        epochs: u32,
        /// Edge set.
        edges: String,
        /// Filtered ranks of both sides.
        ranks: RankStats,
        /// Whether its MRR is the highest so far.
        best: bool,
        /// What learning rates are multiplied by from here on.
        lr_factor: f32,
        /// Seconds that training stood still for it.
        seconds: f64,
    },
    /// The run ends before its last epoch: validation did not get better any more.
    StoppedEarly {
        /// Epochs trained by then.
        epochs: u32,
        /// Epochs that were trained when it was best.
        best_epoch: u32,
        /// The MRR then.
        best_mrr: f64,
    },
    /// A checkpoint is on disk, complete.
    Committed {
        /// Its version.
        version: u64,
        /// Seconds that training stood still for it.
        seconds: f64,
        /// Seconds that writing its tables took beside training.
        #[serde(default)]
        writing_seconds: f64,
    },
    /// A copy of the checkpoint is kept.
    Preserved {
        /// Epochs trained by then.
        epoch: u32,
    },
    /// A plugin said something.
    PluginLog {
        /// Which plugin.
        plugin: String,
        /// How much it matters.
        level: LogLevel,
        /// The text, without control characters.
        message: String,
    },
    /// A plugin failed, and the run goes on with the standard one of its slot.
    PluginFault {
        /// Name and version of the plugin.
        plugin: String,
        /// In which call.
        function: String,
        /// What happened.
        reason: String,
        /// Name and version of its fallback.
        fallback: String,
    },
    /// The first bucket waits for more trainers.
    Gathering {
        /// Trainers that take part so far.
        here: u32,
        /// How many it waits for.
        wanted: u32,
    },
    /// A trainer of the same rank has not said anything since it was stopped or died: it is waited for until it counts as
    /// dead.
    RankHeld {
        /// The rank.
        rank: u32,
        /// How long it is waited for at most.
        seconds: f64,
    },
    /// Another trainer was silent for too long: its part has ended, and what it had not settled is to do again.
    TrainerLost {
        /// What people call it.
        name: String,
        /// Its rank, where it was started with one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rank: Option<u32>,
        /// How long nothing was heard of it.
        silent_seconds: f64,
        /// Its buckets, which will be trained again.
        buckets: Vec<Bucket>,
    },
    /// The ledger did not go with the newest checkpoint, and a new one was made of that: what was trained since is to do
    /// again.
    LedgerReplaced {
        /// What was wrong with it.
        reason: String,
        /// Version of the checkpoint; 0 without one.
        version: u64,
    },
    /// This trainer's part was ended by others. It drops its tables and joins anew.
    Rejoining {
        /// Why.
        reason: String,
    },
    /// Events that trainers have told of are not in their files any more, or cannot be read: reports lack them.
    EventsLost {
        /// Bytes.
        bytes: u64,
    },
    /// The ledger does not answer: nothing can be leased, settled or committed until it does.
    LedgerSilent {
        /// What the last attempt said.
        what: String,
        /// Seconds without an answer so far.
        seconds: f64,
        /// Seconds that an answer is still waited for, at least.
        patience_seconds: f64,
    },
    /// The ledger answers again.
    LedgerAnswers {
        /// Seconds without an answer.
        seconds: f64,
    },
    /// What this trainer, which has started the server of the ledger, has seen of it or done about it.
    LedgerServer {
        /// What, in a sentence.
        what: String,
    },
    /// Others have finished the run while this trainer did not take part.
    FinishedByOthers {
        /// Version of their last checkpoint.
        version: u64,
    },
    /// The others have stopped the run while this trainer did not take part.
    StoppedByOthers {
        /// Version of their last checkpoint.
        version: u64,
    },
    /// The run stopped before its end because it was asked to.
    Interrupted {
        /// Version of the checkpoint that holds everything trained so far.
        version: u64,
    },
    /// Every epoch is trained.
    RunFinished {
        /// Edges trained by this process.
        edges: u64,
        /// Its seconds.
        seconds: f64,
        /// Its traffic.
        io: IoStats,
        /// Seconds of all workers together in each stage of the training step.
        #[serde(default)]
        stages: Vec<(String, f64)>,
        /// Version of the checkpoint.
        version: u64,
    },
}

/// A line of `metrics.jsonl`: what happened, and who tells it where several trainers take part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// What people call the trainer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainer: Option<String>,
    /// When, by the trainer's clock, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// The revision of the ledger: of a bucket, that at which it was leased. Buckets that need a partition in common
    /// follow each other in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

impl From<Event> for Line {
    fn from(event: Event) -> Self {
        Self {
            event,
            trainer: None,
            at: None,
            revision: None,
        }
    }
}

/// Where an earlier run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The pass that goes on.
    #[serde(flatten)]
    pub pass: PassId,
    /// Buckets of it that are already done.
    pub done: u64,
    /// Edges that are already trained of the bucket that goes on.
    #[serde(default)]
    pub edges: u64,
    /// Version of the checkpoint.
    pub version: u64,
}
