//! Who says which bucket is trained next, and what becomes of it: the seam between the training loop and a machine
//! alone or one of several.

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

/// What the training loop asks for.
pub(crate) trait Coordinator<'a> {
    /// Where the machine's tables are.
    type Store: TableStore<Table = Table>;

    /// The machine that trains.
    fn machine(&mut self) -> &mut Machine<'a, Self::Store>;

    /// What comes before the first pass.
    fn begin(&mut self) -> Result<(), RunError>;

    /// The pass to train, planned; how the run ended, when nothing is left.
    fn begin_pass(&mut self) -> Result<ControlFlow<Outcome, (PassId, Arc<Pass>)>, RunError>;

    /// The bucket to train now; none when the pass has none left for this machine.
    fn next(&mut self, pass: &Pass) -> Result<Option<Acquired>, RunError>;

    /// The buckets that come behind this one, as far as they are known.
    fn behind(&self, acquired: Acquired) -> Vec<Bucket>;

    /// The bucket's partitions and edges are in memory, and its training begins.
    fn begin_bucket(&mut self, _acquired: Acquired) {}

    /// From where the bucket is trained, and whether it is left before its end once `stop` is set.
    fn span<'s>(&self, _stop: &'s AtomicBool) -> Span<'s> {
        Span::default()
    }

    /// The bucket is trained, or left before its end: it is put on record, and committed when that is due. With `stop`, the run ends behind it;
    /// gives how.
    fn settle(
        &mut self,
        acquired: Acquired,
        trained: Trained,
        stop: bool,
    ) -> Result<Option<Outcome>, RunError>;

    /// The pass has no bucket left for this machine.
    fn finish_pass(&mut self) -> Result<(), RunError>;
}
