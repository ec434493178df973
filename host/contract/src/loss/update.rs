//! Check of a loss that changes parameters of its formula during training.

use std::num::NonZeroU32;

use pbg_core::loss::{LossState, ObservedBatches, named_values};
use pbg_core::strategy::{Loss, RunLength};
use pbg_formula::loss::LossParameter;

use super::scores::{cases, finite};

/// Batches of the simulated run; more if `update` is called rarely.
const BATCHES: u64 = 1 << 20;

/// Smallest number of updates.
const UPDATES: u64 = 20;

/// Edges per batch.
const EDGES: u64 = 1000;

/// Epochs of the simulated run.
const EPOCHS: u32 = 8;

/// Simulates a run in which the mean loss falls from update to update, and evaluates the loss after each update.
pub(super) fn check_updates(
    loss: &dyn Loss,
    parameters: &[LossParameter],
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
        // From update `UPDATES` on, as many batches pass as had been trained by then, so that few updates reach the end
        // of a long run.
        let passed = if updates < UPDATES {
            every
        } else {
            batches.next_multiple_of(every)
        };
        (batches, updates) = (batches + passed, updates + 1);
        told = mean_loss(updates);
        let observed = ObservedBatches {
            batches: passed,
            edges: passed * EDGES,
            loss: told * (passed * EDGES) as f64,
        };
        let place = || format!("after {batches} batches, with a mean loss of {told}");
        let values =
            update_twice(loss, &observed).map_err(|broken| format!("{}: {broken}", place()))?;
        still_finite(loss).map_err(|broken| {
            format!(
                "{}, `update` returned {}: {broken}",
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

/// Returns the mean loss of an update: it falls from 3 to 0, which losses with a margin reach.
fn mean_loss(update: u64) -> f64 {
    if update > UPDATES {
        0.0
    } else {
        3.0 / update as f64
    }
}

/// Updates the parameters twice from the same state, and returns their values. They must be the same both times.
fn update_twice(loss: &dyn Loss, observed: &ObservedBatches) -> Result<Vec<f32>, String> {
    let before = loss.state().unwrap_or_default();
    let first = counted(loss, observed)?;
    loss.restore(&before)?;
    let second = counted(loss, observed)?;
    if first.parameters != second.parameters {
        return Err("`update` returned other values for the same arguments".to_owned());
    }
    Ok(second.parameters)
}

fn counted(loss: &dyn Loss, observed: &ObservedBatches) -> Result<LossState, String> {
    let counted = loss.update_shared(observed);
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
