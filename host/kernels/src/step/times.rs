//! Where a step's time goes.

use std::time::{Duration, Instant};

use pbg_core::batch_graph::Cluster;

/// Time spent per cluster since the worker was made.
#[derive(Clone, Copy, Debug)]
pub struct ClusterTimes {
    total: [Duration; Cluster::ALL.len()],
    since: Instant,
}

impl Default for ClusterTimes {
    fn default() -> Self {
        Self::new()
    }
}

impl ClusterTimes {
    /// None so far.
    #[must_use]
    pub fn new() -> Self {
        Self {
            total: Default::default(),
            since: Instant::now(),
        }
    }

    /// Time spent in `cluster`.
    #[must_use]
    pub fn of(&self, cluster: Cluster) -> Duration {
        self.total[cluster as usize]
    }

    /// Starts the clock.
    pub fn start(&mut self) {
        self.since = Instant::now();
    }

    /// Adds the time since the last call to that of `cluster`. A slice does so a handful of times, each some tens
    /// of nanoseconds.
    pub fn record(&mut self, cluster: Cluster) {
        let now = Instant::now();
        self.total[cluster as usize] += now - self.since;
        self.since = now;
    }
}
