//! Losses as code: called for every slice, from every worker.

use std::sync::{Mutex, PoisonError};

use pbg_core::strategy::{Loss, MASKED, StrategyError, StrategyId};

use crate::bindings::loss_computed::{Evaluation, GuestIndices};
use crate::error::LoadError;
use crate::program::{Seat, chain};
use crate::replay::{Call, KEPT, Scores};
use crate::strategy::{SMALL_ANSWER, Strategy};

/// Scores that one call hands over, where a row has fewer: 256 KiB.
const SCORES: usize = 64 << 10;

/// A loss that is called for its values. Every answer is checked before it is used.
///
/// Workers share idle instances, one for each at a time; one that faulted is never used again.
pub struct ComputedLoss {
    strategy: Strategy,
    exports: GuestIndices,
    idle: Mutex<Vec<Option<Seat>>>,
}

/// Makes a loss of a component, and sees that it accepts its configuration.
pub(crate) fn load(strategy: Strategy) -> Result<ComputedLoss, LoadError> {
    let exports =
        GuestIndices::new(&strategy.program.pre).map_err(|error| LoadError::Interface {
            label: strategy.program.label.clone(),
            reason: chain(&error),
        })?;
    let loss = ComputedLoss {
        strategy,
        exports,
        idle: Mutex::default(),
    };
    match loss.seat() {
        Ok(seat) => loss.give_back(seat),
        Err(fault) => return Err(loss.strategy.load_error(fault)),
    }
    Ok(loss)
}

/// Rows of scores, and where their gradients go.
struct Rows<'a> {
    positive: &'a [f32],
    negative: &'a mut [f32],
    columns: usize,
    positive_gradient: &'a mut [f32],
    loss: &'a mut [f32],
}

impl ComputedLoss {
    pub(crate) fn strategy_id(&self) -> &StrategyId {
        &self.strategy.id
    }

    /// An instance that is configured and idle.
    fn seat(&self) -> Result<Option<Seat>, StrategyError> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        match idle {
            Some(seat) => Ok(seat),
            None => self.strategy.open(|store, instance, parameters| {
                self.exports
                    .load(&mut *store, instance)?
                    .call_configure(store, parameters)
            }),
        }
    }

    fn give_back(&self, seat: Option<Seat>) {
        if seat.is_some() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(seat);
        }
    }

    /// One call; the scores of one that fails are kept.
    fn call(&self, seat: &mut Option<Seat>, rows: &mut Rows<'_>) -> Result<(), StrategyError> {
        self.call_checked(seat, rows).map_err(|error| {
            let call = || {
                let scores = rows.positive.len() + rows.negative.len();
                (scores <= KEPT).then(|| Call::Evaluate {
                    positive: Scores(rows.positive.to_vec()),
                    negative: Scores(rows.negative.to_vec()),
                    columns: rows.columns,
                    parameters: Vec::new(),
                })
            };
            self.strategy.record(error, call)
        })
    }

    /// Leaves the scores as they are where it fails.
    fn call_checked(
        &self,
        seat: &mut Option<Seat>,
        rows: &mut Rows<'_>,
    ) -> Result<(), StrategyError> {
        let Ok(columns) = u32::try_from(rows.columns) else {
            return Err(self.fault(format!("{} negatives are too many", rows.columns)));
        };
        let right = size_of::<f32>() * (2 * rows.positive.len() + rows.negative.len());
        let limit = self.strategy.program.limits.result_bytes;
        if right > limit {
            return Err(self.fault(format!(
                "gradients of {columns} negatives exceed the {limit} bytes of an answer; use a \
                 traced loss, or fewer negatives"
            )));
        }
        // Twice a right answer, so that one of the wrong length gets the message about its length.
        let bytes = right.saturating_mul(2).saturating_add(SMALL_ANSWER);
        let answer = self
            .strategy
            .call(seat, "evaluate", bytes, |store, instance| {
                self.exports.load(&mut *store, instance)?.call_evaluate(
                    store,
                    rows.positive,
                    rows.negative,
                    columns,
                )
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
        self.strategy.fault("evaluate", reason)
    }
}

/// Lengths and finiteness.
fn check(answer: &Evaluation, rows: &Rows<'_>) -> Result<(), String> {
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
        &self.strategy.id
    }

    fn evaluate(
        &self,
        positive: &[f32],
        negative: &mut [f32],
        columns: usize,
        positive_gradient: &mut [f32],
        loss: &mut [f32],
    ) -> Result<(), StrategyError> {
        let mut seat = self.seat()?;
        let rows = (SCORES / columns.max(1)).clamp(1, SCORES);
        let mut negative = negative;
        let parts = positive
            .chunks(rows)
            .zip(positive_gradient.chunks_mut(rows))
            .zip(loss.chunks_mut(rows));
        for ((positive, positive_gradient), loss) in parts {
            let (scores, rest) = negative.split_at_mut(positive.len() * columns);
            negative = rest;
            let mut rows = Rows {
                positive,
                negative: scores,
                columns,
                positive_gradient,
                loss,
            };
            self.call(&mut seat, &mut rows)?;
        }
        self.give_back(seat);
        Ok(())
    }

    /// What an instance may take at most.
    fn worker_bytes(&self, _columns: usize) -> usize {
        self.strategy.program.limits.memory_bytes
    }
}
