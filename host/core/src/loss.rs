//! A traced loss as a strategy: its graph, and the updates of its parameters.

use pbg_formula::loss::{LossGraph, LossParameter};
use serde::{Deserialize, Serialize};

use crate::strategy::{RunLength, StrategyError, StrategyId};

/// Training progress since the parameters were last updated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleProgress {
    /// Number of batches trained since the beginning of the run.
    pub step: u64,
    /// Number of edges trained since the last update.
    pub edges: u64,
    /// Mean loss of these edges, over both sides, with all weights.
    pub mean_loss: f32,
}

/// Strategy that updates a graph's parameters during training.
pub trait ParameterSchedule: Send {
    /// Called when a run of this length begins or continues.
    fn begin_run(&mut self, length: RunLength) {
        let _ = length;
    }

    /// Returns new values, one for each of `values`, all finite.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps or exceeds its limits.
    fn update(
        &mut self,
        progress: &ScheduleProgress,
        values: &[f32],
    ) -> Result<Vec<f32>, StrategyError>;
}

/// Rows of scores for which a graph computed an invalid loss.
#[derive(Clone, Copy, Debug)]
pub struct FailedRows<'a> {
    /// Scores of the positives.
    pub positive: &'a [f32],
    /// Scores of their negatives, row by row.
    pub negative: &'a [f32],
    /// Number of negatives per row.
    pub columns: usize,
    /// Values of the parameters.
    pub parameters: &'a [f32],
}

/// Callback that stores the rows, so that the graph can be evaluated on them again, and adds their location to the
/// error.
pub type SaveFailedRows = Box<dyn Fn(StrategyError, FailedRows<'_>) -> StrategyError + Send + Sync>;

/// Loss defined by a graph.
pub struct TracedLoss {
    /// Identity of the strategy.
    pub id: StrategyId,
    /// The loss.
    pub graph: LossGraph,
    /// Updates the parameters, if the graph has an update interval.
    pub schedule: Option<Box<dyn ParameterSchedule>>,
    /// Stores the rows for which the loss fails, if set.
    pub keep: Option<SaveFailedRows>,
}

/// Trained batches, as reported to a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ObservedBatches {
    /// Number of batches.
    pub batches: u64,
    /// Number of their edges.
    pub edges: u64,
    /// Sum of the edges' losses, over both sides, with all weights.
    pub loss: f64,
}

impl ObservedBatches {
    /// Adds other batches.
    pub fn add(&mut self, other: &Self) {
        self.batches = self.batches.saturating_add(other.batches);
        self.edges = self.edges.saturating_add(other.edges);
        self.loss += other.loss;
    }

    /// Whether there are no batches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batches == 0
    }
}

/// State of a loss that is saved in the checkpoint so that a run can be resumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossState {
    /// Number of batches trained.
    pub step: u64,
    /// Number of edges since the last update of parameters.
    pub edges: u64,
    /// Sum of the losses of these edges.
    pub loss: f64,
    /// Values of the parameters.
    pub parameters: Vec<f32>,
}

/// Checks that `values` has one finite value for each of `parameters`.
///
/// # Errors
/// Returns what is wrong, as a clause about the plugin that returned the values.
pub fn check_values(parameters: &[LossParameter], values: &[f32]) -> Result<(), String> {
    if parameters.len() != values.len() {
        return Err(format!(
            "returned {} values for the {} parameters of the graph",
            values.len(),
            parameters.len()
        ));
    }
    let mut named = parameters.iter().zip(values);
    match named.find(|(_, value)| !value.is_finite()) {
        Some((LossParameter { name, .. }, value)) => Err(format!(
            "returned {value} for the parameter `{name}`, which is not finite"
        )),
        None => Ok(()),
    }
}

/// Returns the parameters with the values as a clause: `margin 0.5, temperature 1`.
#[must_use]
pub fn named_values(parameters: &[LossParameter], values: &[f32]) -> String {
    let named = parameters.iter().zip(values);
    let named: Vec<String> = named
        .map(|(LossParameter { name, .. }, value)| format!("{name} {value}"))
        .collect();
    named.join(", ")
}
