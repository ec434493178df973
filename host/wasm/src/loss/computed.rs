//! Losses as code: called for every slice, from every worker.

use std::sync::{Arc, Mutex, PoisonError};

use pbg_core::strategy::{Loss, LossWorker, MASKED, RunLength, Scores, StrategyError, StrategyId};

use crate::bindings::loss_computed::{Evaluation, GuestIndices};
use crate::error::LoadError;
use crate::program::Instantiated;
use crate::replay::{Call, KEPT, KeptScores};
use crate::strategy::{SMALL_ANSWER, Strategy};

/// Scores that one call hands over, where a row has fewer: 256 KiB.
const SCORES_AT_ONCE: usize = 64 << 10;

/// A loss that is called for its values. Every answer is checked before it is used.
///
/// Each worker has an instance of its own; one that faulted is never used again.
pub struct ComputedLoss {
    inner: Arc<Inner>,
    /// The instance that accepted its configuration, for the first worker.
    first: Mutex<Option<Instantiated>>,
}

/// What workers share.
struct Inner(Strategy<GuestIndices>);

/// Makes a loss of a component, and sees that it accepts its configuration.
pub(crate) fn load(strategy: Strategy<GuestIndices>) -> Result<ComputedLoss, LoadError> {
    match strategy.open() {
        Ok(instantiated) => Ok(ComputedLoss {
            inner: Arc::new(Inner(strategy)),
            first: Mutex::new(instantiated),
        }),
        Err(fault) => Err(strategy.load_error(fault)),
    }
}

impl Inner {
    /// One call; the scores of one that fails are kept.
    fn call(
        &self,
        instantiated: &mut Option<Instantiated>,
        mut rows: Scores<'_>,
    ) -> Result<(), StrategyError> {
        self.call_checked(instantiated, &mut rows).map_err(|error| {
            let call = || {
                let scores = rows.positive.len() + rows.negative.len();
                (scores <= KEPT).then(|| Call::Evaluate {
                    positive: KeptScores(rows.positive.to_vec()),
                    negative: KeptScores(rows.negative.to_vec()),
                    columns: rows.columns,
                    parameters: Vec::new(),
                })
            };
            self.0.record(error, call)
        })
    }

    /// Leaves the scores as they are where it fails.
    fn call_checked(
        &self,
        instantiated: &mut Option<Instantiated>,
        rows: &mut Scores<'_>,
    ) -> Result<(), StrategyError> {
        let Ok(columns) = u32::try_from(rows.columns) else {
            return Err(self.fault(format!("{} negatives are too many", rows.columns)));
        };
        let right = size_of::<f32>() * (2 * rows.positive.len() + rows.negative.len());
        let limit = self.0.program.limits.result_bytes;
        if right > limit {
            return Err(self.fault(format!(
                "gradients of {columns} negatives exceed the {limit} bytes of an answer; use a \
                 traced loss, or fewer negatives"
            )));
        }
        // Twice a right answer, so that one of the wrong length gets the message about its length.
        let bytes = right.saturating_mul(2).saturating_add(SMALL_ANSWER);
        let answer = self
            .0
            .call_ready(instantiated, "evaluate", bytes, |exports, store| {
                exports.call_evaluate(store, rows.positive, rows.negative, columns)
            })?;
        check(&answer, rows).map_err(|reason| self.fault(reason))?;
        rows.loss.copy_from_slice(&answer.loss);
        rows.positive_gradient
            .copy_from_slice(&answer.positive_gradient);
        for (score, gradient) in rows.negative.iter_mut().zip(answer.negative_gradient) {
            *score = if *score == MASKED { 0.0 } else { gradient };
        }
        Ok(())
    }

    fn fault(&self, reason: String) -> StrategyError {
        self.0.fault("evaluate", reason)
    }
}

/// Lengths and finiteness.
fn check(answer: &Evaluation, rows: &Scores<'_>) -> Result<(), String> {
    for (what, values, expected) in [
        ("losses", &answer.loss, rows.positive.len()),
        (
            "gradients of positives",
            &answer.positive_gradient,
            rows.positive.len(),
        ),
        (
            "gradients of negatives",
            &answer.negative_gradient,
            rows.negative.len(),
        ),
    ] {
        if values.len() != expected {
            return Err(format!(
                "answered {} {what} for {} rows of {} negatives, not {expected}",
                values.len(),
                rows.positive.len(),
                rows.columns
            ));
        }
        // Scores that are not finite are not the plugin's fault.
        let finite = |values: &[f32]| values.iter().fold(true, |all, v| all & v.is_finite());
        if !finite(values) && finite(rows.positive) && finite(rows.negative) {
            let at = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
            return Err(format!(
                "answered {} among the {what}, at {at}; every number must be finite, whatever the \
                 scores",
                values[at]
            ));
        }
    }
    Ok(())
}

impl Loss for ComputedLoss {
    fn id(&self) -> &StrategyId {
        &self.inner.0.id
    }

    fn begin_run(&self, length: RunLength) {
        self.inner.0.begin_run(length);
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        Box::new(Worker {
            inner: Arc::clone(&self.inner),
            instantiated: first.take(),
        })
    }

    /// What an instance may take at most.
    fn worker_bytes(&self, _columns: usize) -> usize {
        self.inner.0.program.limits.memory_bytes
    }
}

/// Asks an instance of its own.
struct Worker {
    inner: Arc<Inner>,
    /// Configured. Empty before the first call, and after one that failed.
    instantiated: Option<Instantiated>,
}

impl LossWorker for Worker {
    fn evaluate(&mut self, scores: &mut Scores<'_>) -> Result<(), StrategyError> {
        let mut instantiated = self.instantiated.take();
        let rows = SCORES_AT_ONCE / scores.columns.max(1);
        scores.in_blocks(rows, |block| self.inner.call(&mut instantiated, block))?;
        self.instantiated = instantiated;
        Ok(())
    }
}
