//! Losses as the training step takes them, and what goes on where one fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pbg_core::loss::{LossState, TracedLoss};
use pbg_core::strategy::{Cause, Formula, Loss, StrategyError, StrategyId};
use pbg_kernels::losses::Traced;

/// Makes a graph something that can be evaluated: its gradient is derived, its execution planned.
#[must_use]
pub fn traced(loss: TracedLoss) -> Box<dyn Loss> {
    Box::new(Traced::new(loss))
}

/// The loss of a run, and what goes on in its place from the rows on at which it fails.
///
/// A run's identity stays that of its own loss: that is what a checkpoint records, what its state
/// is of, and what a resumed run begins with again.
pub struct GuardedLoss {
    loss: Box<dyn Loss>,
    /// Without one the run ends.
    standard: Option<Box<dyn Loss>>,
    failed: AtomicBool,
    faults: Mutex<Vec<StrategyError>>,
}

impl GuardedLoss {
    /// `loss`, and `standard` once it failed.
    #[must_use]
    pub fn new(loss: Box<dyn Loss>, standard: Option<Box<dyn Loss>>) -> Self {
        Self {
            loss,
            standard,
            failed: AtomicBool::new(false),
            faults: Mutex::default(),
        }
    }

    /// How the loss failed since the last call: once in each worker that it failed in.
    pub(crate) fn take_faults(&self) -> Vec<StrategyError> {
        std::mem::take(&mut self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What goes on in the place of a loss that fails.
    pub(crate) fn standard(&self) -> Option<&StrategyId> {
        self.standard.as_ref().map(|standard| standard.id())
    }

    /// What goes on already.
    fn successor(&self) -> Option<&dyn Loss> {
        let failed = self.failed.load(Ordering::Relaxed);
        self.standard.as_deref().filter(|_| failed)
    }

    fn note(&self, fault: StrategyError) {
        self.failed.store(true, Ordering::Relaxed);
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(fault);
    }
}

impl Loss for GuardedLoss {
    fn id(&self) -> &StrategyId {
        self.loss.id()
    }

    fn evaluate(
        &self,
        positive: &[f32],
        negative: &mut [f32],
        columns: usize,
        positive_gradient: &mut [f32],
        loss: &mut [f32],
    ) -> Result<(), StrategyError> {
        let Some(standard) = &self.standard else {
            return self
                .loss
                .evaluate(positive, negative, columns, positive_gradient, loss);
        };
        if let Some(standard) = self.successor() {
            return standard.evaluate(positive, negative, columns, positive_gradient, loss);
        }
        // A loss that fails may have put gradients in the place of some scores.
        let scores = negative.to_vec();
        let Err(fault) = self
            .loss
            .evaluate(positive, negative, columns, positive_gradient, loss)
        else {
            return Ok(());
        };
        if fault.cause != Cause::Strategy {
            return Err(fault);
        }
        self.note(fault);
        negative.copy_from_slice(&scores);
        standard.evaluate(positive, negative, columns, positive_gradient, loss)
    }

    fn formula(&self) -> Option<Formula> {
        self.successor().unwrap_or(self.loss.as_ref()).formula()
    }

    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        if let Some(standard) = self.successor() {
            return standard.observe(edges, loss);
        }
        match self.loss.observe(edges, loss) {
            Err(fault) if self.standard.is_some() && fault.cause == Cause::Strategy => {
                self.note(fault);
                Ok(())
            }
            other => other,
        }
    }

    fn state(&self) -> Option<LossState> {
        self.loss.state()
    }

    fn restore(&self, state: &LossState) -> Result<(), String> {
        self.loss.restore(state)
    }

    fn worker_bytes(&self, columns: usize) -> usize {
        let standard = self.standard.as_ref();
        self.loss.worker_bytes(columns)
            + standard.map_or(0, |standard| standard.worker_bytes(columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers its number as every loss and gradient, until it has no calls left.
    struct Number {
        id: StrategyId,
        value: f32,
        calls: Mutex<u32>,
    }

    fn number(value: f32, calls: u32) -> Box<dyn Loss> {
        let id = StrategyId {
            name: format!("loss_{value}"),
            version: "1".to_owned(),
            sha256: String::new(),
        };
        let calls = Mutex::new(calls);
        Box::new(Number { id, value, calls })
    }

    impl Number {
        fn call(&self, function: &'static str) -> Result<(), StrategyError> {
            let mut calls = self.calls.lock().unwrap();
            *calls = calls.checked_sub(1).ok_or_else(|| StrategyError {
                strategy: self.id.clone(),
                function,
                reason: "has had enough".into(),
                cause: Cause::Strategy,
            })?;
            Ok(())
        }
    }

    impl Loss for Number {
        fn id(&self) -> &StrategyId {
            &self.id
        }

        fn evaluate(
            &self,
            _positive: &[f32],
            negative: &mut [f32],
            _columns: usize,
            positive_gradient: &mut [f32],
            loss: &mut [f32],
        ) -> Result<(), StrategyError> {
            assert!(negative.iter().all(|score| *score == 7.0), "not scores");
            for out in [negative, positive_gradient, loss] {
                out.fill(self.value);
            }
            self.call("evaluate")
        }

        fn observe(&self, _edges: usize, _loss: f64) -> Result<(), StrategyError> {
            self.call("observe")
        }
    }

    fn evaluate(loss: &dyn Loss) -> Result<[f32; 3], StrategyError> {
        let (mut negative, mut gradient, mut losses) = ([7.0; 4], [0.0; 2], [0.0; 2]);
        loss.evaluate(&[1.0; 2], &mut negative, 2, &mut gradient, &mut losses)?;
        Ok([negative[3], gradient[1], losses[1]])
    }

    #[test]
    fn the_standard_loss_gets_the_scores_that_the_other_failed_at() {
        let guarded = GuardedLoss::new(number(1.0, 2), Some(number(2.0, 9)));
        assert_eq!(evaluate(&guarded), Ok([1.0; 3]));
        guarded.observe(5, 1.0).unwrap();
        assert_eq!(guarded.take_faults(), []);
        assert_eq!(evaluate(&guarded), Ok([2.0; 3]));
        let faults = guarded.take_faults();
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].function, "evaluate");
        // Its successor goes on, and the other is not asked again.
        assert_eq!(evaluate(&guarded), Ok([2.0; 3]));
        guarded.observe(5, 1.0).unwrap();
        assert_eq!(guarded.take_faults(), []);
        assert_eq!(guarded.id().name, "loss_1");
    }

    #[test]
    fn an_update_that_fails_ends_the_loss_too() {
        let guarded = GuardedLoss::new(number(1.0, 0), Some(number(2.0, 9)));
        guarded.observe(5, 1.0).unwrap();
        assert_eq!(guarded.take_faults()[0].function, "observe");
        assert_eq!(evaluate(&guarded), Ok([2.0; 3]));
    }

    #[test]
    fn without_a_standard_loss_a_fault_is_one() {
        let guarded = GuardedLoss::new(number(1.0, 0), None);
        assert!(evaluate(&guarded).is_err());
        assert!(guarded.observe(5, 1.0).is_err());
    }
}
