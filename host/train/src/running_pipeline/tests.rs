//! Tests that reading, preparing edges and training overlap, and in which order they end.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use pbg_core::batch_graph::pipeline::{PipelineParameters, SlicePlan};
use pbg_core::graph::{Bucket, EdgeColumns};
use pbg_core::model::Update;
use pbg_core::plan::Belady;
use pbg_core::schedule::{LeasedBucket, PassId};
use pbg_core::strategy::Pass;
use pbg_model::layout::{TableKey, TypeLayout};

use super::*;
use crate::disk_limit::DiskLimit;
use crate::edge_prefetch::PreparedEdges;

/// Record of events, and the groups that are at work now.
#[derive(Default)]
struct Watch {
    seen: Mutex<(Vec<&'static str>, BTreeSet<&'static str>)>,
    changed: Condvar,
}

impl Watch {
    fn note(&self, what: &'static str) {
        self.seen.lock().unwrap().0.push(what);
    }

    /// Begins the work of a group and waits until all three groups are at work. They can meet only if none waits for
    /// another one to finish.
    fn meet(&self, who: &'static str) -> bool {
        let mut seen = self.seen.lock().unwrap();
        seen.1.insert(who);
        self.changed.notify_all();
        let limit = Duration::from_secs(60);
        let apart = |seen: &mut (_, BTreeSet<&str>)| seen.1.len() < 3;
        let (_seen, waited) = self.changed.wait_timeout_while(seen, limit, apart).unwrap();
        !waited.timed_out()
    }
}

/// Storage of empty tables. The partitions of the second bucket are read only while the other groups work.
struct Tables(Arc<Watch>);

impl TableStore for Tables {
    type Table = ();
    type Cut = ();

    fn load(&self, (_, partition): TableKey) -> Result<(), RunError> {
        if partition == 2 && !self.0.meet(STORAGE) {
            return Err(RunError::Thread("read alone".to_owned()));
        }
        Ok(())
    }

    fn save(&self, _: TableKey, (): &()) -> Result<(), RunError> {
        self.0.note("saved");
        Ok(())
    }

    fn begin(&self, (): ()) -> Result<(), RunError> {
        Ok(())
    }

    fn add(&self, _: TableKey, (): &()) -> Result<(), RunError> {
        Ok(())
    }

    fn continue_commit(&self) -> Result<Option<u64>, RunError> {
        Ok(Some(1))
    }

    fn copy(&self, (): &(), _over: Option<()>) {}
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.0.note("storage ended");
    }
}

/// Source of no edges. Those of the second bucket are prepared only while the other groups work.
struct NoEdges(Arc<Watch>);

impl EdgePreparer for NoEdges {
    fn prepare(&self, _: PassId, bucket: Bucket) -> Result<PreparedEdges, RunError> {
        if bucket == SECOND && !self.0.meet(EDGES) {
            return Err(RunError::Thread("prepared alone".to_owned()));
        }
        Ok(PreparedEdges {
            edges: EdgeColumns::default(),
            held: Vec::new(),
            order: Vec::new(),
        })
    }
}

impl Drop for NoEdges {
    fn drop(&mut self) {
        self.0.note("edges ended");
    }
}

const FIRST: Bucket = Bucket { lhs: 0, rhs: 1 };
const SECOND: Bucket = Bucket { lhs: 2, rhs: 2 };

fn layout() -> Layout {
    Layout {
        types: vec![TypeLayout {
            name: "node".to_owned(),
            dimension: 4,
            storage: Default::default(),
            optimizer: Default::default(),
            frozen: false,
            rows: vec![10; 3],
            on_lhs: true,
            on_rhs: true,
        }],
        lhs_partitions: 3,
        rhs_partitions: 3,
        shared: true,
    }
}

/// Begins a pass of the two buckets, with a buffer that holds only the first one's partitions.
fn begin(line: &mut RunningPipeline<Tables>) {
    let pass = Arc::new(Pass {
        lhs_partitions: 3,
        rhs_partitions: 3,
        shared: true,
        edges: vec![1; 9],
        lhs_bytes: vec![1; 3],
        rhs_bytes: vec![1; 3],
        buffer_partitions: 2,
        resident: Vec::new(),
        epoch: 0,
        edge_set: 0,
        edge_chunk: 0,
        seed: 0,
    });
    let plan = vec![FIRST, SECOND];
    let eviction = Belady::new(&pass, &plan);
    line.buffer.begin_pass(pass, plan, Box::new(eviction));
}

fn line(watch: &Arc<Watch>, prefetch: bool) -> RunningPipeline<Tables> {
    let machine = PipelineParameters {
        partitions_ahead: 2 * usize::from(prefetch),
        swapped: 1,
        partition_bytes: 1,
        buckets_ahead: usize::from(prefetch),
        edge_bytes: 1,
        batches_ahead: 0,
        planned_bytes: 0,
        threads: 1,
        gpu: None,
    };
    let pipeline = Pipeline::new(&machine, &SlicePlan::default(), Update::Batch);
    let size = BufferSize {
        slots: 2,
        copies: 0,
        limit: DiskLimit::default(),
    };
    let (tables, edges) = (Tables(Arc::clone(watch)), NoEdges(Arc::clone(watch)));
    RunningPipeline::new(&pipeline, layout(), size, tables, edges).expect("threads")
}

fn at(position: usize, bucket: Bucket) -> LeasedBucket {
    LeasedBucket { bucket, position }
}

#[test]
fn reads_edges_and_training_overlap_and_end_in_order() {
    let watch = Arc::new(Watch::default());
    let mut line = line(&watch, true);
    begin(&mut line);
    let pass = PassId::default();
    line.buffer.make_resident(at(0, FIRST)).expect("partitions");
    line.buffer.prefetch(0);
    line.edges.take(pass, FIRST).expect("edges");
    line.edges.start(pass, &[SECOND]);
    // From here on, the first bucket is being trained.
    assert!(
        watch.meet(TRAINING),
        "the second bucket waits for the first"
    );
    line.buffer
        .make_resident(at(1, SECOND))
        .expect("partitions");
    line.edges.take(pass, SECOND).expect("edges");
    let groups = line.seconds();
    let names: Vec<&str> = groups.iter().map(|times| times.group.as_str()).collect();
    assert_eq!(names, [STORAGE, EDGES, TRAINING]);
    assert!(groups[0].busy > 0.0 && groups[1].busy > 0.0, "{groups:?}");
    watch.note("training ended");
    drop(line);
    let mut seen = watch.seen.lock().unwrap().0.clone();
    // A partition that left the buffer is written, before or after training ended.
    assert_eq!(seen.pop(), Some("storage ended"));
    assert!(seen.contains(&"saved"), "{seen:?}");
    seen.retain(|what| *what != "saved");
    assert_eq!(seen, ["training ended", "edges ended"]);
}

#[test]
fn without_groups_beside_it_training_does_their_work() {
    let watch = Arc::new(Watch::default());
    // The other groups never run, so they are marked as present.
    watch
        .seen
        .lock()
        .unwrap()
        .1
        .extend([STORAGE, EDGES, TRAINING]);
    let mut line = line(&watch, false);
    begin(&mut line);
    line.buffer.make_resident(at(0, FIRST)).expect("partitions");
    line.buffer.prefetch(0);
    line.edges.start(PassId::default(), &[SECOND]);
    line.edges.take(PassId::default(), FIRST).expect("edges");
    line.buffer
        .make_resident(at(1, SECOND))
        .expect("partitions");
    assert!(watch.seen.lock().unwrap().0.contains(&"saved"));
    let groups = line.seconds();
    assert_eq!(groups.len(), 1);
    assert!(
        groups[0].group == TRAINING && groups[0].busy > 0.0,
        "{groups:?}"
    );
}
