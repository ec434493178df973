//! A traced loss as a strategy: its graph, and who updates its parameters.

use serde::{Deserialize, Serialize};

use super::definition::{Graph, Parameter};
use crate::strategy::{RunLength, StrategyError, StrategyId};

/// What happened since parameters were last updated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Batches trained since the beginning of the run.
    pub step: u64,
    /// Edges trained since the last update.
    pub edges: u64,
    /// Their mean loss, both sides together, with all weights.
    pub mean_loss: f32,
}

/// Says how a graph's parameters go on.
pub trait ParameterSchedule: Send {
    /// A run of this length begins, or goes on.
    fn begin_run(&mut self, length: RunLength) {
        let _ = length;
    }

    /// New values, one for each of `values`, all finite.
    ///
    /// # Errors
    /// When the strategy refuses, faults or exceeds its limits.
    fn update(&mut self, progress: &Progress, values: &[f32]) -> Result<Vec<f32>, StrategyError>;
}

/// Rows of scores at which a graph gave what is no loss.
#[derive(Clone, Copy, Debug)]
pub struct FailedRows<'a> {
    /// Scores of the positives.
    pub positive: &'a [f32],
    /// Scores of their negatives, row by row.
    pub negative: &'a [f32],
    /// Negatives of a row.
    pub columns: usize,
    /// Values of the parameters.
    pub parameters: &'a [f32],
}

/// Keeps rows so that the graph can be asked again, and says in the error where they are.
pub type KeepRows = Box<dyn Fn(StrategyError, FailedRows<'_>) -> StrategyError + Send + Sync>;

/// A loss that is a graph.
pub struct TracedLoss {
    /// Who this is.
    pub id: StrategyId,
    /// The loss.
    pub graph: Graph,
    /// Updates the parameters, where the graph says how often.
    pub schedule: Option<Box<dyn ParameterSchedule>>,
    /// Takes the rows at which it fails, where somebody does.
    pub keep: Option<KeepRows>,
}

/// Batches that were trained, as a loss hears of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// How many.
    pub batches: u64,
    /// Their edges.
    pub edges: u64,
    /// Sum of their losses, both sides together, with all weights.
    pub loss: f64,
}

impl Observed {
    /// Adds other batches.
    pub fn add(&mut self, other: &Self) {
        self.batches += other.batches;
        self.edges += other.edges;
        self.loss += other.loss;
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batches == 0
    }
}

/// What a loss has to remember so that a run can go on: the checkpoint carries it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossState {
    /// Batches trained.
    pub step: u64,
    /// Edges since the last update of parameters.
    pub edges: u64,
    /// Sum of their losses.
    pub loss: f64,
    /// Values of the parameters.
    pub parameters: Vec<f32>,
}

/// Whether `values` can be those of `parameters`: one for each, all finite.
///
/// # Errors
/// What is wrong, as a clause about the plugin that answered them.
pub fn check_values(parameters: &[Parameter], values: &[f32]) -> Result<(), String> {
    if parameters.len() != values.len() {
        return Err(format!(
            "answered {} values for the {} parameters of the graph",
            values.len(),
            parameters.len()
        ));
    }
    let mut named = parameters.iter().zip(values);
    match named.find(|(_, value)| !value.is_finite()) {
        Some((Parameter { name, .. }, value)) => Err(format!(
            "answered {value} for the parameter `{name}`, which is not finite"
        )),
        None => Ok(()),
    }
}

/// Parameters with these values, as a clause: `margin 0.5, temperature 1`.
#[must_use]
pub fn named_values(parameters: &[Parameter], values: &[f32]) -> String {
    let named = parameters.iter().zip(values);
    let named: Vec<String> = named
        .map(|(Parameter { name, .. }, value)| format!("{name} {value}"))
        .collect();
    named.join(", ")
}
