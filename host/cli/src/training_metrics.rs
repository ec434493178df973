//! Figures of a run in the format of OpenMetrics.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use pbg_core::event::{Event, PartitionIo};
use pbg_core::lock::lock;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

type Seconds = Counter<f64, AtomicU64>;
type Number = Gauge<f64, AtomicU64>;

/// Figures of a run, updated by its events.
#[derive(Debug)]
pub(crate) struct TrainingMetrics {
    registry: Registry,
    work: WorkMetrics,
    traffic: TrafficMetrics,
    cluster: ClusterMetrics,
    progress: ProgressMetrics,
    counted: Mutex<CountedEdges>,
}

/// Edges of buckets that must not be counted again.
#[derive(Debug, Default)]
struct CountedEdges {
    /// Counted edges of the bucket in training.
    here: u64,
    /// Edges that an earlier process has trained in the bucket that continues.
    carried: u64,
}

/// Counts of trained edges and of the time that they took.
#[derive(Debug)]
struct WorkMetrics {
    edges: Counter,
    buckets: Counter,
    seconds: Histogram,
    plugin_faults: Counter,
    checkpoints: Counter,
    checkpoint_seconds: Seconds,
}

/// Counts of transfers of partitions, and of the waits for them.
#[derive(Debug)]
struct TrafficMetrics {
    loads: Counter,
    writes: Counter,
    bytes_read: Counter,
    bytes_written: Counter,
    partition_wait: Seconds,
    checkpoint_wait: Seconds,
}

/// Figures of a distributed run.
#[derive(Debug)]
struct ClusterMetrics {
    settled: Counter,
    write_seconds: Histogram,
    ledger_seconds: Histogram,
    lease_seconds: Histogram,
    refusals: Counter,
    exchange_seconds: Number,
    is_silent: Gauge,
    trainers_removed: Counter,
    servers_removed: Counter,
    rejoins: Counter,
}

/// Position and quality of a run.
#[derive(Debug)]
struct ProgressMetrics {
    epoch: Gauge,
    epochs: Gauge,
    version: Gauge,
    loss: Number,
    rate: Number,
    mrr: Number,
    hits_at_10: Number,
    peak_bytes: Gauge,
}

impl TrainingMetrics {
    /// Creates figures that are all zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("pbg_host");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the program", version);
        Self {
            work: WorkMetrics::new(&mut registry),
            traffic: TrafficMetrics::new(&mut registry),
            cluster: ClusterMetrics::new(&mut registry),
            progress: ProgressMetrics::new(&mut registry),
            counted: Mutex::default(),
            registry,
        }
    }

    /// Updates the figures.
    pub(crate) fn event(&self, event: &Event) {
        self.work.event(event);
        self.traffic.event(event);
        self.cluster.event(event);
        self.progress.event(event);
        self.count_edges(event);
    }

    /// Counts edges while a bucket is trained, each once.
    fn count_edges(&self, event: &Event) {
        let mut counted = lock(&self.counted);
        let (now, next) = match event {
            Event::RunStarted { resumed, .. } => {
                counted.carried = resumed.map_or(0, |resumed| resumed.edges);
                return;
            }
            Event::BucketStarted { .. } => {
                counted.here = std::mem::take(&mut counted.carried);
                return;
            }
            Event::Progress { edges, .. } => (*edges, *edges),
            Event::BucketFinished { stats, .. } => (stats.count, 0),
            _ => return,
        };
        self.work.edges.inc_by(now.saturating_sub(counted.here));
        counted.here = next;
    }

    /// Returns all figures as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _written = text::encode(&mut text, &self.registry);
        text
    }
}

/// Registers a metric and returns it.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a metric in seconds or bytes and returns it.
fn add_in<M: Metric + Clone>(
    registry: &mut Registry,
    (name, unit): (&str, Unit),
    help: &str,
    metric: M,
) -> M {
    registry.register_with_unit(name, help, unit, metric.clone());
    metric
}

/// Returns a histogram of durations from `first` seconds to 4^9 times as long.
fn durations(first: f64) -> Histogram {
    Histogram::new(exponential_buckets(first, 4.0, 10))
}

impl WorkMetrics {
    fn new(to: &mut Registry) -> Self {
        Self {
            edges: add(to, "edges_trained", "Trained edges", Counter::default()),
            buckets: add(to, "buckets_trained", "Trained buckets", Counter::default()),
            seconds: add_in(
                to,
                ("bucket_training", Unit::Seconds),
                "Time in which a bucket was trained",
                durations(0.01),
            ),
            plugin_faults: add(
                to,
                "plugin_faults",
                "Failed plugins that standard ones replaced",
                Counter::default(),
            ),
            checkpoints: add(to, "checkpoints", "Written checkpoints", Counter::default()),
            checkpoint_seconds: add_in(
                to,
                ("checkpoint_pause", Unit::Seconds),
                "Time for which training was paused for checkpoints",
                Seconds::default(),
            ),
        }
    }

    fn event(&self, event: &Event) {
        match event {
            Event::BucketFinished { seconds, .. } => {
                self.buckets.inc();
                self.seconds.observe(*seconds);
            }
            Event::Committed { seconds, .. } => {
                self.checkpoints.inc();
                self.checkpoint_seconds.inc_by(*seconds);
            }
            Event::PluginFault { .. } => {
                self.plugin_faults.inc();
            }
            _ => {}
        }
    }
}

impl TrafficMetrics {
    fn new(to: &mut Registry) -> Self {
        Self {
            loads: add(
                to,
                "partitions_loaded",
                "Partitions that entered the buffer",
                Counter::default(),
            ),
            writes: add(
                to,
                "partitions_written",
                "Partitions that left the buffer changed",
                Counter::default(),
            ),
            bytes_read: add_in(
                to,
                ("partitions_read", Unit::Bytes),
                "Bytes of partitions that entered the buffer",
                Counter::default(),
            ),
            bytes_written: add_in(
                to,
                ("partitions_written", Unit::Bytes),
                "Bytes of partitions that left the buffer changed",
                Counter::default(),
            ),
            partition_wait: add_in(
                to,
                ("partition_wait", Unit::Seconds),
                "Time for which training waited for partitions and edges",
                Seconds::default(),
            ),
            checkpoint_wait: add_in(
                to,
                ("checkpoint_wait", Unit::Seconds),
                "Time for which training waited for checkpoints",
                Seconds::default(),
            ),
        }
    }

    fn event(&self, event: &Event) {
        if let Event::BucketFinished { io, .. } = event {
            let PartitionIo {
                loads,
                writes,
                bytes_read,
                bytes_written,
                wait_seconds,
                commit_seconds,
            } = io;
            self.loads.inc_by(*loads);
            self.writes.inc_by(*writes);
            self.bytes_read.inc_by(*bytes_read);
            self.bytes_written.inc_by(*bytes_written);
            self.partition_wait.inc_by(*wait_seconds);
            self.checkpoint_wait.inc_by(*commit_seconds);
        }
    }
}

impl ClusterMetrics {
    fn new(to: &mut Registry) -> Self {
        let counter = |to: &mut Registry, name, help| add(to, name, help, Counter::default());
        let histogram = |to: &mut Registry, name, help| {
            add_in(to, (name, Unit::Seconds), help, durations(0.001))
        };
        Self {
            settled: counter(
                to,
                "buckets_settled",
                "Buckets that the ledger has recorded",
            ),
            write_seconds: histogram(
                to,
                "settlement_writing",
                "Time in which the partitions of a settlement were written",
            ),
            ledger_seconds: histogram(
                to,
                "ledger_transaction",
                "Time until the ledger had recorded a settlement",
            ),
            lease_seconds: histogram(
                to,
                "lease_to_training",
                "Time from the lease of a bucket to the start of its training",
            ),
            refusals: counter(
                to,
                "ledger_refusals",
                "Transactions that the ledger has refused, because other trainers were faster",
            ),
            exchange_seconds: add_in(
                to,
                ("parameter_exchange", Unit::Seconds),
                "Duration of the last exchange of shared parameters",
                Number::default(),
            ),
            is_silent: add(
                to,
                "ledger_silent",
                "1 while the ledger does not answer, otherwise 0",
                Gauge::default(),
            ),
            trainers_removed: counter(
                to,
                "trainers_removed",
                "Silent trainers that this one has removed",
            ),
            servers_removed: counter(
                to,
                "partition_servers_removed",
                "Silent partition servers that this trainer has removed",
            ),
            rejoins: counter(
                to,
                "rejoins",
                "How often this trainer was removed and joined again",
            ),
        }
    }

    fn event(&self, event: &Event) {
        match event {
            Event::BucketFinished {
                leased_seconds: Some(seconds),
                ..
            } => self.lease_seconds.observe(*seconds),
            Event::BucketsSettled {
                buckets,
                write_seconds,
                ledger_seconds,
                refusals,
                exchange_seconds,
                ..
            } => {
                self.settled.inc_by(buckets.len() as u64);
                self.write_seconds.observe(*write_seconds);
                self.ledger_seconds.observe(*ledger_seconds);
                self.refusals.inc_by(*refusals);
                if let Some(seconds) = exchange_seconds {
                    self.exchange_seconds.set(*seconds);
                }
            }
            Event::LedgerSilent { .. } => {
                self.is_silent.set(1);
            }
            Event::LedgerAnswers { .. } => {
                self.is_silent.set(0);
            }
            Event::TrainerLost { .. } => {
                self.trainers_removed.inc();
            }
            Event::ServerLost { .. } => {
                self.servers_removed.inc();
            }
            Event::Rejoining { .. } => {
                self.rejoins.inc();
            }
            _ => {}
        }
    }
}

impl ProgressMetrics {
    fn new(to: &mut Registry) -> Self {
        let gauge = |to: &mut Registry, name, help| add(to, name, help, Gauge::default());
        let number = |to: &mut Registry, name, help| add(to, name, help, Number::default());
        Self {
            epoch: gauge(to, "epoch", "Epoch in training, counted from 1"),
            epochs: gauge(to, "epochs", "Epochs of the configuration"),
            version: gauge(to, "checkpoint_version", "Version of the newest checkpoint"),
            loss: number(to, "loss", "Mean loss of the last edges"),
            rate: number(
                to,
                "edges_per_second",
                "Speed in the last bucket, without waits",
            ),
            mrr: number(to, "validation_mrr", "MRR of the last validation"),
            hits_at_10: number(
                to,
                "validation_hits_at_10",
                "Hits@10 of the last validation",
            ),
            peak_bytes: add_in(
                to,
                ("memory_peak", Unit::Bytes),
                "Largest memory of the process at the end of the last epoch",
                Gauge::default(),
            ),
        }
    }

    fn event(&self, event: &Event) {
        match event {
            Event::RunStarted { epochs, .. } => {
                self.epochs.set(i64::from(*epochs));
            }
            Event::BucketStarted { pass, .. } => {
                self.epoch.set(i64::from(pass.epoch) + 1);
            }
            Event::Progress { loss, .. } => {
                self.loss.set(*loss);
            }
            Event::BucketFinished { stats, seconds, .. } if stats.count > 0 => {
                self.loss.set(stats.mean_loss());
                if *seconds > 0.0 {
                    self.rate.set(stats.count as f64 / seconds);
                }
            }
            Event::EpochFinished {
                peak_bytes: Some(bytes),
                ..
            } => {
                self.peak_bytes
                    .set(i64::try_from(*bytes).unwrap_or(i64::MAX));
            }
            Event::Validated { ranks, .. } => {
                self.mrr.set(ranks.mrr);
                self.hits_at_10.set(ranks.hits_at_10);
            }
            Event::Committed { version, .. } => {
                self.version
                    .set(i64::try_from(*version).unwrap_or(i64::MAX));
            }
            _ => {}
        }
    }
}
