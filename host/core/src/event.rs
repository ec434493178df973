//! Events of a run. The training loop emits them; the terminal, `metrics.jsonl` and `--progress json` read the same
//! stream.

mod ranks;
mod stats;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::ranks::RankTotals;
pub use self::stats::{
    CallSeconds, DiskIo, GroupSeconds, PartitionIo, ProcessIo, RankStats, StoredBytes, TrainStats,
};
use crate::graph::Bucket;
use crate::plan::PlanCost;
use crate::schedule::PassId;

/// Importance of a line that a plugin logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// For the plugin's author.
    Debug,
    /// For the user who trains.
    Info,
    /// Something is unusual, but training continues.
    Warn,
    /// Explains the failure that follows.
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

/// Event of a run. Events are emitted in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Training starts or resumes.
    RunStarted {
        /// Total number of epochs.
        epochs: u32,
        /// Number of passes per epoch.
        passes_per_epoch: u32,
        /// Number of buckets per pass.
        buckets: u64,
        /// Number of edges of one epoch, including held-out ones.
        edges_per_epoch: u64,
        /// Number of Hogwild workers.
        workers: u32,
        /// Position at which an earlier run stopped.
        resumed: Option<Resumed>,
    },
    /// The dataset has entities or relations that it did not have when the checkpoint was committed. Rows and
    /// parameters were initialised for them.
    Grown {
        /// Number of new rows by entity type: of entities, or of features of a featurized type.
        rows: BTreeMap<String, u64>,
        /// Number of new relations.
        relations: u64,
    },
    /// Embeddings of an entity type start from the vectors of a file.
    VectorsRead {
        /// Name of the entity type.
        entity_type: String,
        /// File of the vectors.
        file: String,
        /// Number of vectors in the file.
        vectors: u64,
        /// Number of entities, or of features of a featurized type, that have a vector.
        taken: u64,
        /// Number of all entities or features of the type.
        rows: u64,
        /// Whether vectors were matched to entities by name, instead of by the order of ids.
        by_name: bool,
        /// Whether the embeddings are not trained.
        frozen: bool,
    },
    /// A file of vectors was not read, because the checkpoint has the embeddings of the type.
    VectorsIgnored {
        /// Name of the entity type.
        entity_type: String,
        /// File of the vectors.
        file: String,
    },
    /// Training continues with other edges than before, as requested.
    DataChanged {
        /// Descriptions of the changes.
        changes: Vec<String>,
    },
    /// A bucket order planned a pass.
    PassPlanned {
        /// The pass.
        #[serde(flatten)]
        pass: PassId,
        /// Name and version of the bucket order.
        order: String,
        /// Number of buckets in the plan.
        buckets: u64,
        /// Partition loads of the plan.
        #[serde(flatten)]
        cost: PlanCost,
    },
    /// A bucket's partitions and edges are in memory.
    BucketStarted {
        /// The pass.
        #[serde(flatten)]
        pass: PassId,
        /// The bucket.
        #[serde(flatten)]
        bucket: Bucket,
        /// Its position in the plan.
        position: u64,
        /// Number of edges to train.
        edges: u64,
        /// Learning rate of embeddings, if it follows a schedule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lr: Option<f32>,
    },
    /// Some edges of the current bucket were trained.
    Progress {
        /// Edges trained in this bucket so far.
        edges: u64,
        /// Mean loss of this bucket so far.
        loss: f64,
    },
    /// A bucket has been trained.
    BucketFinished {
        /// The pass.
        #[serde(flatten)]
        pass: PassId,
        /// The bucket.
        #[serde(flatten)]
        bucket: Bucket,
        /// Position in the plan.
        position: u64,
        /// Number of buckets trained before it in the whole run.
        index: u64,
        /// Sums over its trained edges.
        stats: TrainStats,
        /// Ranks of the held-out edges before it was trained.
        #[serde(skip_serializing_if = "Option::is_none")]
        eval_before: Option<RankStats>,
        /// Ranks of the held-out edges after it was trained.
        #[serde(skip_serializing_if = "Option::is_none")]
        eval_after: Option<RankStats>,
        /// Duration of training in seconds.
        seconds: f64,
        /// Partition I/O before and during training.
        io: PartitionIo,
        /// Learning rate of embeddings, if it follows a schedule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lr: Option<f32>,
        /// Seconds from its lease to the start of training, if several trainers train.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leased_seconds: Option<f64>,
    },
    /// The ledger has recorded trained buckets, whose partitions are durable. The time of the line is that of the
    /// record.
    BucketsSettled {
        /// The pass.
        #[serde(flatten)]
        pass: PassId,
        /// The buckets.
        buckets: Vec<Bucket>,
        /// Seconds in which their partitions were written.
        write_seconds: f64,
        /// Seconds after that until the ledger had recorded them.
        ledger_seconds: f64,
        /// Number of transactions of this trainer that the ledger has refused since the previous event of this kind.
        refusals: u64,
        /// Duration in seconds of the last exchange of shared parameters, if the model has any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exchange_seconds: Option<f64>,
    },
    /// All passes of an epoch are trained.
    EpochFinished {
        /// Epoch, from 0.
        epoch: u32,
        /// Sums over its trained edges.
        stats: TrainStats,
        /// Ranks of held-out edges, each measured before its bucket was trained.
        #[serde(skip_serializing_if = "Option::is_none")]
        eval_before: Option<RankStats>,
        /// Duration of the epoch in seconds, as far as this process trained it.
        seconds: f64,
        /// Seconds of these that were spent in strategies.
        #[serde(default)]
        calls: CallSeconds,
        /// Partition I/O of the epoch.
        io: PartitionIo,
        /// Bytes written and read in fact since the previous epoch, in a run of a single trainer. The commit at the end of
        /// the epoch counts in the next one of the same process. Of a process that was stopped within the epoch, what its
        /// last commit knew counts: tables up to and with that commit, and system calls until it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disk: Option<DiskIo>,
        /// Peak resident memory of the process so far in bytes, if the system reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak_bytes: Option<u64>,
        /// Times of each group of the pipeline, as far as this process trained the epoch.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupSeconds>,
    },
    /// The validation edges were ranked.
    Validated {
        /// Number of epochs trained so far.
        epochs: u32,
        /// Name of the edge set.
        edges: String,
        /// Filtered ranks of both sides.
        ranks: RankStats,
        /// Whether its MRR is the highest so far.
        best: bool,
        /// Factor of the learning rates from here on.
        lr_factor: f32,
        /// Seconds for which training was paused.
        seconds: f64,
    },
    /// The run ends before its last epoch, because validation no longer improved.
    StoppedEarly {
        /// Number of epochs trained so far.
        epochs: u32,
        /// Number of epochs trained at the best validation.
        best_epoch: u32,
        /// MRR of the best validation.
        best_mrr: f64,
    },
    /// A complete checkpoint is on disk.
    Committed {
        /// Version number.
        version: u64,
        /// Seconds for which training was paused.
        seconds: f64,
        /// Seconds spent writing its tables in parallel with training.
        #[serde(default)]
        writing_seconds: f64,
    },
    /// A copy of the checkpoint is kept.
    Preserved {
        /// Number of epochs trained so far.
        epoch: u32,
    },
    /// A plugin logged a line.
    PluginLog {
        /// Name of the plugin.
        plugin: String,
        /// Importance.
        level: LogLevel,
        /// The text, without control characters.
        message: String,
    },
    /// A plugin failed, and the run continues with the standard plugin of its slot.
    PluginFault {
        /// Name and version of the plugin.
        plugin: String,
        /// Function that was called.
        function: String,
        /// Reason of the failure.
        reason: String,
        /// Name and version of its fallback.
        fallback: String,
    },
    /// The first lease waits for more trainers.
    Gathering {
        /// Number of trainers that have joined.
        here: u32,
        /// Number of trainers that it waits for.
        wanted: u32,
    },
    /// A trainer of the same rank is still in the ledger but silent, because it was stopped or has died. This trainer
    /// waits until the other is considered dead.
    RankHeld {
        /// The rank.
        rank: u32,
        /// Longest wait in seconds.
        seconds: f64,
    },
    /// Trainers have removed a partition server that was silent. Partitions that only it had are trained again from the
    /// newest checkpoint.
    ServerLost {
        /// Address of the server.
        address: String,
        /// Seconds since it was last heard.
        silent_seconds: f64,
    },
    /// Another trainer was silent for too long and has been removed. The buckets that it had not settled are to do
    /// again.
    TrainerLost {
        /// Name of the trainer.
        name: String,
        /// Rank, if the trainer was started with one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rank: Option<u32>,
        /// Seconds without a message from it.
        silent_seconds: f64,
        /// Its buckets, which will be trained again.
        buckets: Vec<Bucket>,
    },
    /// The ledger did not match the newest checkpoint and was replaced by a new one made from it. The work since the
    /// checkpoint is to do again.
    LedgerReplaced {
        /// Reason for which the old ledger was dropped.
        reason: String,
        /// Version number of the checkpoint; 0 if there is none.
        version: u64,
    },
    /// This trainer was removed from the run by others. It drops its tables and joins again.
    Rejoining {
        /// Reason.
        reason: String,
    },
    /// Events that trainers have reported are missing from their files or cannot be read. Reports lack them.
    EventsLost {
        /// Number of bytes lost.
        bytes: u64,
    },
    /// The ledger does not respond. Nothing can be leased, settled or committed until it does.
    LedgerSilent {
        /// Error of the last attempt.
        what: String,
        /// Seconds without a reply so far.
        seconds: f64,
        /// Least number of seconds for which this trainer will still wait for a reply.
        patience_seconds: f64,
    },
    /// The ledger responds again.
    LedgerAnswers {
        /// Seconds without a reply.
        seconds: f64,
    },
    /// This trainer, which has started the ledger's server, reports an observation or an action.
    LedgerServer {
        /// The report, as a sentence.
        what: String,
    },
    /// Other trainers have finished the run while this trainer was not part of it.
    FinishedByOthers {
        /// Version number of their last checkpoint.
        version: u64,
    },
    /// The others have stopped the run while this trainer did not take part.
    StoppedByOthers {
        /// Version of their last checkpoint.
        version: u64,
    },
    /// The run was stopped on request before its end.
    Interrupted {
        /// Version number of the checkpoint that contains everything trained so far.
        version: u64,
    },
    /// Every epoch is trained.
    RunFinished {
        /// Number of edges trained by this process.
        edges: u64,
        /// Duration in seconds.
        seconds: f64,
        /// Partition I/O.
        io: PartitionIo,
        /// Bytes written and read in fact by this process, in a run of a single trainer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        disk: Option<DiskIo>,
        /// Seconds of all workers together in each stage of the training step, before them those of selecting negatives.
        #[serde(default)]
        stages: Vec<(String, f64)>,
        /// Version number of the checkpoint.
        version: u64,
    },
}

/// Line of `metrics.jsonl`: an event, and if there are several trainers, its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// Name of the trainer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainer: Option<String>,
    /// Time by the trainer's clock, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// Revision of the ledger; for an event of a bucket, that of its lease. Buckets that need the same partition are
    /// trained in the order of their revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

impl From<Event> for EventLine {
    fn from(event: Event) -> Self {
        Self {
            event,
            trainer: None,
            at: None,
            revision: None,
        }
    }
}

/// Position at which an earlier run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The pass that continues.
    #[serde(flatten)]
    pub pass: PassId,
    /// Number of its buckets that are already done.
    pub done: u64,
    /// Number of edges already trained in the bucket that continues.
    #[serde(default)]
    pub edges: u64,
    /// Bytes that earlier processes wrote and read in fact in the epoch that continues, in a run of a single trainer.
    #[serde(default)]
    pub disk: DiskIo,
    /// Version number of the checkpoint.
    pub version: u64,
}
