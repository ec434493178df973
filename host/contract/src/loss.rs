//! Checks of a loss.

mod direction;
mod parts;
mod scores;
mod update;

use std::num::NonZeroU32;
use std::time::Duration;

use pbg_core::strategy::{Loss, LossWorker, ScoreBlock, StrategyError};
use pbg_formula::loss::{LossGraph, LossParameter};

use crate::finding::ContractReport;
use crate::timing::{Timing, time};
use direction::LossDirections;
use scores::{EvaluatedRows, ScoreRows, cases, evaluate, finite, ordinary};

/// Properties of a traced loss; the default is that of a computed loss.
#[derive(Clone, Debug, Default)]
pub struct TracedLossInfo {
    /// Whether the gradient differs from that of the value on purpose, so that it is not compared with finite
    /// differences.
    stops_gradient: bool,
    /// Number of batches between calls of `update`; `None` if it is never called.
    update_every: Option<NonZeroU32>,
    /// Parameters that `update` changes.
    parameters: Vec<LossParameter>,
    /// The graph itself.
    graph: Option<LossGraph>,
}

impl TracedLossInfo {
    /// Returns the properties of a graph.
    #[must_use]
    pub fn of(graph: &LossGraph) -> Self {
        Self {
            stops_gradient: graph.stops_gradient(),
            update_every: graph.update_every(),
            parameters: graph.parameters().to_vec(),
            graph: Some(graph.clone()),
        }
    }
}

/// Checks a loss on ordinary and extreme scores, and the updates of its formula's parameters.
pub fn check_loss(loss: &dyn Loss, formula: &TracedLossInfo) -> ContractReport {
    let mut report = ContractReport::default();
    check_rows(&mut report, loss.worker().as_mut(), formula);
    if report.broken() > 0 {
        return report;
    }
    let mut directions = LossDirections::default();
    let mut tried = directions.add(loss.worker().as_mut());
    if let Some(every) = formula.update_every {
        let updates = update::check_updates(loss, &formula.parameters, every);
        let is_sound = updates.is_ok();
        report.add_promise("update", updates);
        if is_sound {
            tried = tried.and_then(|()| directions.add(loss.worker().as_mut()));
        }
    }
    report.add_promise("direction", tried.and_then(|()| directions.judged()));
    if let Some(graph) = &formula.graph {
        // With updates, a parameter may be what `update` remembers from call to call.
        if !graph.parameters().is_empty() && formula.update_every.is_none() {
            report.add_promise("parameters", parts::parameters(graph));
        }
        let idle = parts::idle(graph);
        if !idle.is_empty() {
            report.add_note("idle", idle.join("\n"));
        }
    }
    report
}

/// Checks one worker.
fn check_rows(report: &mut ContractReport, loss: &mut dyn LossWorker, formula: &TracedLossInfo) {
    let cases = cases();
    let found: Result<Vec<EvaluatedRows>, String> =
        cases.iter().map(|rows| finite(loss, rows)).collect();
    let Some(found) = report.unless_broken("finite", found) else {
        return;
    };
    let mut names: Vec<&str> = cases.iter().map(|rows| rows.name).collect();
    names.dedup();
    let tried = format!("losses and gradients, tried on {}", names.join(", "));
    report.add_promise("finite", Ok(tried));
    report.add_promise("deterministic", again(loss, &cases, &found));
    report.add_promise("rows", rows_alone(loss));
    if formula.stops_gradient {
        let note = "not compared: the formula stops gradients on purpose";
        report.add_note("gradient", note);
    } else {
        report.add_promise("gradient", gradient(loss));
    }
    let timing = bench_loss(loss, 50, 100, Duration::from_millis(20));
    let timing =
        timing.map_err(|fault| format!("50 x 100 scores: {}: {}", fault.function, fault.reason));
    if let Some(timing) = report.unless_broken("time", timing) {
        let median = timing.median * 1e6;
        let note = format_args!("{median:.1} us for 50 rows of 100 negatives, median");
        report.add_note("time", note);
    }
}

fn again(
    loss: &mut dyn LossWorker,
    cases: &[ScoreRows],
    found: &[EvaluatedRows],
) -> Result<String, String> {
    for (rows, before) in cases.iter().zip(found).rev() {
        if evaluate(loss, rows)? != *before {
            return Err(format!("{}: numbers vary for the same scores", rows.name));
        }
    }
    let count = cases.len();
    Ok(format!("the same numbers again for {count} batches"))
}

/// Checks that a row has the same loss alone and among others, since the host divides batches anywhere.
fn rows_alone(loss: &mut dyn LossWorker) -> Result<String, String> {
    let all = ordinary(9, 13);
    let together = evaluate(loss, &all)?;
    for (row, &positive) in all.positive.iter().enumerate() {
        let alone = ScoreRows {
            name: "one row of several",
            positive: vec![positive],
            negative: all.negative[row * 13..(row + 1) * 13].to_vec(),
            columns: 13,
        };
        let found = evaluate(loss, &alone)?;
        let near = |a: f32, b: f32| (a - b).abs() <= 1e-5 * (1.0 + a.abs());
        if !near(found.loss[0], together.loss[row]) {
            return Err(format!(
                "a row has the loss {} alone and {} among others; rows must not affect each other",
                found.loss[0], together.loss[row]
            ));
        }
    }
    Ok("have the same loss alone and among others".to_owned())
}

/// Step of the finite differences, in units of scores.
const STEP: f32 = 1.0 / 64.0;

/// Compares the gradient with slopes of the loss. Where the slopes to the left and to the right differ there is a kink,
/// and any slope between them is accepted.
fn gradient(loss: &mut dyn LossWorker) -> Result<String, String> {
    let (mut compared, mut worst) = (0, 0.0_f32);
    for rows in [ordinary(7, 5), ordinary(2, 60)] {
        let found = evaluate(loss, &rows)?;
        for row in 0..rows.positive.len() {
            let places = (0..=rows.columns).step_by(1 + rows.columns / 16);
            for place in places {
                let claimed = match place {
                    0 => found.positive[row],
                    n => found.negative[row * rows.columns + n - 1],
                };
                let (left, right) = slopes(loss, &rows, row, place, found.loss[row])?;
                let (least, most) = (left.min(right), left.max(right));
                let outside = (least - claimed).max(claimed - most).max(0.0);
                // Rounding errors of the loss, and its curvature within a step.
                let allowed = 2e-3 * (1.0 + claimed.abs()) + 1e-4 * found.loss[row].abs();
                if outside > allowed {
                    let of = match place {
                        0 => "the positive",
                        _ => "a negative",
                    };
                    return Err(format!(
                        "the gradient of {of} is {claimed}, finite differences give {least} to \
                         {most}; positive {}, negatives {:?}",
                        rows.positive[row],
                        &rows.negative[row * rows.columns..(row + 1) * rows.columns]
                    ));
                }
                compared += 1;
                worst = worst.max(outside);
            }
        }
    }
    Ok(format!(
        "{compared} derivatives agree with finite differences, to {worst:.1e}"
    ))
}

fn slopes(
    loss: &mut dyn LossWorker,
    rows: &ScoreRows,
    row: usize,
    place: usize,
    here: f32,
) -> Result<(f32, f32), String> {
    let mut moved = |by: f32| -> Result<f32, String> {
        let mut rows = rows.clone();
        match place {
            0 => rows.positive[row] += by,
            n => rows.negative[row * rows.columns + n - 1] += by,
        }
        Ok(evaluate(loss, &rows)?.loss[row])
    };
    Ok(((here - moved(-STEP)?) / STEP, (moved(STEP)? - here) / STEP))
}

/// Times the evaluation of a slice of `rows` rows with `columns` negatives.
///
/// # Errors
/// The first error of the loss.
pub fn bench_loss(
    loss: &mut dyn LossWorker,
    rows: usize,
    columns: usize,
    budget: Duration,
) -> Result<Timing, StrategyError> {
    let scores = ordinary(rows, columns);
    let mut negative = scores.negative.clone();
    let (mut gradient, mut value) = (vec![0.0; rows], vec![0.0; rows]);
    time(budget, || {
        negative.copy_from_slice(&scores.negative);
        loss.evaluate(&mut ScoreBlock {
            positive: &scores.positive,
            negative: &mut negative,
            columns,
            positive_gradient: &mut gradient,
            loss: &mut value,
        })
    })
}

#[cfg(test)]
mod tests {
    use pbg_core::strategy::MASKED;

    use super::*;

    /// Hinge loss whose gradients are multiplied by `factor`; the correct factor is 1.
    struct Hinge {
        factor: f32,
        margin: f32,
    }

    impl LossWorker for Hinge {
        fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
            let ScoreBlock {
                positive,
                negative,
                columns,
                positive_gradient,
                loss,
            } = scores;
            for (row, &score) in positive.iter().enumerate() {
                (loss[row], positive_gradient[row]) = (0.0, 0.0);
                for n in &mut negative[row * *columns..][..*columns] {
                    let excess = self.margin - score + *n;
                    let active = excess > 0.0 && *n != MASKED;
                    *n = if active { self.factor } else { 0.0 };
                    loss[row] += if active { excess } else { 0.0 };
                    positive_gradient[row] -= *n;
                }
            }
            Ok(())
        }
    }

    fn tried(mut loss: Hinge, stops_gradient: bool) -> ContractReport {
        let mut report = ContractReport::default();
        let formula = TracedLossInfo {
            stops_gradient,
            ..TracedLossInfo::default()
        };
        check_rows(&mut report, &mut loss, &formula);
        report
    }

    fn hinge(factor: f32, margin: f32) -> Hinge {
        Hinge { factor, margin }
    }

    #[test]
    fn a_right_loss_keeps_every_promise() {
        let report = tried(hinge(1.0, 0.1), false);
        assert_eq!(report.broken(), 0, "{report:?}");
    }

    #[test]
    fn a_wrong_gradient_is_found() {
        let report = tried(hinge(1.1, 0.1), false);
        assert_eq!(report.broken(), 1, "{report:?}");
        assert_eq!(tried(hinge(1.1, 0.1), true).broken(), 0);
    }

    #[test]
    fn a_loss_that_is_not_finite_is_found() {
        let report = tried(hinge(1.0, f32::INFINITY), false);
        assert_eq!(report.findings()[0].promise, "finite");
        assert_eq!(report.broken(), 1, "{report:?}");
    }
}
