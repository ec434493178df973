//! The training loop, which follows this line:
//! edges on disk -> bucket schedule -> partition buffer -> batches -> kernels -> update -> checkpoint.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pbg_core::event::Event;
use pbg_kernels::device::OpenDevice;
use pbg_model::compatibility::AllowedChanges;
use pbg_model::error::RunError;
use pbg_model::resolved::ResolvedConfig;

use crate::coordinator::{Coordinator, RunOutcome};
use crate::executor;
use crate::single_trainer::SingleTrainer;
use crate::strategies::Strategies;

/// Trains up to the last epoch of the configuration, starting where the checkpoint ends.
///
/// Once `stop` is set, the current bucket is finished and committed. Where
/// [`stops_within_buckets`](pbg_model::resume_point::stops_within_buckets) holds, only the current batches are finished.
///
/// # Errors
/// When the configuration does not fit the checkpoint, a file cannot be read or written, a strategy fails, or the
/// loss is not finite. The last committed version remains.
pub fn train(
    resolved: &ResolvedConfig,
    strategies: Strategies,
    allowed: AllowedChanges,
    stop: &AtomicBool,
    emit: &mut dyn FnMut(Event),
) -> Result<RunOutcome, RunError> {
    // This comes first: libtorch's capabilities are settled at its first use.
    let place = executor::open_device(resolved)?;
    train_at(resolved, strategies, allowed, place, stop, emit)
}

/// Trains as [`train`] does, but on `place` instead of on `execution.device`; without a `place`, on the processor
/// cores.
///
/// # Errors
/// As [`train`].
pub fn train_at(
    resolved: &ResolvedConfig,
    strategies: Strategies,
    allowed: AllowedChanges,
    place: Option<Arc<dyn OpenDevice>>,
    stop: &AtomicBool,
    emit: &mut dyn FnMut(Event),
) -> Result<RunOutcome, RunError> {
    train_passes(
        &mut SingleTrainer::open(resolved, strategies, allowed, place, emit)?,
        stop,
    )
}

/// Trains pass after pass and bucket after bucket, each along the whole line.
///
/// # Errors
/// When `run` or the machine fails. What was committed before remains.
pub fn train_passes<'a>(
    run: &mut impl Coordinator<'a>,
    stop: &AtomicBool,
) -> Result<RunOutcome, RunError> {
    run.begin()?;
    loop {
        let (id, pass) = match run.begin_pass()? {
            ControlFlow::Continue(pass) => pass,
            ControlFlow::Break(outcome) => return Ok(outcome),
        };
        while let Some(acquired) = run.next(&pass)? {
            let next = run.upcoming(acquired);
            let machine = run.machine();
            let mut io = machine.load(acquired)?;
            let prepared = machine.take_edges(id, acquired, &next, &mut io)?;
            run.begin_bucket(acquired);
            let span = run.batch_range(stop);
            let machine = run.machine();
            let trained = machine.train_edges(id, acquired.bucket, &prepared, io, &span)?;
            drop(prepared);
            let stop = stop.load(Ordering::Relaxed);
            if let Some(outcome) = run.settle(acquired, trained, stop)? {
                return Ok(outcome);
            }
        }
        run.finish_pass()?;
    }
}
