//! Where a step's time goes.

use std::time::{Duration, Instant};

/// Stages of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Rows are looked up, transformed and prepared.
    Gather,
    /// Scores: a matrix product, and masks.
    Score,
    /// Scores become gradients.
    Loss,
    /// Gradients of rows: two matrix products.
    Differentiate,
    /// Gradients go back through operators and are summed by table row.
    Scatter,
    /// Sums are applied to tables and parameters.
    Update,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 6] = [
        Self::Gather,
        Self::Score,
        Self::Loss,
        Self::Differentiate,
        Self::Scatter,
        Self::Update,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::Score => "score",
            Self::Loss => "loss",
            Self::Differentiate => "differentiate",
            Self::Scatter => "scatter",
            Self::Update => "update",
        }
    }
}

/// Time spent per stage since the worker was made.
#[derive(Clone, Copy, Debug)]
pub struct StageTimes {
    total: [Duration; Stage::ALL.len()],
    since: Instant,
}

impl StageTimes {
    pub(crate) fn new() -> Self {
        Self {
            total: Default::default(),
            since: Instant::now(),
        }
    }

    /// Time spent in `stage`.
    #[must_use]
    pub fn of(&self, stage: Stage) -> Duration {
        self.total[stage as usize]
    }

    /// Starts the clock.
    pub(crate) fn start(&mut self) {
        self.since = Instant::now();
    }

    /// Books the time since the last call on `stage`. A slice books a handful of times, each some tens
    /// of nanoseconds.
    pub(crate) fn book(&mut self, stage: Stage) {
        let now = Instant::now();
        self.total[stage as usize] += now - self.since;
        self.since = now;
    }
}
