//! Parameters of a graph that change while training goes on.

use std::num::NonZeroU32;
use std::sync::{PoisonError, RwLock};

use pbg_core::loss::{LossState, ParameterSchedule, Progress, check_values};
use pbg_core::strategy::{Cause, StrategyError, StrategyId};

/// Counts batches and asks for new values every so many of them.
pub(super) struct Schedule {
    guest: Box<dyn ParameterSchedule>,
    every: NonZeroU32,
    step: u64,
    edges: u64,
    loss: f64,
}

impl Schedule {
    pub(super) fn new(guest: Box<dyn ParameterSchedule>, every: NonZeroU32) -> Self {
        Self {
            guest,
            every,
            step: 0,
            edges: 0,
            loss: 0.0,
        }
    }

    /// Another batch was trained.
    pub(super) fn observe(
        &mut self,
        id: &StrategyId,
        parameters: &RwLock<Vec<f32>>,
        edges: usize,
        loss: f64,
    ) -> Result<(), StrategyError> {
        self.step += 1;
        self.edges += edges as u64;
        self.loss += loss;
        if !self.step.is_multiple_of(self.every.get().into()) {
            return Ok(());
        }
        let progress = Progress {
            step: self.step,
            edges: self.edges,
            mean_loss: (self.loss / self.edges.max(1) as f64) as f32,
        };
        let before = values(parameters);
        let after = self.guest.update(&progress, &before)?;
        check_values(&before, &after).map_err(|reason| StrategyError {
            strategy: id.clone(),
            function: "update",
            reason: reason.into(),
            cause: Cause::Strategy,
        })?;
        *parameters.write().unwrap_or_else(PoisonError::into_inner) = after;
        (self.edges, self.loss) = (0, 0.0);
        Ok(())
    }

    pub(super) fn state(&self, parameters: &RwLock<Vec<f32>>) -> LossState {
        LossState {
            step: self.step,
            edges: self.edges,
            loss: self.loss,
            parameters: values(parameters),
        }
    }

    pub(super) fn restore(
        &mut self,
        parameters: &RwLock<Vec<f32>>,
        state: &LossState,
    ) -> Result<(), String> {
        check_values(&values(parameters), &state.parameters)?;
        (self.step, self.edges, self.loss) = (state.step, state.edges, state.loss);
        *parameters.write().unwrap_or_else(PoisonError::into_inner) = state.parameters.clone();
        Ok(())
    }
}

fn values(parameters: &RwLock<Vec<f32>>) -> Vec<f32> {
    parameters
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
