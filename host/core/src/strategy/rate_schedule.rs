//! Learning rate schedules: factors of the learning rates.

use serde::{Deserialize, Serialize};

use super::{StrategyError, StrategyId};

/// Strategy that decides by which factor the learning rates are multiplied.
pub trait RateSchedule: Send {
    /// Returns the identity of the strategy.
    fn id(&self) -> &StrategyId;

    /// Returns the factor at `position`, which [`check_factor`] accepts.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps, exceeds its limits or returns an invalid factor.
    fn factor(&mut self, position: SchedulePosition) -> Result<f64, StrategyError>;
}

/// Position of a pass in a schedule. Epochs are counted from the beginning of the run; `start` <= `epoch` <= `end`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulePosition {
    /// Number of epochs until the middle of the pass; for passes after the end, `end`.
    pub epoch: f64,
    /// Number of epochs after which the schedule begins.
    pub start: f64,
    /// Number of epochs after which the schedule ends.
    pub end: f64,
}

impl std::fmt::Display for SchedulePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { epoch, start, end } = self;
        write!(f, "epoch {epoch} of a schedule from {start} to {end}")
    }
}

/// Largest factor of the learning rates.
pub const MAX_FACTOR: f64 = 1000.0;

/// Factor of the learning rates that is not from 0 to [`MAX_FACTOR`].
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "at {position}, the factor of the learning rates is {factor}; it must be from 0 to {MAX_FACTOR}"
)]
pub struct FactorError {
    /// Position for which it was returned.
    pub position: SchedulePosition,
    /// The factor.
    pub factor: f64,
}

/// Checks a factor of the learning rates.
///
/// # Errors
/// When it is not from 0 to [`MAX_FACTOR`].
pub fn check_factor(position: SchedulePosition, factor: f64) -> Result<(), FactorError> {
    match (0.0..=MAX_FACTOR).contains(&factor) {
        true => Ok(()),
        false => Err(FactorError { position, factor }),
    }
}
