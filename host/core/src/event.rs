//! What a run reports. The training loop emits events; the terminal, `metrics.jsonl` and
//! `--progress json` are readers of the same stream.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::graph::Bucket;
use crate::plan::PlanCost;
use crate::schedule::PassId;

/// Sums over trained edges; divide by `count` for means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainStats {
    /// Edges.
    pub count: u64,
    /// Loss, both sides, weighted, without regularisation.
    pub loss: f64,
    /// Regularisation.
    pub reg: f64,
    /// Negatives of the left side that scored strictly above their positive.
    pub violators_lhs: u64,
    /// The same for the right side.
    pub violators_rhs: u64,
}

impl TrainStats {
    /// Adds another part of the same edges' statistics.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.loss += other.loss;
        self.reg += other.reg;
        self.violators_lhs += other.violators_lhs;
        self.violators_rhs += other.violators_rhs;
    }

    /// Loss per edge; 0 without edges.
    #[must_use]
    pub fn mean_loss(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.loss / self.count as f64
        }
    }
}

/// Mean ranking quality of some edges, over both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankStats {
    /// Edges.
    pub count: u64,
    /// Loss per edge.
    pub loss: f64,
    /// Mean rank of the positive, ties counted as the average rank.
    pub mean_rank: f64,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// Share of ranks of at most 1.
    pub hits_at_1: f64,
    /// Share of ranks of at most 3.
    pub hits_at_3: f64,
    /// Share of ranks of at most 10.
    pub hits_at_10: f64,
    /// Share of ranks of at most 50.
    pub hits_at_50: f64,
    /// Probability that a positive scores above a negative.
    pub auc: f64,
}

impl RankStats {
    /// The mean of two groups of edges, weighted by their counts.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        let count = self.count + other.count;
        if count == 0 {
            return Self::default();
        }
        let (a, b) = (
            self.count as f64 / count as f64,
            other.count as f64 / count as f64,
        );
        let mean = |x: f64, y: f64| x * a + y * b;
        Self {
            count,
            loss: mean(self.loss, other.loss),
            mean_rank: mean(self.mean_rank, other.mean_rank),
            mrr: mean(self.mrr, other.mrr),
            hits_at_1: mean(self.hits_at_1, other.hits_at_1),
            hits_at_3: mean(self.hits_at_3, other.hits_at_3),
            hits_at_10: mean(self.hits_at_10, other.hits_at_10),
            hits_at_50: mean(self.hits_at_50, other.hits_at_50),
            auc: mean(self.auc, other.auc),
        }
    }
}

/// Partition traffic, and the time that training stood still. Commits are no traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoStats {
    /// Partitions that entered the buffer.
    pub loads: u64,
    /// Partitions that left the buffer changed.
    pub writes: u64,
    /// Bytes of the former, read or drawn anew.
    pub bytes_read: u64,
    /// Bytes of the latter, written then or by a commit before.
    pub bytes_written: u64,
    /// Seconds that training stood still for partitions and edges.
    pub wait_seconds: f64,
    /// Seconds that training stood still for commits.
    #[serde(default)]
    pub commit_seconds: f64,
}

impl IoStats {
    /// Adds more traffic.
    pub fn add(&mut self, other: &Self) {
        self.loads += other.loads;
        self.writes += other.writes;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.wait_seconds += other.wait_seconds;
        self.commit_seconds += other.commit_seconds;
    }

    /// Seconds that training stood still, for whatever reason.
    #[must_use]
    pub fn stood_still(&self) -> f64 {
        self.wait_seconds + self.commit_seconds
    }
}

/// Time that training spent asking the strategies that choose, in seconds; checking their answers
/// is part of it. Losses are part of the training step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallSeconds {
    /// The bucket order: all workers waited for it.
    pub order: f64,
    /// The relation sampler, per worker.
    pub sampler: f64,
}

impl CallSeconds {
    /// Adds more time.
    pub fn add(&mut self, other: &Self) {
        self.order += other.order;
        self.sampler += other.sampler;
    }

    /// Both together as a share of `seconds` of training.
    #[must_use]
    pub fn share(&self, seconds: f64) -> f64 {
        if seconds > 0.0 {
            (self.order + self.sampler) / seconds
        } else {
            0.0
        }
    }
}

/// Where the time of a group of the pipeline went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupSeconds {
    /// Its name.
    pub group: String,
    /// Seconds that it worked.
    pub busy: f64,
    /// Seconds that it waited for what comes in: its pipes were empty.
    pub input: f64,
    /// Seconds that it waited to hand on what goes out: its pipes were full.
    pub output: f64,
}

impl GroupSeconds {
    /// Adds more time of the same group.
    pub fn add(&mut self, other: &Self) {
        self.busy += other.busy;
        self.input += other.input;
        self.output += other.output;
    }

    /// The time since `earlier`, a reading of the same group.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            group: self.group.clone(),
            busy: self.busy - earlier.busy,
            input: self.input - earlier.input,
            output: self.output - earlier.output,
        }
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
        /// `debug`, `info`, `warn` or `error`.
        level: String,
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
        /// Name and version of what goes on in its place.
        fallback: String,
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

/// Where an earlier run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The pass that goes on.
    #[serde(flatten)]
    pub pass: PassId,
    /// Buckets of it that are already done.
    pub done: u64,
    /// Version of the checkpoint.
    pub version: u64,
}
