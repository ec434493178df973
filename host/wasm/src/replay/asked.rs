//! Repetition of failed calls.

use pbg_core::loss::{LossState, ScheduleProgress};
use pbg_core::strategy::{FaultCause, Loss, RelationSampler, RunLength, ScoreBlock, StrategyError};

use super::LossExecutor;
use crate::loss::LoadedLoss;

/// Draws and observes as often as before the fault, and once more.
pub(super) fn draw(
    walk: &mut dyn RelationSampler,
    losses: &[f32],
) -> Result<String, StrategyError> {
    for (drawn, &loss) in losses.iter().enumerate() {
        match walk.next()? {
            Some(draw) => walk.observe(draw.relation, loss)?,
            None => return Ok(format!("the end, after {drawn} draws")),
        }
    }
    Ok(match walk.next()? {
        Some(draw) => format!("{} edges of relation {}", draw.edges, draw.relation),
        None => format!("the end, after {} draws", losses.len()),
    })
}

pub(super) fn update(
    loss: LoadedLoss,
    run: RunLength,
    progress: &ScheduleProgress,
    values: &[f32],
) -> Result<String, StrategyError> {
    let LoadedLoss::Traced(traced) = loss else {
        return Ok("nothing: it is code, which has no parameters to update".to_owned());
    };
    let Some(mut schedule) = traced.schedule else {
        return Ok("nothing: its formula has no parameters that change".to_owned());
    };
    schedule.begin_run(run);
    let values = schedule.update(progress, values)?;
    Ok(format!("{values:?}"))
}

/// Returns a loss that can be evaluated, with the parameter values of the failed call.
pub(super) fn ready(
    loss: LoadedLoss,
    parameters: &[f32],
    executed: LossExecutor,
) -> Result<Box<dyn Loss>, StrategyError> {
    let traced = match loss {
        LoadedLoss::Computed(code) => return Ok(Box::new(code)),
        LoadedLoss::Traced(traced) => executed(traced),
    };
    let state = traced.state().map(|state| LossState {
        parameters: parameters.to_vec(),
        ..state
    });
    if let Some(state) = state {
        traced.restore(&state).map_err(|reason| {
            let other = format!("has other parameters than the one that failed: {reason}");
            not_asked(traced.as_ref(), &other)
        })?;
    }
    Ok(traced)
}

/// Returns the error for a loss that cannot be evaluated.
fn not_asked(loss: &dyn Loss, reason: &str) -> StrategyError {
    StrategyError {
        strategy: loss.id().clone(),
        function: "evaluate",
        reason: reason.into(),
        cause: FaultCause::Strategy,
    }
}

pub(super) fn evaluate(
    loss: &dyn Loss,
    positive: &[f32],
    negative: &[f32],
    columns: usize,
) -> Result<String, StrategyError> {
    let mut losses = vec![0.0; positive.len()];
    let scores = ScoreBlock {
        positive,
        negative: &mut negative.to_vec(),
        columns,
        positive_gradient: &mut vec![0.0; positive.len()],
        loss: &mut losses,
    };
    let checked = scores.checked();
    let mut scores = checked.map_err(|uneven| not_asked(loss, &uneven.to_string()))?;
    loss.worker().evaluate(&mut scores)?;
    let mean = losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / losses.len() as f64;
    Ok(format!(
        "losses of {} rows, {mean} on average",
        losses.len()
    ))
}
