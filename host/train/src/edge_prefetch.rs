//! The edges of buckets. A separate group reads, divides and shuffles the edges of the next bucket while the current
//! one is trained.

use std::collections::VecDeque;
use std::sync::Arc;

use pbg_core::batch_graph::pipeline;
use pbg_core::batching;
use pbg_core::event::GroupSeconds;
use pbg_core::graph::{Bucket, EdgeColumns};
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, StreamPurpose};
use pbg_dataset::EdgeSet;
use pbg_model::error::RunError;

use crate::stage_threads::{StageClock, StageHandle, StageWork};

/// Source of a run's edges, which also determines their order.
#[derive(Clone, Debug)]
pub(crate) struct EdgeSource {
    pub(crate) edge_sets: Arc<Vec<EdgeSet>>,
    /// Number of chunks of each bucket.
    pub(crate) chunks: u32,
    pub(crate) seed: u64,
    /// Fraction of the edges that is held out.
    pub(crate) eval_fraction: f64,
}

/// Edges of a bucket's chunk, divided into held-out and trained ones.
#[derive(Debug)]
pub(crate) struct PreparedEdges {
    pub(crate) edges: EdgeColumns,
    /// Indices of the held-out edges, the same in every epoch.
    pub(crate) held: Vec<u32>,
    /// Indices of the trained edges, in a new random order.
    pub(crate) order: Vec<u32>,
}

impl EdgePreparer for EdgeSource {
    fn prepare(&self, pass: PassId, bucket: Bucket) -> Result<PreparedEdges, RunError> {
        let edge_set = &self.edge_sets[pass.edge_set as usize];
        let len = edge_set.bucket_len(bucket);
        let rows = batching::chunk_range(len, pass.edge_chunk, self.chunks);
        let edges = edge_set.read(bucket, rows)?;
        let at = [
            pass.edge_set,
            pass.edge_chunk,
            bucket.lhs,
            bucket.rhs,
            pass.epoch,
        ]
        .map(u64::from);
        let mut rng = seed::stream(self.seed, StreamPurpose::HoldOut, &at[..4]);
        let (held, mut order) =
            batching::hold_out(edges.len() as u32, self.eval_fraction, &mut rng);
        let mut rng = seed::stream(self.seed, StreamPurpose::Shuffle, &at);
        batching::shuffle(&mut order, &mut rng);
        Ok(PreparedEdges { edges, held, order })
    }
}

type EdgeRequest = (PassId, Bucket);

/// Source that prepares the edges of buckets.
pub(crate) trait EdgePreparer: Send + Sync + 'static {
    /// Returns the edges of a bucket in a pass.
    ///
    /// # Errors
    /// When the edges cannot be read.
    fn prepare(&self, pass: PassId, bucket: Bucket) -> Result<PreparedEdges, RunError>;
}

/// Work of the edges group.
struct EdgeWork(Box<dyn EdgePreparer>);

impl StageWork for EdgeWork {
    type Order = EdgeRequest;
    type Made = PreparedEdges;

    fn perform(&mut self, (pass, bucket): EdgeRequest) -> Result<PreparedEdges, RunError> {
        self.0.prepare(pass, bucket)
    }
}

/// Handle of the group that prepares edges.
pub(crate) struct EdgePrefetcher {
    group: StageHandle<EdgeWork>,
    /// Number of buckets that may be prepared ahead.
    ahead: usize,
    /// Requests whose results were not taken yet, in order.
    asked: VecDeque<EdgeRequest>,
}

impl EdgePrefetcher {
    /// Starts a group that prepares edges for `ahead` buckets ahead. Without `ahead`, the calling thread prepares them.
    pub(crate) fn new(
        source: impl EdgePreparer,
        ahead: Option<usize>,
        training: Arc<StageClock>,
    ) -> Result<Self, RunError> {
        let pipe = ahead.map(|ahead| (pipeline::EDGES, ahead));
        Ok(Self {
            group: StageHandle::start(pipe, EdgeWork(Box::new(source)), training)?,
            ahead: ahead.unwrap_or(0),
            asked: VecDeque::new(),
        })
    }

    /// Requests the edges of the next buckets of `plan`, as many as may be prepared ahead.
    pub(crate) fn start(&mut self, pass: PassId, plan: &[Bucket]) {
        for &bucket in plan.iter().take(self.ahead).skip(self.asked.len()) {
            self.ask((pass, bucket));
        }
    }

    /// Returns the edges of a bucket, after waiting for them if they are being prepared.
    pub(crate) fn take(&mut self, pass: PassId, bucket: Bucket) -> Result<PreparedEdges, RunError> {
        loop {
            if self.asked.is_empty() {
                self.ask((pass, bucket));
            }
            let prepared = self.group.receive()?;
            if self.asked.pop_front() == Some((pass, bucket)) {
                return Ok(prepared);
            }
            // The edges are those of another bucket, which was expected but not acquired.
        }
    }

    /// Returns how the group spent its time, if it has a thread.
    pub(crate) fn seconds(&self) -> Option<GroupSeconds> {
        self.group.seconds()
    }

    fn ask(&mut self, wanted: EdgeRequest) {
        self.asked.push_back(wanted);
        self.group.order(wanted);
    }
}
