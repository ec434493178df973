//! Prediction of stalls: a timeline of a plan, given the speeds of computing and of the disk.

use serde::{Deserialize, Serialize};

use crate::replay::{BufferReplay, PartitionLoad};
use crate::structure::cell;
use pbg_core::graph::Bucket;
use pbg_core::strategy::Pass;

/// Speeds of training and of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    /// Edges trained per second.
    pub edges: f64,
    /// Bytes read per second.
    pub read: f64,
    /// Bytes written per second.
    pub write: f64,
}

impl Default for DeviceRates {
    /// Assumptions for an unknown machine: 400,000 edges/s, 400 MB/s.
    fn default() -> Self {
        Self {
            edges: 400_000.0,
            read: 400e6,
            write: 400e6,
        }
    }
}

/// When partitions are loaded. The disk performs one operation at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadPolicy {
    /// When a bucket needs a partition that is not in the buffer. The evicted partition is written, then the new one is
    /// read, and nothing is trained meanwhile.
    OnDemand,
    /// As this program's partition buffer does with `execution.prefetch`. The partitions for the next bucket that lacks
    /// some are read while earlier buckets are trained, into memory outside of the buffer. Evicted partitions are
    /// written while that bucket is trained.
    Ahead,
}

/// An interval of time, in seconds from the start of the pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Start time.
    pub start: f64,
    /// End time.
    pub end: f64,
}

impl Interval {
    /// Returns the duration in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.end - self.start
    }
}

/// Times of one load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Interval in which the new partition is read.
    pub read: Interval,
    /// Interval in which the evicted partition is written.
    pub write: Interval,
    /// Time at which the evicted partition leaves its slot.
    pub leaves: f64,
    /// Time from which the new partition can be trained.
    pub enters: f64,
}

/// Timeline of a pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassTimeline {
    /// Times of each load of the replay.
    pub transfers: Vec<Transfer>,
    /// Interval in which each bucket of the plan is trained.
    pub buckets: Vec<Interval>,
}

impl PassTimeline {
    /// Computes the timeline of a replayed plan.
    #[must_use]
    pub fn new(
        pass: &Pass,
        plan: &[Bucket],
        replay: &BufferReplay,
        rates: &DeviceRates,
        loading: LoadPolicy,
    ) -> Self {
        let mut clock = Self::default();
        let mut loads = replay
            .loads
            .chunk_by(|a, b| a.position == b.position)
            .peekable();
        let mut disk = Disk {
            rates: *rates,
            free: 0.0,
        };
        let mut now = 0.0_f64;
        // Start of the last bucket that lacked a partition. Reads for the next such bucket begin then.
        let mut last_began = 0.0_f64;
        for (position, &bucket) in plan.iter().enumerate() {
            let lacks = loads.next_if(|loads| loads[0].position == position);
            let lacks = lacks.unwrap_or_default();
            let start = match (lacks, loading) {
                ([], _) => now,
                (_, LoadPolicy::OnDemand) => clock.on_demand(&mut disk, lacks, now),
                (_, LoadPolicy::Ahead) => clock.ahead(&mut disk, lacks, now, last_began),
            };
            if !lacks.is_empty() {
                last_began = start;
            }
            now = start + pass.edges[cell(pass, bucket)] as f64 / rates.edges;
            clock.buckets.push(Interval { start, end: now });
        }
        clock
    }

    /// Loads the partitions `lacks` of a bucket from time `now` on. Returns the time at which all are loaded.
    fn on_demand(&mut self, disk: &mut Disk, lacks: &[PartitionLoad], now: f64) -> f64 {
        for load in lacks {
            let write = disk.write(load, now);
            let read = disk.read(load, now);
            self.transfers.push(Transfer {
                read,
                write,
                leaves: write.start,
                enters: read.end,
            });
        }
        disk.free.max(now)
    }

    /// Loads the partitions `lacks` of a bucket. Reads may begin at `from`; the bucket's predecessor ends at `now`.
    /// Returns the time at which the bucket begins.
    fn ahead(&mut self, disk: &mut Disk, lacks: &[PartitionLoad], now: f64, from: f64) -> f64 {
        let reads: Vec<Interval> = lacks.iter().map(|load| disk.read(load, from)).collect();
        let start = disk.free.max(now);
        for (load, read) in lacks.iter().zip(reads) {
            let write = disk.write(load, now);
            self.transfers.push(Transfer {
                read,
                write,
                leaves: now,
                enters: start,
            });
        }
        start
    }

    /// Returns the intervals in which training stalls.
    pub fn stalls(&self) -> impl Iterator<Item = Interval> + '_ {
        let ends = [0.0].into_iter().chain(self.buckets.iter().map(|b| b.end));
        ends.zip(&self.buckets)
            .map(|(start, bucket)| Interval {
                start,
                end: bucket.start,
            })
            .filter(|span| span.seconds() > 0.0)
    }

    /// Returns the total duration of the stalls in seconds.
    #[must_use]
    pub fn stalled(&self) -> f64 {
        self.stalls().map(|span| span.seconds()).sum()
    }

    /// Returns the end time of the last bucket in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.buckets.last().map_or(0.0, |bucket| bucket.end)
    }
}

/// A disk that performs its operations one after the other.
struct Disk {
    rates: DeviceRates,
    /// Time at which all operations so far have ended.
    free: f64,
}

impl Disk {
    fn read(&mut self, load: &PartitionLoad, from: f64) -> Interval {
        self.work(load.read_bytes as f64 / self.rates.read, from)
    }

    fn write(&mut self, load: &PartitionLoad, from: f64) -> Interval {
        self.work(load.written_bytes as f64 / self.rates.write, from)
    }

    fn work(&mut self, seconds: f64, from: f64) -> Interval {
        let start = self.free.max(from);
        self.free = start + seconds;
        Interval {
            start,
            end: self.free,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_pass_and_plan;

    const RATES: DeviceRates = DeviceRates {
        edges: 1.0,
        read: 10.0,
        write: 20.0,
    };

    fn clock(pass: &Pass, plan: &[Bucket], loading: LoadPolicy) -> (BufferReplay, PassTimeline) {
        let replay = BufferReplay::new(pass, plan, pass.buffer_partitions);
        let clock = PassTimeline::new(pass, plan, &replay, &RATES, loading);
        (replay, clock)
    }

    proptest! {
        #[test]
        fn without_looking_ahead_every_load_is_waited_for((pass, plan) in any_pass_and_plan()) {
            let (replay, clock) = clock(&pass, &plan, LoadPolicy::OnDemand);
            let io = replay.read_bytes() as f64 / 10.0 + replay.written_bytes() as f64 / 20.0;
            prop_assert!((clock.stalled() - io).abs() < 1e-6, "{} {io}", clock.stalled());
            let edges: u64 = pass.edges.iter().sum();
            prop_assert!((clock.seconds() - io - edges as f64).abs() < 1e-6);
        }

        #[test]
        fn looking_ahead_hides_some_of_it_and_breaks_no_rule((pass, plan) in any_pass_and_plan()) {
            let (_, demand) = clock(&pass, &plan, LoadPolicy::OnDemand);
            let (replay, ahead) = clock(&pass, &plan, LoadPolicy::Ahead);
            prop_assert!(ahead.stalled() <= demand.stalled() + 1e-6);
            prop_assert_eq!(replay.loads.len(), ahead.transfers.len());
            for (load, transfer) in replay.loads.iter().zip(&ahead.transfers) {
                let start = ahead.buckets[load.position].start;
                prop_assert!(transfer.read.end <= start + 1e-9 && transfer.enters <= start + 1e-9);
                if let Some(last) = load.last_used {
                    prop_assert!(transfer.write.start >= ahead.buckets[last].end - 1e-9);
                }
            }
            let spans = ahead.transfers.iter().flat_map(|t| [t.read, t.write]);
            let mut spans: Vec<Interval> = spans.filter(|span| span.seconds() > 0.0).collect();
            spans.sort_by(|a, b| a.start.total_cmp(&b.start));
            prop_assert!(spans.windows(2).all(|w| w[0].end <= w[1].start + 1e-9));
        }
    }
}
