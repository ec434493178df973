//! Statistics of events: edges, losses, ranks, partition I/O and times.

use serde::{Deserialize, Serialize};

/// Sums over trained edges; divide by `count` for means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainStats {
    /// Number of edges.
    pub count: u64,
    /// Sum of losses of both sides, weighted, without regularisation.
    pub loss: f64,
    /// Sum of the regularisation terms.
    pub reg: f64,
    /// Number of negatives of the left side that scored strictly above their positive.
    pub violators_lhs: u64,
    /// Number of negatives of the right side that scored strictly above their positive.
    pub violators_rhs: u64,
}

impl TrainStats {
    /// Adds the statistics of other edges.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.loss += other.loss;
        self.reg += other.reg;
        self.violators_lhs += other.violators_lhs;
        self.violators_rhs += other.violators_rhs;
    }

    /// Returns the loss per edge; 0 without edges.
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
    /// Number of edges.
    pub count: u64,
    /// Loss per edge, if it is computed, which it is not if all entities or a sample of them are candidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Mean rank of the positive, ties counted as the average rank.
    pub mean_rank: f64,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// Fraction of ranks of at most 1.
    pub hits_at_1: f64,
    /// Fraction of ranks of at most 3.
    pub hits_at_3: f64,
    /// Fraction of ranks of at most 10.
    pub hits_at_10: f64,
    /// Fraction of ranks of at most 50.
    pub hits_at_50: f64,
    /// Probability that a positive scores above a negative.
    pub auc: f64,
}

impl RankStats {
    /// Returns the means over two sets of edges, weighted by their counts.
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
            loss: match (self.loss, other.loss) {
                (Some(x), Some(y)) => Some(mean(x, y)),
                (loss, None) if other.count == 0 => loss,
                (None, loss) if self.count == 0 => loss,
                _ => None,
            },
            mean_rank: mean(self.mean_rank, other.mean_rank),
            mrr: mean(self.mrr, other.mrr),
            hits_at_1: mean(self.hits_at_1, other.hits_at_1),
            hits_at_3: mean(self.hits_at_3, other.hits_at_3),
            hits_at_10: mean(self.hits_at_10, other.hits_at_10),
            hits_at_50: mean(self.hits_at_50, other.hits_at_50),
            auc: mean(self.auc, other.auc),
        }
    }

    /// Whether every number is finite. JSON cannot represent the others.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        let Self {
            count: _,
            loss,
            mean_rank,
            mrr,
            hits_at_1,
            hits_at_3,
            hits_at_10,
            hits_at_50,
            auc,
        } = self;
        [
            mean_rank, mrr, hits_at_1, hits_at_3, hits_at_10, hits_at_50, auc,
        ]
        .into_iter()
        .chain(loss)
        .all(|number| number.is_finite())
    }
}

/// Partitions that entered and left the buffer, and the time that training waited. These figures follow from the plan:
/// they do not depend on how often a run commits or is stopped ([`DiskIo`] does).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionIo {
    /// Number of partitions that entered the buffer.
    pub loads: u64,
    /// Number of partitions that left the buffer changed.
    pub writes: u64,
    /// Bytes of the partitions that entered, read or newly initialised.
    pub bytes_read: u64,
    /// Bytes of the partitions that left, written then or by an earlier commit.
    pub bytes_written: u64,
    /// Seconds that training waited for partitions and edges.
    pub wait_seconds: f64,
    /// Seconds that training waited for commits.
    #[serde(default)]
    pub commit_seconds: f64,
}

impl PartitionIo {
    /// Adds more I/O.
    pub fn add(&mut self, other: &Self) {
        self.loads += other.loads;
        self.writes += other.writes;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.wait_seconds += other.wait_seconds;
        self.commit_seconds += other.commit_seconds;
    }

    /// Returns the total number of seconds that training waited.
    #[must_use]
    pub fn waited(&self) -> f64 {
        self.wait_seconds + self.commit_seconds
    }
}

/// Bytes that the buffer passed to storage to be written, each table when it is written in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBytes {
    /// Bytes of partitions that left the buffer with changes that no commit had written.
    pub evicted: u64,
    /// Bytes of tables that commits wrote: trained partitions that were in the buffer, and tables that are always in
    /// memory.
    pub committed: u64,
}

impl StoredBytes {
    /// Returns the bytes since `earlier`, a previous reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            evicted: self.evicted.saturating_sub(earlier.evicted),
            committed: self.committed.saturating_sub(earlier.committed),
        }
    }

    /// Adds more bytes.
    pub fn add(&mut self, other: &Self) {
        self.evicted = self.evicted.saturating_add(other.evicted);
        self.committed = self.committed.saturating_add(other.committed);
    }
}

/// Bytes that this process has read and written, as the system counts them: partitions, edges, parameters, metrics and
/// everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIo {
    /// Bytes that system calls read, from the page cache or the disk.
    pub read: u64,
    /// Bytes that system calls wrote, to the page cache or the disk.
    pub written: u64,
    /// Bytes that were read from the disk, because the page cache lacked them.
    pub device_read: u64,
    /// Bytes that were to be written to the disk, when or after the page cache received them.
    pub device_written: u64,
}

impl ProcessIo {
    /// Returns the bytes since `earlier`, a previous reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            read: self.read.saturating_sub(earlier.read),
            written: self.written.saturating_sub(earlier.written),
            device_read: self.device_read.saturating_sub(earlier.device_read),
            device_written: self.device_written.saturating_sub(earlier.device_written),
        }
    }

    /// Adds more bytes.
    pub fn add(&mut self, other: &Self) {
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.device_read = self.device_read.saturating_add(other.device_read);
        self.device_written = self.device_written.saturating_add(other.device_written);
    }
}

/// Bytes that were written and read in fact. Unlike [`PartitionIo`], they depend on commits, interruptions and the page
/// cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskIo {
    /// Bytes passed to storage.
    #[serde(flatten)]
    pub stored: StoredBytes,
    /// Bytes that the process read and wrote, where the system reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIo>,
}

impl DiskIo {
    /// Returns the bytes since `earlier`, a previous reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let process = self.process.zip(earlier.process);
        Self {
            stored: self.stored.since(&earlier.stored),
            process: process.map(|(now, earlier)| now.since(&earlier)),
        }
    }

    /// Adds what else was written and read. What one of them lacks is taken as 0.
    pub fn add(&mut self, other: &Self) {
        self.stored.add(&other.stored);
        if let Some(process) = &other.process {
            self.process.get_or_insert_default().add(process);
        }
    }
}

/// Time that training spent in calls of bucket orders and relation samplers, in seconds, including the checks of their
/// results. Losses are part of the training step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallSeconds {
    /// Time in the bucket order, for which all workers wait.
    pub order: f64,
    /// Time in the relation sampler, per worker.
    pub sampler: f64,
}

impl CallSeconds {
    /// Adds more time.
    pub fn add(&mut self, other: &Self) {
        self.order += other.order;
        self.sampler += other.sampler;
    }

    /// Returns the sum of both as a fraction of `seconds` of training.
    #[must_use]
    pub fn share(&self, seconds: f64) -> f64 {
        if seconds > 0.0 {
            (self.order + self.sampler) / seconds
        } else {
            0.0
        }
    }
}

/// Times of a group of the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupSeconds {
    /// Name of the group.
    pub group: String,
    /// Seconds that it worked.
    pub busy: f64,
    /// Seconds that it waited for input, because its pipes were empty.
    pub input: f64,
    /// Seconds that it waited for output, because its pipes were full.
    pub output: f64,
}

impl GroupSeconds {
    /// Adds more time of the same group.
    pub fn add(&mut self, other: &Self) {
        self.busy += other.busy;
        self.input += other.input;
        self.output += other.output;
    }

    /// Returns the time since `earlier`, a previous reading of the same group.
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
