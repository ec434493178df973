//! Estimates the duration of an epoch by training a part of it in a temporary folder.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pbg_config::Config;
use pbg_core::event::Event;
use pbg_model::{AllowedChanges, ResolvedConfig};
use pbg_train::Strategies;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::format;
use crate::kind::FailureKind;
use crate::scratch::BenchFolder;

/// Duration of the trial training; the bucket in training at its end is finished.
const DURATION: Duration = Duration::from_secs(10);

/// Measurement of a part of an epoch, and the estimate for the whole epoch.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct EpochTime {
    /// Edges of an epoch.
    edges: u64,
    epochs: u32,
    /// Number of edges trained.
    measured_edges: u64,
    /// Duration in seconds of training them, including reads and writes.
    measured_seconds: f64,
    seconds_per_epoch: f64,
}

/// Trains the beginning of an epoch of `config`, from random embeddings and without validation. Setting `stop`
/// interrupts it.
///
/// # Errors
/// The failure or interruption that ended the training.
pub(super) fn measure(
    mut config: Config,
    strategies: Strategies,
    stop: &AtomicBool,
) -> Result<EpochTime> {
    let folder = BenchFolder::create(Path::new(&config.checkpoint_path))?;
    config.checkpoint_path = folder.path().display().to_string();
    config.init_path = None;
    config.validation.edges = None;
    config.checkpoint_preservation_interval = None;
    // At most one epoch: the next one would read partitions that this one creates, which takes another time.
    config.fix_lr_schedule();
    let epochs = std::mem::replace(&mut config.num_epochs, 1);
    let mut watch = EpochTimer::default();
    pbg_train::train(
        &ResolvedConfig::new(config)?,
        strategies,
        AllowedChanges::default(),
        stop,
        &mut |event| {
            watch.event(&event);
            if watch.is_over() {
                stop.store(true, Ordering::SeqCst);
            }
        },
    )?;
    if stop.load(Ordering::SeqCst) && !watch.is_over() {
        let what = "stopped before enough was measured";
        return Err(Failure::message(FailureKind::Interrupted, what));
    }
    Ok(watch.result(epochs))
}

/// Counter of edges and time from the start of the first bucket to the last event.
#[derive(Default)]
struct EpochTimer {
    started: Option<Instant>,
    edges_per_epoch: u64,
    finished: u64,
    /// Number of trained edges of the current bucket.
    current: u64,
    seconds: f64,
}

impl EpochTimer {
    fn event(&mut self, event: &Event) {
        match event {
            Event::RunStarted {
                edges_per_epoch, ..
            } => {
                self.edges_per_epoch = *edges_per_epoch;
                return;
            }
            Event::BucketStarted { .. } => {
                self.started.get_or_insert_with(pbg_clock::now);
                return;
            }
            Event::Progress { edges, .. } => self.current = *edges,
            Event::BucketFinished { stats, .. } => {
                self.finished += stats.count;
                self.current = 0;
            }
            _ => return,
        }
        self.seconds = self
            .started
            .map_or(0.0, |started| started.elapsed().as_secs_f64());
    }

    fn is_over(&self) -> bool {
        self.started
            .is_some_and(|started| started.elapsed() >= DURATION)
    }

    fn result(&self, epochs: u32) -> EpochTime {
        let measured_edges = self.finished + self.current;
        let part = measured_edges as f64 / self.edges_per_epoch.max(1) as f64;
        EpochTime {
            edges: self.edges_per_epoch,
            epochs,
            measured_edges,
            measured_seconds: self.seconds,
            seconds_per_epoch: if part > 0.0 { self.seconds / part } else { 0.0 },
        }
    }
}

impl EpochTime {
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let rate = self.measured_edges as f64 / self.measured_seconds.max(1e-9);
        writeln!(
            out,
            "{:<36} {:>12}  per epoch, {} for {}: {} edges at {}/s, measured on {} edges in {}",
            "estimated time",
            format::seconds(self.seconds_per_epoch),
            format::seconds(self.seconds_per_epoch * f64::from(self.epochs)),
            format::plural(u64::from(self.epochs), "epoch"),
            format::count(self.edges as f64),
            format::count(rate),
            format::count(self.measured_edges as f64),
            format::seconds(self.measured_seconds),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_tells_of_the_whole() {
        let watch = EpochTimer {
            edges_per_epoch: 1000,
            finished: 80,
            current: 20,
            seconds: 2.0,
            ..EpochTimer::default()
        };
        assert!((watch.result(3).seconds_per_epoch - 20.0).abs() < 1e-9);
    }
}
