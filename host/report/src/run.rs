//! Report of a training run, from the lines of its `metrics.jsonl`.

use pbg_core::event::{
    CallSeconds, DiskIo, Event, EventLine, GroupSeconds, PartitionIo, RankStats, TrainStats,
};
use pbg_core::graph::Bucket;
use pbg_core::plan::PlanCost;
use pbg_core::schedule::PassId;
use serde::Serialize;

mod passes;

pub use passes::MeasuredPass;

/// Report of a run so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// Names and values of dataset, model and plugins.
    pub summary: Vec<(String, String)>,
    /// Plans, in order.
    pub plans: Vec<PlannedPass>,
    /// Trained buckets, in order.
    pub buckets: Vec<BucketRow>,
    /// Settlements of a distributed run, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settlements: Vec<SettlementRow>,
    /// Trained epochs, in order.
    pub epochs: Vec<EpochRow>,
    /// Ranks of validation edges, in order, with the number of epochs trained before.
    pub validation: Vec<(u32, RankStats)>,
    /// Duration in seconds of each validation, with the number of epochs trained before.
    pub validation_seconds: Vec<(u32, f64)>,
}

/// Planned pass.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedPass {
    /// Identifier of the pass.
    pub pass: PassId,
    /// Name of the bucket order.
    pub order: String,
    /// Predicted cost of the plan.
    pub cost: PlanCost,
}

/// Trained bucket.
#[derive(Clone, Debug, Serialize)]
pub struct BucketRow {
    /// Pass in which the bucket was trained.
    pub pass: PassId,
    /// The bucket.
    pub bucket: Bucket,
    /// Sums over its edges.
    pub stats: TrainStats,
    /// Quality on held-out edges before it was trained.
    pub eval_before: Option<RankStats>,
    /// Seconds of training.
    pub seconds: f64,
    /// Partition traffic.
    pub io: PartitionIo,
    /// Name of the trainer, in distributed runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trainer: Option<String>,
    /// Time at which the bucket was finished, in seconds since 1970 by the clock of its trainer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// Seconds from its lease to the start of training, in distributed runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_seconds: Option<f64>,
}

/// Buckets that the ledger of a distributed run has recorded.
#[derive(Clone, Debug, Serialize)]
pub struct SettlementRow {
    /// Name of the trainer.
    pub trainer: String,
    /// Time of the record, in seconds since 1970 by the clock of the trainer.
    pub at: f64,
    /// The buckets.
    pub buckets: Vec<Bucket>,
    /// Seconds in which their partitions were written.
    pub write_seconds: f64,
    /// Seconds after that until the ledger had recorded them.
    pub ledger_seconds: f64,
}

impl SettlementRow {
    /// Returns the row for a line; `None` if it reports something else, or its trainer or time is missing.
    fn of(line: &EventLine) -> Option<Self> {
        let Event::BucketsSettled {
            buckets,
            write_seconds,
            ledger_seconds,
            ..
        } = &line.event
        else {
            return None;
        };
        Some(Self {
            trainer: line.trainer.clone()?,
            at: line.at?,
            buckets: buckets.clone(),
            write_seconds: *write_seconds,
            ledger_seconds: *ledger_seconds,
        })
    }
}

/// Trained epoch.
#[derive(Clone, Debug, Serialize)]
pub struct EpochRow {
    /// Number of the epoch, counted from 0.
    pub epoch: u32,
    /// Sums over its edges.
    pub stats: TrainStats,
    /// Quality on held-out edges.
    pub eval_before: Option<RankStats>,
    /// Seconds, including waiting.
    pub seconds: f64,
    /// Seconds spent in calls of strategies.
    pub calls: CallSeconds,
    /// Partition traffic.
    pub io: PartitionIo,
    /// Bytes written and read in fact, if the run recorded them.
    pub disk: Option<DiskIo>,
    /// Peak main memory of the process until the end of the epoch, in bytes.
    pub peak_bytes: Option<u64>,
    /// Times of each group of the pipeline.
    pub groups: Vec<GroupSeconds>,
}

impl RunReport {
    /// Creates the report from the events of a run.
    #[must_use]
    pub fn new(summary: Vec<(String, String)>, lines: &[EventLine]) -> Self {
        let mut report = Self {
            summary,
            ..Self::default()
        };
        lines.iter().for_each(|line| report.add(line));
        report
    }

    /// Adds an event if the report shows it.
    fn add(&mut self, line: &EventLine) {
        match &line.event {
            Event::PassPlanned {
                pass, order, cost, ..
            } => self.plans.push(PlannedPass {
                pass: *pass,
                order: order.clone(),
                cost: *cost,
            }),
            &Event::BucketFinished {
                pass,
                bucket,
                stats,
                eval_before,
                seconds,
                io,
                leased_seconds,
                ..
            } => self.buckets.push(BucketRow {
                leased_seconds,
                pass,
                bucket,
                stats,
                eval_before,
                seconds,
                io,
                trainer: line.trainer.clone(),
                at: line.at,
            }),
            Event::BucketsSettled { .. } => self.settlements.extend(SettlementRow::of(line)),
            Event::EpochFinished {
                epoch,
                stats,
                eval_before,
                seconds,
                calls,
                io,
                disk,
                peak_bytes,
                groups,
            } => {
                self.epochs.push(EpochRow {
                    peak_bytes: *peak_bytes,
                    epoch: *epoch,
                    stats: *stats,
                    eval_before: *eval_before,
                    seconds: *seconds,
                    calls: *calls,
                    io: *io,
                    disk: *disk,
                    groups: groups.clone(),
                });
            }
            Event::Validated {
                epochs,
                ranks,
                seconds,
                ..
            } => {
                self.validation.push((*epochs, *ranks));
                self.validation_seconds.push((*epochs, *seconds));
            }
            _ => {}
        }
    }

    /// Returns the peak main memory in bytes of all processes of the run.
    #[must_use]
    pub fn peak_bytes(&self) -> Option<u64> {
        self.epochs
            .iter()
            .filter_map(|epoch| epoch.peak_bytes)
            .max()
    }

    /// Returns the times of each group of the pipeline, summed over all epochs.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupSeconds> {
        let mut sums: Vec<GroupSeconds> = Vec::new();
        for times in self.epochs.iter().flat_map(|epoch| &epoch.groups) {
            match sums.iter_mut().find(|sum| sum.group == times.group) {
                Some(sum) => sum.add(times),
                None => sums.push(times.clone()),
            }
        }
        sums
    }

    /// Returns the fraction of the time of finished epochs that was spent in the bucket order and the relation sampler.
    #[must_use]
    pub fn calls_share(&self) -> f64 {
        let mut calls = CallSeconds::default();
        let mut seconds = 0.0;
        for epoch in &self.epochs {
            calls.add(&epoch.calls);
            seconds += epoch.seconds;
        }
        calls.share(seconds)
    }

    /// Returns the buckets of `pass` in the order in which they were trained.
    pub fn buckets_of(&self, pass: PassId) -> impl Iterator<Item = &BucketRow> {
        self.buckets.iter().filter(move |row| row.pass == pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_lab::grid::GraphSizes;
    use pbg_lab::stall::{DeviceRates, LoadPolicy};

    fn bucket(position: u64, lhs: u32, rhs: u32, loads: u64) -> EventLine {
        EventLine::from(Event::BucketFinished {
            pass: PassId::default(),
            bucket: Bucket::new(lhs, rhs),
            position,
            index: position,
            stats: TrainStats {
                count: 5,
                loss: 1.0,
                ..TrainStats::default()
            },
            eval_before: None,
            eval_after: None,
            lr: None,
            leased_seconds: None,
            seconds: 2.0,
            io: PartitionIo {
                loads,
                wait_seconds: 0.5,
                ..PartitionIo::default()
            },
        })
    }

    #[test]
    fn a_complete_pass_is_put_on_its_clock() {
        let first = GraphSizes {
            entities: 100,
            edges: 20,
            dimension: 4,
            ..GraphSizes::default()
        }
        .pass(2, None, 2, 0);
        let events = [bucket(0, 0, 0, 1), bucket(1, 0, 1, 1), bucket(2, 1, 0, 0)];
        assert!(
            RunReport::new(Vec::new(), &events)
                .last_pass(&first)
                .is_none()
        );
        let mut events = events.to_vec();
        events.push(bucket(3, 1, 1, 0));
        let report = RunReport::new(Vec::new(), &events);
        let pass = report.last_pass(&first).unwrap();
        assert!(pass.as_replayed);
        assert_eq!(
            (pass.seconds, pass.stalls.len(), pass.transfers.len()),
            (10.0, 4, 2)
        );
        assert_eq!(pass.transfers[1].enters, 3.0);
    }

    /// Two loads of 1000 bytes at 100 bytes/s; training takes 2 s for each bucket.
    #[test]
    fn stalls_of_a_limited_disk_are_predicted() {
        let first = GraphSizes {
            entities: 100,
            edges: 20,
            dimension: 4,
            ..GraphSizes::default()
        }
        .pass(2, None, 2, 0);
        let events = [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0)];
        let events = (0..).zip(events);
        let events: Vec<EventLine> = events
            .map(|(position, (lhs, rhs, loads))| bucket(position, lhs, rhs, loads))
            .collect();
        let report = RunReport::new(Vec::new(), &events);
        let disk = DeviceRates {
            read: 100.0,
            write: 100.0,
            ..DeviceRates::default()
        };
        let predicted = |loading| report.predicted_stall(&first, 0, &disk, loading);
        assert_eq!(predicted(LoadPolicy::OnDemand), Some(20.0));
        // The second partition is read while the first bucket is trained.
        assert_eq!(predicted(LoadPolicy::Ahead), Some(18.0));
        assert_eq!(
            report.predicted_stall(&first, 1, &disk, LoadPolicy::Ahead),
            None
        );
    }
}
