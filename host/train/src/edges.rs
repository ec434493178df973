//! The edges of buckets: read, divided and shuffled by a group of their own, the next bucket's while the
//! current one is trained.

use std::collections::VecDeque;
use std::sync::Arc;

use pbg_core::batch_graph::pipeline;
use pbg_core::batching;
use pbg_core::event::GroupSeconds;
use pbg_core::graph::{Bucket, Edges};
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, Purpose};
use pbg_store::dataset::EdgeSet;

use crate::error::RunError;
use crate::groups::{Clock, GroupHandle, Work};

/// Which edges, and in which order.
#[derive(Clone, Debug)]
pub(crate) struct EdgeSource {
    pub(crate) edge_sets: Arc<Vec<EdgeSet>>,
    /// Chunks that each bucket is cut into.
    pub(crate) chunks: u32,
    pub(crate) seed: u64,
    /// Share of edges that are held out.
    pub(crate) eval_fraction: f64,
}

/// The edges of a bucket's chunk, divided.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) edges: Edges,
    /// Held-out edges, the same in every epoch.
    pub(crate) held: Vec<u32>,
    /// The others in a new random order.
    pub(crate) order: Vec<u32>,
}

impl Prepare for EdgeSource {
    fn prepare(&self, pass: PassId, bucket: Bucket) -> Result<Prepared, RunError> {
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
        let mut rng = seed::stream(self.seed, Purpose::HoldOut, &at[..4]);
        let (held, mut order) =
            batching::hold_out(edges.len() as u32, self.eval_fraction, &mut rng);
        let mut rng = seed::stream(self.seed, Purpose::Shuffle, &at);
        batching::shuffle(&mut order, &mut rng);
        Ok(Prepared { edges, held, order })
    }
}

type Wanted = (PassId, Bucket);

/// What prepares edges.
pub(crate) trait Prepare: Send + Sync + 'static {
    /// The edges of a bucket in a pass.
    ///
    /// # Errors
    /// When they cannot be read.
    fn prepare(&self, pass: PassId, bucket: Bucket) -> Result<Prepared, RunError>;
}

/// What the edges group does.
struct Edging(Box<dyn Prepare>);

impl Work for Edging {
    type Order = Wanted;
    type Made = Prepared;

    fn perform(&mut self, (pass, bucket): Wanted) -> Result<Prepared, RunError> {
        self.0.prepare(pass, bucket)
    }
}

/// The group that prepares edges.
pub(crate) struct EdgeReader {
    group: GroupHandle<Edging>,
    /// Buckets that may be prepared before they are asked for.
    ahead: usize,
    /// What it was asked for and has not handed over yet, in order.
    asked: VecDeque<Wanted>,
}

impl EdgeReader {
    /// Edges prepared by a group of its own if `ahead` says how many buckets ahead; without, by who asks.
    pub(crate) fn new(
        source: impl Prepare,
        ahead: Option<usize>,
        training: Arc<Clock>,
    ) -> Result<Self, RunError> {
        let pipe = ahead.map(|ahead| (pipeline::EDGES, ahead));
        Ok(Self {
            group: GroupHandle::start(pipe, Edging(Box::new(source)), training)?,
            ahead: ahead.unwrap_or(0),
            asked: VecDeque::new(),
        })
    }

    /// Has the edges of the buckets that come next in `plan` prepared, as many as may be ready before they are
    /// taken.
    pub(crate) fn start(&mut self, pass: PassId, plan: &[Bucket]) {
        for &bucket in plan.iter().take(self.ahead).skip(self.asked.len()) {
            self.ask((pass, bucket));
        }
    }

    /// The edges of a bucket, waited for if they were asked for before.
    pub(crate) fn take(&mut self, pass: PassId, bucket: Bucket) -> Result<Prepared, RunError> {
        loop {
            if self.asked.is_empty() {
                self.ask((pass, bucket));
            }
            let prepared = self.group.receive()?;
            if self.asked.pop_front() == Some((pass, bucket)) {
                return Ok(prepared);
            }
            // Another bucket came than the one that was expected.
        }
    }

    /// Where the group's time went, if it has a thread.
    pub(crate) fn seconds(&self) -> Option<GroupSeconds> {
        self.group.seconds()
    }

    fn ask(&mut self, wanted: Wanted) {
        self.asked.push_back(wanted);
        self.group.order(wanted);
    }
}
