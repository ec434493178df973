//! Parameters of a loss graph that the plugin's `update` function changes during training.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use pbg_core::loss::{
    LossState, ObservedBatches, ParameterSchedule, ScheduleProgress, check_values,
};
use pbg_core::strategy::{FaultCause, RunLength, StrategyError, StrategyId};
use pbg_formula::loss::LossParameter;

/// Current values of the parameters. Each worker keeps a copy and takes the lock only after a change.
pub(super) struct SharedParameters {
    declared: Vec<LossParameter>,
    values: RwLock<Vec<f32>>,
    /// Number of changes so far.
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

    /// Replaces `copy`, which was made after `changes` changes, if the values have changed since then.
    pub(super) fn copy_changed(&self, changes: &mut u64, copy: &mut Vec<f32>) {
        let now = self.changes.load(Ordering::Acquire);
        if now != *changes {
            *copy = self.get();
            *changes = now;
        }
    }
}

/// Counter of trained batches that calls the plugin's `update` function for new parameters after every `every` batches.
pub(super) struct UpdateSchedule {
    guest: Box<dyn ParameterSchedule>,
    every: NonZeroU32,
    /// Number of batches counted so far.
    step: u64,
    /// Number of edges since the last update.
    edges: u64,
    /// Sum of their losses.
    loss: f64,
    /// Sum of the batches that this trainer has observed but not counted. `None` unless several trainers share the
    /// parameters: then the batches of all trainers are added up first and counted with [`UpdateSchedule::count`].
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

    /// Counts a trained batch, or adds it to the deferred ones.
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
            Some(sum) => {
                sum.add(&observed);
                Ok(())
            }
            None => self.count(id, parameters, &observed),
        }
    }

    /// Defers counting: from now on, observed batches are only added up for [`UpdateSchedule::take_observed`]. Discards
    /// the previous sum.
    pub(super) fn defer_counting(&mut self) {
        self.deferred = Some(ObservedBatches::default());
    }

    /// Returns the sum of the deferred batches since the last call.
    pub(super) fn take_observed(&mut self) -> ObservedBatches {
        self.deferred
            .as_mut()
            .map_or_else(ObservedBatches::default, std::mem::take)
    }

    /// Counts batches, and updates the parameters once if the count reaches or passes a multiple of `every`.
    pub(super) fn count(
        &mut self,
        id: &StrategyId,
        parameters: &SharedParameters,
        observed: &ObservedBatches,
    ) -> Result<(), StrategyError> {
        let every = u64::from(self.every.get());
        let updates_before = self.step / every;
        self.step = self.step.saturating_add(observed.batches);
        self.edges = self.edges.saturating_add(observed.edges);
        self.loss += observed.loss;
        if self.step / every == updates_before {
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
