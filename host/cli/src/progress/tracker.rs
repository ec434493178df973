//! Derives the position and speed of a run from its events.

use std::collections::VecDeque;
use std::time::Duration;

use pbg_core::event::{Event, PartitionIo, Resumed};
use pbg_core::graph::Bucket;
use pbg_core::schedule::PassId;

/// Window over which speed and time left are measured.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of samples in the window, which bounds the work per event.
const MAX_SAMPLES: usize = 512;

/// State of a run, derived from its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracker {
    epochs: u32,
    passes_per_epoch: u32,
    buckets: u64,
    edges_per_epoch: u64,
    pass: PassId,
    first_pass: Option<PassId>,
    pass_in_epoch: u32,
    current: Option<(Bucket, u64)>,
    /// Number of edges of finished epochs.
    base: f64,
    epoch_trained: u64,
    /// Whether an earlier process trained the beginning of this epoch.
    partial_epoch: bool,
    bucket_trained: u64,
    /// Number of edges of the resumed bucket that an earlier process trained.
    carried: u64,
    /// Ratio of all edges to trained edges: above 1 if some are held out. Known after the first epoch.
    scale: f64,
    loss: Option<f64>,
    /// Scheduled learning rate of the last bucket that began.
    lr: Option<f32>,
    io: PartitionIo,
    samples: VecDeque<(Duration, f64)>,
}

impl Tracker {
    /// Updates the state with an event at time `now`, measured from any fixed moment.
    pub(crate) fn event(&mut self, event: &Event, now: Duration) {
        match event {
            Event::RunStarted {
                epochs,
                passes_per_epoch,
                buckets,
                edges_per_epoch,
                resumed,
                ..
            } => {
                *self = Self {
                    epochs: *epochs,
                    passes_per_epoch: (*passes_per_epoch).max(1),
                    buckets: (*buckets).max(1),
                    edges_per_epoch: *edges_per_epoch,
                    scale: 1.0,
                    ..Self::default()
                };
                resumed.iter().for_each(|resumed| self.resume(resumed));
                self.sample(now);
            }
            Event::PassPlanned { pass, .. } => self.enter(*pass),
            Event::BucketStarted {
                pass,
                bucket,
                position,
                lr,
                ..
            } => {
                self.enter(*pass);
                self.lr = *lr;
                self.current = Some((*bucket, *position));
                self.bucket_trained = std::mem::take(&mut self.carried);
            }
            Event::Progress { edges, loss } => {
                self.bucket_trained = *edges;
                self.loss = Some(*loss);
                self.sample(now);
            }
            Event::BucketFinished { stats, io, .. } => {
                self.epoch_trained += stats.count;
                self.bucket_trained = 0;
                if stats.count > 0 {
                    self.loss = Some(stats.mean_loss());
                }
                self.io.add(io);
                self.sample(now);
            }
            Event::EpochFinished { epoch, stats, .. } => {
                self.end_epoch(*epoch, stats.count);
                self.sample(now);
            }
            Event::BucketsSettled { .. }
            | Event::Committed { .. }
            | Event::Validated { .. }
            | Event::StoppedEarly { .. }
            | Event::Preserved { .. }
            | Event::Grown { .. }
            | Event::VectorsRead { .. }
            | Event::VectorsIgnored { .. }
            | Event::DataChanged { .. }
            | Event::Gathering { .. }
            | Event::RankHeld { .. }
            | Event::TrainerLost { .. }
            | Event::ServerLost { .. }
            | Event::LedgerReplaced { .. }
            | Event::Rejoining { .. }
            | Event::EventsLost { .. }
            | Event::LedgerSilent { .. }
            | Event::LedgerAnswers { .. }
            | Event::LedgerServer { .. }
            | Event::FinishedByOthers { .. }
            | Event::StoppedByOthers { .. }
            | Event::PluginLog { .. }
            | Event::PluginFault { .. }
            | Event::Interrupted { .. }
            | Event::RunFinished { .. } => {}
        }
    }

    /// Ends an epoch in which `trained` edges were trained.
    fn end_epoch(&mut self, epoch: u32, trained: u64) {
        if trained > 0 && !std::mem::take(&mut self.partial_epoch) {
            self.scale = (self.edges_per_epoch as f64 / trained as f64).max(1.0);
        }
        self.base = f64::from(epoch + 1) * self.edges_per_epoch as f64;
        self.epoch_trained = 0;
        self.current = None;
    }

    /// Counts the edges that earlier processes trained as done.
    fn resume(&mut self, resumed: &Resumed) {
        self.enter(resumed.pass);
        self.base = f64::from(resumed.pass.epoch) * self.edges_per_epoch as f64;
        let passes = f64::from(self.pass_in_epoch) + resumed.done as f64 / self.buckets as f64;
        let share = passes / f64::from(self.passes_per_epoch);
        self.epoch_trained = (share * self.edges_per_epoch as f64) as u64;
        self.partial_epoch = true;
        (self.carried, self.bucket_trained) = (resumed.edges, resumed.edges);
    }

    /// Counts the passes of the epoch. After a resumption the number of the first pass is estimated, since
    /// no event contains the numbers of edge sets and chunks.
    fn enter(&mut self, pass: PassId) {
        if self.first_pass.is_none() {
            self.first_pass = Some(pass);
            self.pass_in_epoch = pass.edge_chunk.min(self.passes_per_epoch.saturating_sub(1));
        } else if pass.epoch != self.pass.epoch {
            self.pass_in_epoch = 0;
        } else if pass != self.pass {
            self.pass_in_epoch += 1;
        }
        self.pass = pass;
    }

    fn sample(&mut self, now: Duration) {
        self.samples.push_back((now, self.done()));
        let is_old = |&(then, _): &(Duration, f64)| then + WINDOW < now;
        while self.samples.len() > MAX_SAMPLES
            || self.samples.len() > 2 && self.samples.front().is_some_and(is_old)
        {
            self.samples.pop_front();
        }
    }

    /// Returns the number of edges that are done in the whole run, held-out edges included.
    pub(crate) fn done(&self) -> f64 {
        let epoch = (self.epoch_trained + self.bucket_trained) as f64 * self.scale;
        (self.base + epoch.min(self.edges_per_epoch as f64)).min(self.total())
    }

    /// Returns the number of edges of the whole run.
    pub(crate) fn total(&self) -> f64 {
        f64::from(self.epochs) * self.edges_per_epoch as f64
    }

    /// Returns the edges per second of the last minute; `None` before the first measurement.
    pub(crate) fn speed(&self) -> Option<f64> {
        let ((begun, before), (now, done)) = (self.samples.front()?, self.samples.back()?);
        let (time, edges) = (now.saturating_sub(*begun).as_secs_f64(), done - before);
        (time > 0.1 && edges > 0.0).then(|| edges / time)
    }

    /// Returns the time until the end of the run at the current speed.
    pub(crate) fn left(&self) -> Option<Duration> {
        Duration::try_from_secs_f64((self.total() - self.done()) / self.speed()?).ok()
    }

    /// Returns the mean loss of the current bucket.
    pub(crate) fn loss(&self) -> Option<f64> {
        self.loss
    }

    /// Returns the learning rate of embeddings, if it follows a schedule.
    pub(crate) fn lr(&self) -> Option<f32> {
        self.lr
    }

    /// Returns the partition traffic of this process.
    pub(crate) const fn io(&self) -> &PartitionIo {
        &self.io
    }

    /// Returns the number of epochs of the run.
    pub(crate) const fn epochs(&self) -> u32 {
        self.epochs
    }

    /// Returns whether `pass` is the first that this process trains.
    pub(crate) fn is_first_pass(&self, pass: PassId) -> bool {
        self.first_pass == Some(pass)
    }

    /// Formats the position as `epoch 2/4`, with the pass and the bucket if there is more than one.
    pub(crate) fn position(&self) -> String {
        let (epochs, passes, buckets) = (self.epochs, self.passes_per_epoch, self.buckets);
        let mut text = format!("epoch {}/{epochs}", (self.pass.epoch + 1).min(epochs));
        if passes > 1 {
            text.push_str(&format!(", pass {}/{passes}", self.pass_in_epoch + 1));
        }
        if let Some((bucket, position)) = self.current.filter(|_| buckets > 1) {
            text.push_str(&format!(", bucket {}/{buckets} {bucket}", position + 1));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::event::{CallSeconds, Resumed, TrainStats};

    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_secs;

    fn started(epochs: u32, passes_per_epoch: u32) -> Event {
        Event::RunStarted {
            epochs,
            passes_per_epoch,
            buckets: 4,
            edges_per_epoch: 1000,
            workers: 2,
            resumed: None,
        }
    }

    fn finished(count: u64) -> Event {
        Event::BucketFinished {
            pass: PassId::default(),
            bucket: Bucket::new(0, 0),
            position: 0,
            index: 0,
            stats: TrainStats {
                count,
                loss: 0.5 * count as f64,
                ..TrainStats::default()
            },
            eval_before: None,
            eval_after: None,
            seconds: 1.0,
            io: PartitionIo {
                loads: 2,
                ..PartitionIo::default()
            },
            lr: None,
            leased_seconds: None,
        }
    }

    fn epoch(epoch: u32, count: u64) -> Event {
        let stats = TrainStats {
            count,
            ..TrainStats::default()
        };
        Event::EpochFinished {
            epoch,
            stats,
            eval_before: None,
            seconds: 1.0,
            calls: CallSeconds::default(),
            io: PartitionIo::default(),
            disk: None,
            peak_bytes: None,
            groups: Vec::new(),
        }
    }

    #[test]
    fn speed_and_time_left() {
        let mut tracker = Tracker::default();
        tracker.event(&started(2, 1), AT(0));
        assert_eq!(tracker.speed(), None);
        tracker.event(
            &Event::Progress {
                edges: 200,
                loss: 0.25,
            },
            AT(2),
        );
        assert_eq!(tracker.speed(), Some(100.0));
        assert_eq!(tracker.left(), Some(AT(18)));
        assert_eq!(tracker.loss(), Some(0.25));
        tracker.event(&finished(250), AT(2));
        assert_eq!((tracker.done(), tracker.io().loads), (250.0, 2));
    }

    #[test]
    fn held_out_edges_do_not_keep_the_bar_from_its_end() {
        let mut tracker = Tracker::default();
        tracker.event(&started(2, 1), AT(0));
        tracker.event(&finished(800), AT(1));
        tracker.event(&epoch(0, 800), AT(1));
        assert_eq!(tracker.done(), 1000.0);
        tracker.event(&finished(400), AT(2));
        assert_eq!(tracker.done(), 1500.0, "800 trained edges stand for 1000");
        tracker.event(&finished(400), AT(2));
        tracker.event(&epoch(1, 800), AT(2));
        assert_eq!(tracker.done(), tracker.total());
    }

    #[test]
    fn a_resumed_run_starts_where_it_was() {
        let mut tracker = Tracker::default();
        let pass = PassId {
            epoch: 1,
            edge_set: 0,
            edge_chunk: 0,
        };
        let resumed = Some(Resumed {
            pass,
            done: 2,
            edges: 50,
            disk: Default::default(),
            version: 7,
        });
        let event = Event::RunStarted {
            epochs: 2,
            passes_per_epoch: 1,
            buckets: 4,
            edges_per_epoch: 1000,
            workers: 1,
            resumed,
        };
        tracker.event(&event, AT(0));
        assert_eq!(tracker.done(), 1550.0);
        let begins = Event::BucketStarted {
            pass,
            bucket: Bucket::new(0, 0),
            position: 2,
            edges: 250,
            lr: None,
        };
        tracker.event(&begins, AT(0));
        assert_eq!(tracker.done(), 1550.0);
        tracker.event(&finished(250), AT(1));
        assert_eq!((tracker.done(), tracker.speed()), (1750.0, Some(200.0)));
    }

    #[test]
    fn the_past_is_forgotten() {
        let mut tracker = Tracker::default();
        tracker.event(&started(1000, 1), AT(0));
        for s in 1..2000 {
            tracker.event(
                &Event::Progress {
                    edges: s / 10,
                    loss: 0.0,
                },
                AT(s),
            );
        }
        assert!(tracker.samples.len() <= 62);
    }

    #[test]
    fn positions() {
        let mut tracker = Tracker::default();
        tracker.event(&started(3, 2), AT(0));
        let pass = PassId {
            epoch: 1,
            edge_set: 0,
            edge_chunk: 1,
        };
        let bucket = Bucket::new(1, 3);
        tracker.event(
            &Event::BucketStarted {
                pass,
                bucket,
                position: 2,
                edges: 9,
                lr: None,
            },
            AT(0),
        );
        assert_eq!(
            tracker.position(),
            format!("epoch 2/3, pass 2/2, bucket 3/4 {bucket}")
        );
    }
}
