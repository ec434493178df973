//! Losses as code: called for every slice, by every worker.

use std::sync::{Arc, Mutex, PoisonError};

use pbg_core::strategy::{
    Loss, LossWorker, MASKED, RunLength, ScoreBlock, StrategyError, StrategyId,
};

use crate::bindings::loss_computed::{Evaluation, GuestIndices};
use crate::compiled_plugin::PluginInstance;
use crate::error::LoadError;
use crate::replay::{MAX_RECORDED_SCORES, RecordedCall, RecordedScores};
use crate::strategy::{SMALL_ANSWER, SlotPlugin};

/// Scores that one call passes, unless a single row has more: 256 KiB.
const SCORES_AT_ONCE: usize = 64 << 10;

/// A loss whose code computes losses and gradients. Every answer is checked before it is used.
///
/// Each worker has its own instance; one that faulted is never used again.
pub struct ComputedLossPlugin {
    inner: Arc<SharedLoss>,
    /// The instance that accepted the configuration, for the first worker.
    first: Mutex<Option<PluginInstance>>,
}

/// State that all workers share.
struct SharedLoss(SlotPlugin<GuestIndices>);

/// Creates a loss from a component, and checks that the component accepts its configuration.
pub(crate) fn load(strategy: SlotPlugin<GuestIndices>) -> Result<ComputedLossPlugin, LoadError> {
    match strategy.open() {
        Ok(instantiated) => Ok(ComputedLossPlugin {
            inner: Arc::new(SharedLoss(strategy)),
            first: Mutex::new(instantiated),
        }),
        Err(fault) => Err(strategy.load_error(fault)),
    }
}

impl SharedLoss {
    /// Makes one call; if it fails, writes its scores to a replay.
    fn call(
        &self,
        instantiated: &mut Option<PluginInstance>,
        mut rows: ScoreBlock<'_>,
    ) -> Result<(), StrategyError> {
        self.call_checked(instantiated, &mut rows).map_err(|error| {
            let call = || {
                let scores = rows.positive.len() + rows.negative.len();
                (scores <= MAX_RECORDED_SCORES).then(|| RecordedCall::Evaluate {
                    positive: RecordedScores(rows.positive.to_vec()),
                    negative: RecordedScores(rows.negative.to_vec()),
                    columns: rows.columns,
                    parameters: Vec::new(),
                })
            };
            self.0.record(error, call)
        })
    }

    /// Makes one call. If it fails, the scores keep their values.
    fn call_checked(
        &self,
        instantiated: &mut Option<PluginInstance>,
        rows: &mut ScoreBlock<'_>,
    ) -> Result<(), StrategyError> {
        let Ok(columns) = u32::try_from(rows.columns) else {
            return Err(self.fault(format!("{} negatives are too many", rows.columns)));
        };
        let right = size_of::<f32>() * (2 * rows.positive.len() + rows.negative.len());
        let limit = self.0.program.limits.result_bytes;
        if right > limit {
            return Err(self.fault(format!(
                "gradients of {columns} negatives have {right} bytes, more than the {} MiB that an answer may have; \
                 raise plugins.limits.result_mib, or use a traced loss or fewer negatives",
                limit >> 20
            )));
        }
        // Twice the size of a valid answer, so that one of the wrong length is reported as such.
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

/// Checks the lengths and that all numbers are finite.
fn check(answer: &Evaluation, rows: &ScoreBlock<'_>) -> Result<(), String> {
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
                "returned {} {what} for {} rows of {} negatives, expected {expected}",
                values.len(),
                rows.positive.len(),
                rows.columns
            ));
        }
        // If a score is not finite, the plugin is not to blame.
        let finite = |values: &[f32]| values.iter().fold(true, |all, v| all & v.is_finite());
        if !finite(values) && finite(rows.positive) && finite(rows.negative) {
            let at = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
            return Err(format!(
                "returned {} among the {what}, at index {at}; every number must be finite for any \
                 scores",
                values[at]
            ));
        }
    }
    Ok(())
}

impl Loss for ComputedLossPlugin {
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

    /// Returns the memory limit of an instance.
    fn worker_bytes(&self, _columns: usize) -> usize {
        self.inner.0.program.limits.memory_bytes
    }
}

/// A worker with its own instance.
struct Worker {
    inner: Arc<SharedLoss>,
    /// A configured instance; `None` before the first call and after a call that failed.
    instantiated: Option<PluginInstance>,
}

impl LossWorker for Worker {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        let mut instantiated = self.instantiated.take();
        let rows = SCORES_AT_ONCE / scores.columns.max(1);
        scores.in_blocks(rows, |block| self.inner.call(&mut instantiated, block))?;
        self.instantiated = instantiated;
        Ok(())
    }
}
