//! A traced loss as a strategy: its graph, and who updates its parameters.

use serde::{Deserialize, Serialize};

use super::definition::Graph;
use crate::strategy::{StrategyError, StrategyId};

/// What happened since parameters were last updated.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// New values, one for each of `values`, all finite.
    ///
    /// # Errors
    /// When the strategy refuses, faults or exceeds its limits.
    fn update(&mut self, progress: &Progress, values: &[f32]) -> Result<Vec<f32>, StrategyError>;
}

/// A loss that is a graph.
pub struct TracedLoss {
    /// Who this is.
    pub id: StrategyId,
    /// The loss.
    pub graph: Graph,
    /// Updates the parameters, where the graph says how often.
    pub schedule: Option<Box<dyn ParameterSchedule>>,
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
