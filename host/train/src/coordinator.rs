//! The seam between the training loop and the two kinds of runs, with a single trainer and with several: decides which
//! bucket is trained next and records what was trained.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_core::graph::Bucket;
use pbg_core::schedule::{Acquired, PassId};
use pbg_core::strategy::Pass;
use pbg_kernels::table::Table;

use crate::buffer::TableStore;
use crate::error::RunError;
use crate::machine::{Machine, Trained};
use crate::run::Outcome;
use crate::within::Span;

/// Source of the training loop's buckets and receiver of its results.
pub(crate) trait Coordinator<'a> {
    /// Storage of the machine's tables.
    type Store: TableStore<Table = Table>;

    /// Returns the machine that trains.
    fn machine(&mut self) -> &mut Machine<'a, Self::Store>;

    /// Does the work that precedes the first pass.
    fn begin(&mut self) -> Result<(), RunError>;

    /// Begins the next pass and returns it with its plan, or the outcome of the run if no pass is left.
    fn begin_pass(&mut self) -> Result<ControlFlow<Outcome, (PassId, Arc<Pass>)>, RunError>;

    /// Acquires the bucket to train now. Returns none when the pass has no bucket left for this machine.
    fn next(&mut self, pass: &Pass) -> Result<Option<Acquired>, RunError>;

    /// Returns the buckets that follow `acquired`, as far as they are known.
    fn behind(&self, acquired: Acquired) -> Vec<Bucket>;

    /// Called when the bucket's partitions and edges are in memory and its training begins.
    fn begin_bucket(&mut self, _acquired: Acquired) {}

    /// Returns the point within the bucket from which it is trained, and the flag that interrupts it, if it can be
    /// interrupted.
    fn span<'s>(&self, _stop: &'s AtomicBool) -> Span<'s> {
        Span::default()
    }

    /// Records a bucket that was trained completely or interrupted, and commits if a commit is due. With `stop`, ends
    /// the run and returns its outcome.
    fn settle(
        &mut self,
        acquired: Acquired,
        trained: Trained,
        stop: bool,
    ) -> Result<Option<Outcome>, RunError>;

    /// Called when the pass has no bucket left for this machine.
    fn finish_pass(&mut self) -> Result<(), RunError>;
}
