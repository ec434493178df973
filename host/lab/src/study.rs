//! Comparison of orders by training with them.

use std::collections::{BTreeMap, BTreeSet};

use pbg_core::event::{DiskIo, Event, PartitionIo, TrainStats};
use serde::{Deserialize, Serialize};

/// Results of training with several orders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Settings that all runs share: dataset, model, budget.
    pub setting: Vec<(String, String)>,
    /// Results of each order, in the order given by the user.
    pub orders: Vec<OrderRuns>,
}

/// The runs of one order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderRuns {
    /// Name of the order as given by the user.
    pub order: String,
    /// One run for each seed.
    pub runs: Vec<SeedRun>,
}

/// The run of one order with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedRun {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the run among those of the order with this seed, from 1. With several workers they differ.
    #[serde(default = "first_repeat")]
    pub repeat: u32,
    /// Fingerprint of what was trained. Runs with different fingerprints are not comparable.
    pub fingerprint: String,
    /// Identities of the data that the run was trained and ranked on: the dictionaries and each edge set.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// Settings outside the fingerprint that may change results or times: plugins, workers, reading ahead, program,
    /// processor.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// One point for each trained epoch.
    pub epochs: Vec<EpochPoint>,
}

const fn first_repeat() -> u32 {
    1
}

impl Default for SeedRun {
    /// Creates the first run of seed 0, without epochs.
    fn default() -> Self {
        Self {
            seed: 0,
            repeat: first_repeat(),
            fingerprint: String::new(),
            data: BTreeMap::new(),
            settings: BTreeMap::new(),
            epochs: Vec::new(),
        }
    }
}

/// Figures of a run after an epoch: totals of the run so far, unless a field says that it is of this epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochPoint {
    /// Number of epochs trained.
    pub epoch: u32,
    /// Total number of edges trained.
    pub edges: u64,
    /// Total seconds of training, including waits for the disk.
    pub seconds: f64,
    /// Total seconds for which training waited for partitions and edges.
    pub stall_seconds: f64,
    /// The same as predicted for the speeds to which the disk was limited, from the measured speed of training; `None`
    /// if the disk was not limited.
    #[serde(default)]
    pub predicted_stall_seconds: Option<f64>,
    /// Total seconds for which training waited for commits.
    #[serde(default)]
    pub commit_seconds: f64,
    /// Total bytes of partitions that entered the buffer.
    #[serde(default)]
    pub bytes_read: u64,
    /// Total bytes of trained partitions that left the buffer.
    #[serde(default)]
    pub bytes_written: u64,
    /// Total bytes written and read in fact.
    #[serde(default)]
    pub disk: DiskIo,
    /// Mean loss per edge in this epoch.
    pub loss: f64,
    /// Filtered mean reciprocal rank after this epoch.
    pub mrr: f64,
    /// Share of filtered ranks that are at most 10, after this epoch.
    pub hits_at_10: f64,
    /// Partition loads in this epoch as predicted from the plans.
    pub predicted_loads: u64,
    /// Loads into a full buffer in this epoch, as predicted from the plans.
    pub predicted_swaps: u64,
    /// Actual partition loads in this epoch.
    pub loads: u64,
}

/// Measurements of an epoch that its events do not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct EpochMeasurements {
    /// Filtered mean reciprocal rank after the epoch.
    pub mrr: f64,
    /// Share of filtered ranks that are at most 10.
    pub hits_at_10: f64,
    /// Bytes written and read in fact, the commit at the end included.
    pub disk: DiskIo,
    /// Seconds of waiting for partitions as predicted for a limited disk.
    pub predicted_stall: Option<f64>,
}

impl EpochPoint {
    /// Returns the total bytes of partitions that entered and left the buffer.
    #[must_use]
    pub fn io_bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }

    /// Returns the actual loads into a full buffer in this epoch: all loads except those that the plans predicted for filling it.
    #[must_use]
    pub fn swaps(&self) -> u64 {
        let fill = self.predicted_loads.saturating_sub(self.predicted_swaps);
        self.loads.saturating_sub(fill)
    }

    /// Whether the actual loads are as the plans predicted.
    #[must_use]
    pub fn as_predicted(&self) -> bool {
        self.loads == self.predicted_loads
    }
}

impl SeedRun {
    /// Describes the differences between `data` and the data of the run.
    #[must_use]
    pub fn other_data(&self, data: &BTreeMap<String, String>) -> Vec<String> {
        other_values(&self.data, data)
    }

    /// Describes the differences between `settings` and those of the run.
    #[must_use]
    pub fn other_settings(&self, settings: &BTreeMap<String, String>) -> Vec<String> {
        other_values(&self.settings, settings)
    }

    /// Appends a point for an epoch from the events of `metrics.jsonl`. Totals continue from the previous point.
    /// Returns whether the events included the end of the epoch.
    pub fn add_epoch<'a>(
        &mut self,
        epoch: u32,
        events: impl IntoIterator<Item = &'a Event>,
        measured: &EpochMeasurements,
    ) -> bool {
        let mut point = self.epochs.last().copied().unwrap_or_default();
        (point.predicted_loads, point.predicted_swaps) = (0, 0);
        let mut finished: Option<(TrainStats, f64, PartitionIo)> = None;
        for event in events {
            match event {
                Event::PassPlanned { pass, cost, .. } if pass.epoch == epoch => {
                    point.predicted_loads += cost.loads;
                    point.predicted_swaps += cost.swaps;
                }
                Event::EpochFinished {
                    epoch: of,
                    stats,
                    seconds,
                    io,
                    ..
                } if *of == epoch => {
                    finished = Some((*stats, *seconds, *io));
                }
                _ => {}
            }
        }
        let Some((stats, seconds, io)) = finished else {
            return false;
        };
        point.epoch = epoch + 1;
        point.edges += stats.count;
        point.seconds += seconds;
        point.stall_seconds += io.wait_seconds;
        point.commit_seconds += io.commit_seconds;
        if let Some(seconds) = measured.predicted_stall {
            *point.predicted_stall_seconds.get_or_insert_default() += seconds;
        }
        point.bytes_read += io.bytes_read;
        point.bytes_written += io.bytes_written;
        point.disk.add(&measured.disk);
        point.loss = stats.mean_loss();
        point.loads = io.loads;
        (point.mrr, point.hits_at_10) = (measured.mrr, measured.hits_at_10);
        self.epochs.push(point);
        true
    }
}

/// Describes how values differ from those that `known` has.
fn other_values(known: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    if known.is_empty() && !now.is_empty() {
        return vec!["they are not recorded".to_owned()];
    }
    let keys: BTreeSet<_> = known.keys().chain(now.keys()).collect();
    let shown = |of: &BTreeMap<String, String>, key: &String| {
        of.get(key).map_or_else(|| "none".to_owned(), Clone::clone)
    };
    keys.into_iter()
        .filter(|key| known.get(*key) != now.get(*key))
        .map(|key| format!("{key}: {}, not {}", shown(now, key), shown(known, key)))
        .collect()
}

impl OrderRuns {
    /// Returns the first run of every seed.
    pub fn seeds(&self) -> impl Iterator<Item = &SeedRun> {
        self.runs.iter().filter(|run| run.repeat == first_repeat())
    }

    /// Returns a figure of the last epoch for every run of a seed that was trained more than once; empty if none was.
    #[must_use]
    pub fn repeated(&self, figure: impl Fn(&EpochPoint) -> f64) -> Vec<f64> {
        let again = self.runs.iter().find(|run| run.repeat > first_repeat());
        let Some(seed) = again.map(|run| run.seed) else {
            return Vec::new();
        };
        let runs = self.runs.iter().filter(|run| run.seed == seed);
        runs.filter_map(|run| run.epochs.last())
            .map(figure)
            .collect()
    }

    /// Returns a figure of the last epoch of the first run of every seed.
    #[must_use]
    pub fn last(&self, figure: impl Fn(&EpochPoint) -> f64) -> Vec<f64> {
        self.seeds()
            .filter_map(|run| run.epochs.last())
            .map(figure)
            .collect()
    }

    /// Returns the epochs whose actual loads differ from the predicted ones, each with the seed of its run.
    pub fn mispredicted_epochs(&self) -> impl Iterator<Item = (u64, &EpochPoint)> {
        self.runs
            .iter()
            .flat_map(|run| run.epochs.iter().map(move |point| (run.seed, point)))
            .filter(|(_, point)| !point.as_predicted())
    }
}

/// Returns the mean and the sample standard deviation of `values`, or zeros if there are none.
#[must_use]
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}

/// Returns the standard deviation within `samples`, which have means of their own; 0 if each has one value at most.
#[must_use]
pub fn pooled_deviation(samples: &[Vec<f64>]) -> f64 {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for sample in samples {
        let degrees = sample.len().saturating_sub(1) as f64;
        squares += mean_and_deviation(sample).1.powi(2) * degrees;
        freedom += degrees;
    }
    match freedom {
        0.0 => 0.0,
        freedom => (squares / freedom).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::event::{CallSeconds, StoredBytes};
    use pbg_core::plan::PlanCost;
    use pbg_core::schedule::PassId;

    use super::*;

    fn events(epoch: u32, predicted: u64, loads: u64) -> [Event; 2] {
        let planned = Event::PassPlanned {
            pass: PassId {
                epoch,
                ..PassId::default()
            },
            order: "x 1".to_owned(),
            buckets: 4,
            cost: PlanCost {
                loads: predicted,
                swaps: predicted - 2,
                bytes: 0,
            },
        };
        let finished = Event::EpochFinished {
            epoch,
            stats: TrainStats {
                count: 100,
                loss: 50.0,
                ..TrainStats::default()
            },
            eval_before: None,
            seconds: 2.0,
            calls: CallSeconds::default(),
            io: PartitionIo {
                loads,
                bytes_read: 10,
                bytes_written: 5,
                wait_seconds: 0.5,
                ..PartitionIo::default()
            },
            disk: None,
            peak_bytes: None,
            groups: Vec::new(),
        };
        [planned, finished]
    }

    #[test]
    fn epochs_add_up() {
        let mut run = SeedRun::default();
        let measured = |mrr, predicted_stall, committed| EpochMeasurements {
            mrr,
            hits_at_10: 2.0 * mrr,
            predicted_stall,
            disk: DiskIo {
                stored: StoredBytes {
                    evicted: 1,
                    committed,
                },
                process: None,
            },
        };
        assert!(run.add_epoch(0, &events(0, 7, 7), &measured(0.1, Some(1.5), 5)));
        assert!(run.add_epoch(1, &events(1, 5, 6), &measured(0.2, Some(0.5), 6)));
        assert!(!run.add_epoch(2, &events(1, 5, 5), &measured(0.2, None, 7)));
        let last = run.epochs[1];
        assert_eq!(
            (last.epoch, last.edges, last.io_bytes(), last.seconds),
            (2, 200, 30, 4.0)
        );
        assert_eq!((last.predicted_swaps, last.swaps()), (3, 4));
        assert_eq!(last.predicted_stall_seconds, Some(2.0));
        let stored = last.disk.stored;
        assert_eq!((stored.evicted, stored.committed), (2, 11));
        let runs = OrderRuns {
            order: "x".to_owned(),
            runs: vec![run],
        };
        assert_eq!(runs.mispredicted_epochs().count(), 1);
        assert_eq!(runs.last(|point| point.mrr), [0.2]);
    }

    #[test]
    fn a_run_without_recorded_settings_may_have_had_any() {
        let of = |workers: &str| BTreeMap::from([("workers".to_owned(), workers.to_owned())]);
        let mut run = SeedRun::default();
        assert_eq!(run.other_settings(&of("1")), ["they are not recorded"]);
        run.settings = of("2");
        assert_eq!(run.other_settings(&of("1")), ["workers: 1, not 2"]);
        assert!(run.other_settings(&of("2")).is_empty());
    }

    #[test]
    fn spread_of_a_sample() {
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, 2.0_f64.sqrt()));
        assert_eq!(mean_and_deviation(&[5.0]), (5.0, 0.0));
        assert_eq!(mean_and_deviation(&[]), (0.0, 0.0));
        // Variances 2 and 8, with one degree of freedom each: their means do not matter.
        let samples = [vec![1.0, 3.0], vec![100.0, 104.0], vec![7.0]];
        assert!((pooled_deviation(&samples) - 5.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(pooled_deviation(&[vec![7.0]]), 0.0);
    }
}
