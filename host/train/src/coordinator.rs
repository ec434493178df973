//! The seam between the training loop and the two kinds of runs, with a single trainer and with several: decides which
//! bucket is trained next and records what was trained.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_core::graph::Bucket;
use pbg_core::schedule::{LeasedBucket, PassId};
use pbg_core::strategy::Pass;
use pbg_model::error::RunError;
use pbg_model::resume_point::BatchRange;
use pbg_rows::table::Table;

use crate::bucket_trainer::{BucketResult, BucketTrainer};
use crate::buffer::TableStore;

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// All epochs are trained.
    Finished {
        /// Version of the checkpoint.
        version: u64,
    },
    /// The run stopped on request. Everything that was trained is committed.
    Interrupted {
        /// Version of the checkpoint.
        version: u64,
    },
}

/// Source of the training loop's buckets and receiver of its results.
pub trait Coordinator<'a> {
    /// Storage of the machine's tables.
    type Store: TableStore<Table = Table>;

    /// Returns the machine that trains.
    fn machine(&mut self) -> &mut BucketTrainer<'a, Self::Store>;

    /// Does the work that precedes the first pass.
    fn begin(&mut self) -> Result<(), RunError>;

    /// Begins the next pass and returns it with its plan, or the outcome of the run if no pass is left.
    fn begin_pass(&mut self) -> Result<ControlFlow<RunOutcome, (PassId, Arc<Pass>)>, RunError>;

    /// Acquires the bucket to train now. Returns none when the pass has no bucket left for this machine.
    fn next(&mut self, pass: &Pass) -> Result<Option<LeasedBucket>, RunError>;

    /// Returns the buckets that follow `acquired`, as far as they are known.
    fn upcoming(&self, acquired: LeasedBucket) -> Vec<Bucket>;

    /// Called when the bucket's partitions and edges are in memory and its training begins.
    fn begin_bucket(&mut self, _acquired: LeasedBucket) {}

    /// Returns the point within the bucket from which it is trained, and the flag that interrupts it, if it can be
    /// interrupted.
    fn batch_range<'s>(&self, _stop: &'s AtomicBool) -> BatchRange<'s> {
        BatchRange::default()
    }

    /// Records a bucket that was trained completely or interrupted, and commits if a commit is due. With `stop`, ends
    /// the run and returns its outcome.
    fn settle(
        &mut self,
        acquired: LeasedBucket,
        trained: BucketResult,
        stop: bool,
    ) -> Result<Option<RunOutcome>, RunError>;

    /// Called when the pass has no bucket left for this machine.
    fn finish_pass(&mut self) -> Result<(), RunError>;
}
