//! Learning rates of a machine: those of the configuration, multiplied by a factor of validation and one of the
//! schedule.

use std::sync::Arc;

use pbg_core::schedule::PassId;
use pbg_rows::spec::ModelSpec;

use crate::executor::Executor;
use crate::scheduled_factors::ScheduledFactors;

/// Learning rates of the executors of a machine.
pub(crate) struct LearningRates {
    /// Factors of the schedule, if there is one.
    scheduled: Option<ScheduledFactors>,
    /// Factor that validation has set.
    validation: f32,
    /// Factor that the executors train with.
    applied: f32,
}

impl LearningRates {
    /// Creates the rates of a machine whose executors have the configured ones.
    pub(crate) fn new(scheduled: Option<ScheduledFactors>, validation: f32) -> Self {
        Self {
            scheduled,
            validation,
            applied: 1.0,
        }
    }

    /// Sets the factor of validation.
    pub(crate) fn set_validation(&mut self, factor: f32) {
        self.validation = factor;
    }

    /// Returns the factor of the learning rates in `pass`.
    fn factor(&self, pass: PassId) -> f32 {
        let scheduled = self.scheduled.as_ref().map(|factors| factors.of(pass));
        self.validation * scheduled.unwrap_or(1.0)
    }

    /// Returns the learning rate of embeddings in `pass` if it follows a schedule. `spec` has the configured ones.
    pub(crate) fn scheduled_lr(&self, pass: PassId, spec: &ModelSpec) -> Option<f32> {
        let follows = self.scheduled.is_some();
        follows.then(|| spec.lr * self.factor(pass))
    }

    /// Passes the learning rates of `pass` to `executors`. `spec` has the configured ones.
    pub(crate) fn apply(&mut self, pass: PassId, spec: &ModelSpec, executors: &mut [Executor]) {
        let factor = self.factor(pass);
        if factor == self.applied {
            return;
        }
        let spec = Arc::new(spec.with_scaled_rates(factor));
        for executor in executors {
            executor.set_rates(Arc::clone(&spec));
        }
        self.applied = factor;
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::lr_schedule::{LrDecay, LrSchedule};
    use pbg_core::schedule::RunExtent;

    use super::*;

    #[test]
    fn the_factors_of_validation_and_of_the_schedule_are_multiplied() {
        let schedule = LrSchedule {
            warmup_epochs: 0.0,
            decay: LrDecay::Linear,
            decay_epochs: 2,
            final_fraction: 0.0,
        };
        let extent = RunExtent {
            epochs: 2,
            edge_sets: 1,
            edge_chunks: 1,
        };
        let pass = |epoch| PassId {
            epoch,
            ..PassId::default()
        };
        let factors = ScheduledFactors::new(schedule, None, extent).unwrap();
        let mut rates = LearningRates::new(Some(factors), 1.0);
        assert_eq!([0, 1].map(|epoch| rates.factor(pass(epoch))), [0.75, 0.25]);
        rates.set_validation(0.5);
        assert_eq!(rates.factor(pass(1)), 0.125);
        assert_eq!(LearningRates::new(None, 0.5).factor(pass(1)), 0.5);
    }
}
