//! The time that each cluster of stages takes.

use std::time::{Duration, Instant};

use pbg_core::batch_graph::Stage;

/// Time spent in each cluster of stages since the worker was created.
#[derive(Clone, Copy, Debug)]
pub struct StageTimes {
    total: [Duration; Stage::ALL.len()],
    since: Instant,
}

impl Default for StageTimes {
    fn default() -> Self {
        Self {
            total: Default::default(),
            since: pbg_clock::now(),
        }
    }
}

impl StageTimes {
    /// Returns the time spent in `cluster`.
    #[must_use]
    pub fn of(&self, cluster: Stage) -> Duration {
        self.total[cluster as usize]
    }

    /// Starts measuring.
    pub fn start(&mut self) {
        self.since = pbg_clock::now();
    }

    /// Adds the time since the last call to that of `cluster`. This is called a few times per slice and takes some tens
    /// of nanoseconds.
    pub fn record(&mut self, cluster: Stage) {
        let now = pbg_clock::now();
        self.total[cluster as usize] += now - self.since;
        self.since = now;
    }
}
