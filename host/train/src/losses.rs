//! Losses in the form that the training step uses, with fallbacks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pbg_core::lock::lock;
use pbg_core::loss::{LossState, ObservedBatches, TracedLoss};
use pbg_core::strategy::{
    FaultCause, Loss, LossFormula, LossWorker, RunLength, ScoreBlock, StrategyError, StrategyId,
};
use pbg_kernels::losses::GraphLoss;

/// Makes a loss's graph executable: derives its gradient and plans its execution.
#[must_use]
pub fn traced(loss: TracedLoss) -> Box<dyn Loss> {
    Box::new(GraphLoss::new(loss))
}

/// Loss of a run with its fallback, which takes over from the first row at which the loss fails.
///
/// The identity stays that of the configured loss: a checkpoint records it, the stored state belongs to it, and a
/// resumed run begins with it again.
#[derive(Clone)]
pub struct GuardedLoss {
    loss: Arc<dyn Loss>,
    /// Without a fallback, a failure ends the run.
    standard: Option<Arc<dyn Loss>>,
    faults: Arc<Faults>,
}

/// Failures of a loss, shared by all workers.
#[derive(Default)]
struct Faults {
    any: AtomicBool,
    new: Mutex<Vec<StrategyError>>,
}

impl Faults {
    fn note(&self, fault: StrategyError) {
        self.any.store(true, Ordering::Relaxed);
        lock(&self.new).push(fault);
    }
}

impl GuardedLoss {
    /// Creates a guarded loss that switches to `standard` once `loss` has failed.
    #[must_use]
    pub fn new(loss: Box<dyn Loss>, standard: Option<Box<dyn Loss>>) -> Self {
        Self {
            loss: Arc::from(loss),
            standard: standard.map(Arc::from),
            faults: Arc::default(),
        }
    }

    /// Returns the failures since the last call, one for each worker in which the loss failed.
    pub(crate) fn take_faults(&self) -> Vec<StrategyError> {
        std::mem::take(&mut lock(&self.faults.new))
    }

    /// Records a failure that the loss itself caused, so that the fallback goes on.
    fn record_own_fault(&self, done: Result<(), StrategyError>) -> Result<(), StrategyError> {
        match done {
            Err(fault) if fault.cause == FaultCause::Strategy => {
                self.faults.note(fault);
                Ok(())
            }
            other => other,
        }
    }

    /// Returns the id of the fallback.
    pub(crate) fn standard(&self) -> Option<&StrategyId> {
        self.standard.as_ref().map(|standard| standard.id())
    }
}

impl Loss for GuardedLoss {
    fn id(&self) -> &StrategyId {
        self.loss.id()
    }

    fn begin_run(&self, length: RunLength) {
        self.loss.begin_run(length);
        self.standard
            .iter()
            .for_each(|standard| standard.begin_run(length));
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        let worker = self.loss.worker();
        match &self.standard {
            Some(standard) => Box::new(GuardedWorker {
                loss: worker,
                standard: standard.worker(),
                faults: Arc::clone(&self.faults),
            }),
            None => worker,
        }
    }

    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        let Some(standard) = &self.standard else {
            return self.loss.observe(edges, loss);
        };
        if self.faults.any.load(Ordering::Relaxed) {
            return standard.observe(edges, loss);
        }
        self.record_own_fault(self.loss.observe(edges, loss))
    }

    fn share_parameters(&self) {
        self.loss.share_parameters();
    }

    fn take_observed(&self) -> ObservedBatches {
        self.loss.take_observed()
    }

    /// Once the loss has failed here, its parameters do not change any more; the parameters of the fallback follow only
    /// the observations of this trainer.
    fn update_shared(&self, observed: &ObservedBatches) -> Result<(), StrategyError> {
        if self.standard.is_none() {
            return self.loss.update_shared(observed);
        }
        match self.faults.any.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.record_own_fault(self.loss.update_shared(observed)),
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

/// Evaluates a loss until it fails in any worker, and the fallback from then on.
struct GuardedWorker {
    loss: Box<dyn LossWorker>,
    standard: Box<dyn LossWorker>,
    faults: Arc<Faults>,
}

impl LossWorker for GuardedWorker {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        if !self.faults.any.load(Ordering::Relaxed) {
            match self.loss.evaluate(scores) {
                Err(fault) if fault.cause == FaultCause::Strategy => self.faults.note(fault),
                other => return other,
            }
        }
        self.standard.evaluate(scores)
    }

    fn formula(&mut self) -> Option<&LossFormula> {
        match self.faults.any.load(Ordering::Relaxed) {
            true => self.standard.formula(),
            false => self.loss.formula(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loss that returns a number as every loss and gradient until its calls are used up.
    #[derive(Clone)]
    struct Number {
        id: StrategyId,
        value: f32,
        calls: Arc<Mutex<u32>>,
    }

    fn number(value: f32, calls: u32) -> Box<dyn Loss> {
        let id = StrategyId {
            name: format!("loss_{value}"),
            version: "1".to_owned(),
            sha256: String::new(),
        };
        let calls = Arc::new(Mutex::new(calls));
        Box::new(Number { id, value, calls })
    }

    impl Number {
        fn call(&self, function: &'static str) -> Result<(), StrategyError> {
            let mut calls = self.calls.lock().unwrap();
            *calls = calls.checked_sub(1).ok_or_else(|| StrategyError {
                strategy: self.id.clone(),
                function,
                reason: "has had enough".into(),
                cause: FaultCause::Strategy,
            })?;
            Ok(())
        }
    }

    impl Loss for Number {
        fn id(&self) -> &StrategyId {
            &self.id
        }

        fn worker(&self) -> Box<dyn LossWorker> {
            Box::new(self.clone())
        }

        fn observe(&self, _edges: usize, _loss: f64) -> Result<(), StrategyError> {
            self.call("observe")
        }
    }

    /// Fails at the second row, if at all.
    impl LossWorker for Number {
        fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
            scores.in_blocks(1, |row| {
                assert!(row.negative.iter().all(|score| *score == 7.0), "not scores");
                if row.positive == [1.0] {
                    self.call("evaluate")?;
                }
                for out in [row.negative, row.positive_gradient, row.loss] {
                    out.fill(self.value);
                }
                Ok(())
            })
        }
    }

    /// Returns the results of the second of two rows, and the loss of the first.
    fn both(loss: &dyn Loss) -> Result<([f32; 3], f32), StrategyError> {
        let (mut negative, mut gradient, mut losses) = ([7.0; 4], [0.0; 2], [0.0; 2]);
        loss.worker().evaluate(&mut ScoreBlock {
            positive: &[0.0, 1.0],
            negative: &mut negative,
            columns: 2,
            positive_gradient: &mut gradient,
            loss: &mut losses,
        })?;
        Ok(([negative[3], gradient[1], losses[1]], losses[0]))
    }

    fn evaluate(loss: &dyn Loss) -> Result<[f32; 3], StrategyError> {
        both(loss).map(|(second, _)| second)
    }

    #[test]
    fn rows_before_those_that_failed_are_done() {
        let guarded = GuardedLoss::new(number(1.0, 0), Some(number(2.0, 9)));
        assert_eq!(both(&guarded), Ok(([2.0; 3], 1.0)));
        assert_eq!(both(&guarded), Ok(([2.0; 3], 2.0)));
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
        // The fallback goes on, and the failed loss is not called again.
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
