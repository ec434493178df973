//! The promise of a loss that changes parameters of its formula while training goes on.

use std::num::NonZeroU32;

use pbg_core::loss::{LossState, Observed, Parameter, named_values};
use pbg_core::strategy::{Loss, RunLength};

use super::{cases, finite};

/// Batches of the run that is played, or more where `update` is called less often.
const BATCHES: u64 = 1 << 20;

/// Updates that are tried at least.
const UPDATES: u64 = 20;

/// Edges of a batch.
const EDGES: u64 = 1000;

/// Epochs of the run.
const EPOCHS: u32 = 8;

/// Plays a run in which the loss falls, from update to update, and evaluates the loss after each.
pub(super) fn tried(
    loss: &dyn Loss,
    parameters: &[Parameter],
    every: NonZeroU32,
) -> Result<String, String> {
    let every = u64::from(every.get());
    let (mut batches, mut updates) = (0_u64, 0_u64);
    let mut told = 0.0;
    let length = BATCHES.max(UPDATES.saturating_mul(every));
    loss.begin_run(RunLength {
        epochs: EPOCHS,
        edges_per_epoch: length.saturating_mul(EDGES) / u64::from(EPOCHS),
        batches: length,
    });
    while updates < UPDATES || batches < BATCHES {
        // As many batches as were trained until then, from the second update on: few updates reach the end of a long run.
        let passed = if updates < UPDATES {
            every
        } else {
            batches.next_multiple_of(every)
        };
        (batches, updates) = (batches + passed, updates + 1);
        told = mean_loss(updates);
        let observed = Observed {
            batches: passed,
            edges: passed * EDGES,
            loss: told * (passed * EDGES) as f64,
        };
        let place = || format!("after {batches} batches, told a mean loss of {told}");
        let values =
            update_twice(loss, &observed).map_err(|broken| format!("{}: {broken}", place()))?;
        still_finite(loss).map_err(|broken| {
            format!(
                "{}, it left {}: {broken}",
                place(),
                named_values(parameters, &values)
            )
        })?;
    }
    let values = loss.state().unwrap_or_default().parameters;
    let first: Vec<f32> = parameters.iter().map(|parameter| parameter.value).collect();
    Ok(format!(
        "{updates} calls, the last after {batches} batches with a mean loss of {told}, from {} to {}, with \
         which losses and gradients are finite",
        named_values(parameters, &first),
        named_values(parameters, &values)
    ))
}

/// Falls from 3 to 0, which losses with a margin reach.
fn mean_loss(update: u64) -> f64 {
    if update > UPDATES {
        0.0
    } else {
        3.0 / update as f64
    }
}

/// Values after an update, which must be the same whenever it is asked for.
fn update_twice(loss: &dyn Loss, observed: &Observed) -> Result<Vec<f32>, String> {
    let before = loss.state().unwrap_or_default();
    let first = counted(loss, observed)?;
    loss.restore(&before)?;
    let second = counted(loss, observed)?;
    if first.parameters != second.parameters {
        return Err("`update` answers other values to the same question".to_owned());
    }
    Ok(second.parameters)
}

fn counted(loss: &dyn Loss, observed: &Observed) -> Result<LossState, String> {
    let counted = loss.count(observed);
    counted.map_err(|fault| format!("{}: {}", fault.function, fault.reason))?;
    Ok(loss.state().unwrap_or_default())
}

fn still_finite(loss: &dyn Loss) -> Result<(), String> {
    let mut worker = loss.worker();
    for rows in cases() {
        finite(worker.as_mut(), &rows)?;
    }
    Ok(())
}
