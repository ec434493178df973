//! Losses as the training step takes them.

use pbg_core::loss::TracedLoss;
use pbg_core::strategy::Loss;
use pbg_kernels::losses::Traced;

/// Makes a graph something that can be evaluated: its gradient is derived, its execution planned.
#[must_use]
pub fn traced(loss: TracedLoss) -> Box<dyn Loss> {
    Box::new(Traced::new(loss))
}
