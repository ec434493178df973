//! Parameters of a graph that change during training.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use pbg_core::loss::{
    LossParameter, LossState, ObservedBatches, ParameterSchedule, ScheduleProgress, check_values,
};
use pbg_core::strategy::{FaultCause, RunLength, StrategyError, StrategyId};

/// Values of the parameters. Workers keep copies, so that they take no lock unless a value has changed.
pub(super) struct SharedParameters {
    declared: Vec<LossParameter>,
    values: RwLock<Vec<f32>>,
    changes: AtomicU64,
}

impl SharedParameters {
    /// Creates parameters with their declared initial values.
    pub(super) fn new(declared: Vec<LossParameter>) -> Self {
        let values = declared.iter().map(|parameter| parameter.value).collect();
        Self {
            declared,
            values: RwLock::new(values),
            changes: AtomicU64::new(0),
        }
    }

    /// Returns the declarations of the parameters.
    pub(super) fn declared(&self) -> &[LossParameter] {
        &self.declared
    }

    fn get(&self) -> Vec<f32> {
        let values = self.values.read();
        values.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, to: Vec<f32>) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        if *values == to {
            return;
        }
        *values = to;
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Updates a copy that was made after `changes` changes.
    pub(super) fn copy_changed(&self, changes: &mut u64, copy: &mut Vec<f32>) {
        let now = self.changes.load(Ordering::Acquire);
        if now != *changes {
            *copy = self.get();
            *changes = now;
        }
    }
}

/// Counter of trained batches that asks the guest for new parameters after every `every` batches.
pub(super) struct UpdateSchedule {
    guest: Box<dyn ParameterSchedule>,
    every: NonZeroU32,
    step: u64,
    edges: u64,
    loss: f64,
    /// Batches to be counted elsewhere, if several trainers count together.
    deferred: Option<ObservedBatches>,
}

impl UpdateSchedule {
    pub(super) fn new(guest: Box<dyn ParameterSchedule>, every: NonZeroU32) -> Self {
        Self {
            guest,
            every,
            step: 0,
            edges: 0,
            loss: 0.0,
            deferred: None,
        }
    }

    /// Starts or resumes a run of this length.
    pub(super) fn begin_run(&mut self, length: RunLength) {
        self.guest.begin_run(length);
    }

    /// Records a trained batch.
    pub(super) fn observe(
        &mut self,
        id: &StrategyId,
        parameters: &SharedParameters,
        edges: usize,
        loss: f64,
    ) -> Result<(), StrategyError> {
        let observed = ObservedBatches {
            batches: 1,
            edges: edges as u64,
            loss,
        };
        match &mut self.deferred {
            Some(apart) => {
                apart.add(&observed);
                Ok(())
            }
            None => self.count(id, parameters, &observed),
        }
    }

    /// Starts adding up batches without counting them, to be counted elsewhere; discards the previous sum.
    pub(super) fn defer_counting(&mut self) {
        self.deferred = Some(ObservedBatches::default());
    }

    /// Returns the sum of the batches since the last call.
    pub(super) fn take_observed(&mut self) -> ObservedBatches {
        self.deferred
            .as_mut()
            .map_or_else(ObservedBatches::default, std::mem::take)
    }

    /// Counts batches, and asks for new parameters if the count reaches or passes a multiple of `every`.
    pub(super) fn count(
        &mut self,
        id: &StrategyId,
        parameters: &SharedParameters,
        observed: &ObservedBatches,
    ) -> Result<(), StrategyError> {
        let every = u64::from(self.every.get());
        let before = self.step / every;
        self.step += observed.batches;
        self.edges += observed.edges;
        self.loss += observed.loss;
        if self.step / every == before {
            return Ok(());
        }
        let progress = ScheduleProgress {
            step: self.step,
            edges: self.edges,
            mean_loss: (self.loss / self.edges.max(1) as f64) as f32,
        };
        let before = parameters.get();
        let after = self.guest.update(&progress, &before)?;
        check_values(&parameters.declared, &after).map_err(|reason| StrategyError {
            strategy: id.clone(),
            function: "update",
            reason: reason.into(),
            cause: FaultCause::Strategy,
        })?;
        parameters.set(after);
        (self.edges, self.loss) = (0, 0.0);
        Ok(())
    }

    pub(super) fn state(&self, parameters: &SharedParameters) -> LossState {
        LossState {
            step: self.step,
            edges: self.edges,
            loss: self.loss,
            parameters: parameters.get(),
        }
    }

    pub(super) fn restore(
        &mut self,
        parameters: &SharedParameters,
        state: &LossState,
    ) -> Result<(), String> {
        check_values(&parameters.declared, &state.parameters)?;
        (self.step, self.edges, self.loss) = (state.step, state.edges, state.loss);
        parameters.set(state.parameters.clone());
        Ok(())
    }
}
