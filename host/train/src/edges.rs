//! The edges of buckets: read, divided and shuffled on a thread of their own, the next bucket's while the
//! current one is trained.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use pbg_core::batching;
use pbg_core::graph::{Bucket, Edges};
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, Purpose};
use pbg_store::dataset::EdgeSet;

use crate::error::RunError;

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

impl EdgeSource {
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

/// The thread that prepares edges.
#[derive(Debug)]
pub(crate) struct EdgeReader {
    /// Dropping it ends the thread.
    wanted: Option<SyncSender<Wanted>>,
    /// Never locked: it makes the reader one that threads may hold.
    prepared: Mutex<Receiver<Result<Prepared, RunError>>>,
    thread: Option<JoinHandle<()>>,
    /// What it was asked for and has not handed over yet.
    ahead: Option<Wanted>,
}

impl EdgeReader {
    pub(crate) fn new(source: EdgeSource) -> Result<Self, RunError> {
        let (wanted, asked) = sync_channel::<Wanted>(1);
        let (report, prepared) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("edges".to_owned())
            .spawn(move || {
                for (pass, bucket) in asked {
                    if report.send(source.prepare(pass, bucket)).is_err() {
                        break;
                    }
                }
            })
            .map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            wanted: Some(wanted),
            prepared: Mutex::new(prepared),
            thread: Some(thread),
            ahead: None,
        })
    }

    /// Starts preparing the edges of a bucket; nothing else may be asked for before they are taken.
    pub(crate) fn start(&mut self, pass: PassId, bucket: Bucket) {
        self.ahead = Some((pass, bucket));
        // A thread that is gone is noticed by `take`, which waits for its answer.
        let _gone = self.wanted.as_ref().map(|w| w.send((pass, bucket)));
    }

    /// The edges of a bucket, waited for if they were asked for before.
    pub(crate) fn take(&mut self, pass: PassId, bucket: Bucket) -> Result<Prepared, RunError> {
        if self.ahead.is_some_and(|ahead| ahead != (pass, bucket)) {
            // Another bucket came than the one that was expected.
            self.receive()?;
        }
        if self.ahead.is_none() {
            self.start(pass, bucket);
        }
        self.receive()
    }

    fn receive(&mut self) -> Result<Prepared, RunError> {
        self.ahead = None;
        let prepared = self
            .prepared
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        prepared.recv().map_err(|_| RunError::WorkerPanic)?
    }
}

impl Drop for EdgeReader {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked with was printed; there is nobody left to tell.
            let _panicked = thread.join();
        }
    }
}
