//! The running groups of the pipeline: storage and edges on threads in parallel with training, or on the training
//! thread.

use std::sync::Arc;

use pbg_core::batch_graph::pipeline::{EDGES, PLANNING, Pipeline, STORAGE, TRAINING};
use pbg_core::event::GroupSeconds;
use pbg_model::error::RunError;
use pbg_model::layout::Layout;

use crate::buffer::{BufferSize, PartitionBuffer, TableStore};
use crate::edge_prefetch::{EdgePrefetcher, EdgePreparer};
use crate::stage_threads::StageClock;

/// Groups of a run. Training ends first, by dropping this value; the fields are dropped in order, so the reader of
/// edges ends next, and then storage, which may still write partitions.
pub struct RunningPipeline<S: TableStore> {
    pub(crate) edges: EdgePrefetcher,
    /// Tables in memory.
    pub buffer: PartitionBuffer<S>,
    /// Clock of training.
    pub(crate) training: Arc<StageClock>,
    /// Clock of planning, where planning is a group of threads.
    pub(crate) planning: Option<Arc<StageClock>>,
    /// Times of all groups at the last call of [`RunningPipeline::seconds`].
    reported: Vec<GroupSeconds>,
}

impl<S: TableStore> RunningPipeline<S> {
    /// Starts the groups of `pipeline`, connected by pipes of its capacities.
    ///
    /// # Errors
    /// When the system cannot start a thread, or a fixed table cannot be loaded.
    pub(crate) fn new(
        pipeline: &Pipeline,
        layout: Layout,
        size: BufferSize,
        store: S,
        edges: impl EdgePreparer,
    ) -> Result<Self, RunError> {
        let training = Arc::new(StageClock::default());
        let bound = |group| pipeline.pipe(group).map(|pipe| pipe.bound);
        let (storage, of_edges) = (bound(STORAGE), bound(EDGES));
        let (for_edges, for_tables) = (Arc::clone(&training), Arc::clone(&training));
        Ok(Self {
            edges: EdgePrefetcher::new(edges, of_edges, for_edges)?,
            buffer: PartitionBuffer::new(layout, size, storage, store, for_tables)?,
            training,
            planning: pipeline.pipe(PLANNING).map(|_| Arc::default()),
            reported: Vec::new(),
        })
    }

    /// Returns how each group spent the time since the last call, in the order of the pipeline.
    pub fn seconds(&mut self) -> Vec<GroupSeconds> {
        let training = self.training.read(TRAINING);
        let planning = self.planning.as_ref().map(|clock| clock.read(PLANNING));
        let beside = [self.buffer.seconds(), self.edges.seconds(), planning];
        let now: Vec<_> = beside.into_iter().flatten().chain([training]).collect();
        let mut before = std::mem::replace(&mut self.reported, now.clone());
        before.resize_with(now.len(), GroupSeconds::default);
        let both = now.iter().zip(&before);
        both.map(|(now, before)| now.since(before)).collect()
    }
}

#[cfg(test)]
mod tests;
