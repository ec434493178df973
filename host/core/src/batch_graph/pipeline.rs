//! Groups of tasks on devices, and the bounded pipes between them: which work runs in parallel, and how much of it may
//! be queued.
//!
//! Each task belongs to one group, which carries out its tasks in sequence. A group receives an item from its pipe,
//! processes it, passes the result on, and repeats until the pipe is closed. A run creates its threads and pipes from
//! this description.

use serde::{Deserialize, Serialize};

use super::buffers::BufferLife;
use super::dimension::BatchSizes;
use super::graph::Stage;
use super::step_plan::StepPlan;
use crate::model::Update;

/// Name of the group that reads and writes partitions.
pub const STORAGE: &str = "storage";
/// Name of the group that prepares edges.
pub const EDGES: &str = "edges";
/// Name of the group that plans batches for a GPU.
pub const PLANNING: &str = "planning";
/// Name of the group that trains.
pub const TRAINING: &str = "training";

/// Device that a group uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineDevice {
    /// The files on disk.
    Disk,
    /// The CPU.
    Cpu,
    /// A GPU, counted from 0.
    Cuda(u32),
}

/// Task of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Reads partitions.
    Load,
    /// Writes changed partitions.
    WriteBack,
    /// Writes versions of the checkpoint.
    Commit,
    /// Reads a bucket's edges and shuffles them.
    Edges,
    /// Draws a batch's negatives, and finds the distinct rows that it touches and their positions in edges and draws.
    Plan,
    /// Runs a cluster of the batch graph.
    #[serde(untagged)]
    Cluster(Stage),
}

impl Task {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::WriteBack => "write back",
            Self::Commit => "commit",
            Self::Edges => "edges",
            Self::Plan => "plan",
            Self::Cluster(cluster) => cluster.name(),
        }
    }
}

/// Tasks that are carried out in sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Name.
    pub name: String,
    /// Devices.
    pub devices: Vec<PipelineDevice>,
    /// Number of threads that do this in parallel.
    pub threads: usize,
    /// Tasks, in order.
    pub tasks: Vec<Task>,
}

/// Bounded queue between two groups, with a channel for requests in the other direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Group that sends the items and receives the requests.
    pub from: String,
    /// Group that receives the items.
    pub to: String,
    /// Content of the queue.
    pub carries: String,
    /// Most items on their way.
    pub bound: usize,
    /// Most bytes of these items.
    pub bytes: u64,
}

/// Distribution of a run over devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipeline {
    /// Groups.
    pub groups: Vec<Group>,
    /// Pipes between them.
    pub pipes: Vec<Pipe>,
    /// Most slices whose gradients other workers cannot see yet: the staleness of the rows that they read.
    pub slices_in_flight: usize,
}

/// Slice buffers that a cluster is the first to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterBuffers {
    /// The cluster.
    pub cluster: Stage,
    /// Bytes of all these buffers.
    pub bytes: u64,
    /// Name and bytes of each buffer that is not empty.
    pub buffers: Vec<(String, u64)>,
}

/// Division of batches into slices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicePlan {
    /// Edges of a slice.
    pub edges: usize,
    /// Slices of a full batch.
    pub slices_per_batch: usize,
    /// Buffers of one worker for one slice, by cluster.
    pub clusters: Vec<ClusterBuffers>,
    /// Bytes of one worker's buffers for a whole batch: its columns, sums of gradients, and all entities if all of them
    /// are negatives.
    pub batch_bytes: u64,
}

/// Parameters of a pipeline, besides the clusters of the graph.
#[derive(Clone, Copy, Debug)]
pub struct PipelineParameters {
    /// Most partitions on their way between disk and buffer, in both directions together; 0 if storage is not a
    /// separate group.
    pub partitions_ahead: usize,
    /// Number of partitions that do not stay in the buffer.
    pub swapped: usize,
    /// Bytes of the largest partitions that may be on their way at the same time.
    pub partition_bytes: u64,
    /// Most buckets whose edges are prepared before they are trained; 0 if edges are not a separate group.
    pub buckets_ahead: usize,
    /// Bytes of the edges of the largest bucket, with their order.
    pub edge_bytes: u64,
    /// Most batches that are planned before a GPU trains them; 0 if planning is not a separate group.
    pub batches_ahead: usize,
    /// Bytes of a full batch's plan.
    pub planned_bytes: u64,
    /// Number of training threads.
    pub threads: usize,
    /// The GPU that trains, if there is one.
    pub gpu: Option<u32>,
}

impl Pipeline {
    /// Distributes a run over the machine. The clusters of the graph form the training group; storage and edges are
    /// groups in parallel to it, or tasks of it.
    #[must_use]
    pub fn new(machine: &PipelineParameters, slices: &SlicePlan, update: Update) -> Self {
        let (mut groups, mut pipes) = (Vec::new(), Vec::new());
        let (mut devices, mut within) = (Vec::new(), Vec::new());
        for ParallelTasks {
            pipe,
            ahead,
            device,
            tasks,
        } in besides(machine)
        {
            if ahead == 0 {
                within.extend(tasks);
                devices.push(device);
                continue;
            }
            groups.push(Group {
                name: pipe.from.clone(),
                devices: vec![device],
                threads: 1,
                tasks,
            });
            pipes.push(pipe);
        }
        devices.push(PipelineDevice::Cpu);
        devices.extend(machine.gpu.map(PipelineDevice::Cuda));
        devices.dedup();
        let clusters = slices.clusters.iter();
        within.extend(clusters.map(|buffers| Task::Cluster(buffers.cluster)));
        groups.push(Group {
            name: TRAINING.to_owned(),
            devices,
            threads: machine.threads,
            tasks: within,
        });
        let per_worker = match update {
            Update::Batch => slices.slices_per_batch,
            Update::Slice => 1,
        };
        Self {
            groups,
            pipes,
            slices_in_flight: machine.threads.saturating_mul(per_worker),
        }
    }

    /// Returns the pipe from the group `from` to training, or `None` if there is no such group and training carries out
    /// its tasks itself.
    #[must_use]
    pub fn pipe(&self, from: &str) -> Option<&Pipe> {
        self.pipes.iter().find(|pipe| pipe.from == from)
    }
}

/// Tasks that may have a separate thread.
struct ParallelTasks {
    pipe: Pipe,
    /// How far it may be ahead of training; 0 if training carries out its tasks.
    ahead: usize,
    device: PipelineDevice,
    tasks: Vec<Task>,
}

fn besides(machine: &PipelineParameters) -> Vec<ParallelTasks> {
    let pipe = |from: &str, carries: &str, bound, bytes| Pipe {
        from: from.to_owned(),
        to: TRAINING.to_owned(),
        carries: carries.to_owned(),
        bound,
        bytes,
    };
    let (partitions, buckets) = (machine.partitions_ahead, machine.buckets_ahead);
    let storage = pipe(
        STORAGE,
        "partitions, either way",
        machine.swapped.min(partitions),
        machine.partition_bytes,
    );
    let edge_bytes = machine.edge_bytes.saturating_mul(buckets as u64);
    let mut besides = vec![
        ParallelTasks {
            pipe: storage,
            ahead: partitions,
            device: PipelineDevice::Disk,
            tasks: vec![Task::Load, Task::WriteBack, Task::Commit],
        },
        ParallelTasks {
            pipe: pipe(EDGES, "edges of buckets", buckets, edge_bytes),
            ahead: buckets,
            device: PipelineDevice::Disk,
            tasks: vec![Task::Edges],
        },
    ];
    if machine.gpu.is_some() {
        let batches = machine.batches_ahead;
        // In addition to the queued batches, one is being planned, one is being drawn, and one is between the two.
        let bytes = machine.planned_bytes.saturating_mul(batches as u64 + 3);
        besides.push(ParallelTasks {
            pipe: pipe(PLANNING, "planned batches", batches, bytes),
            ahead: batches,
            device: PipelineDevice::Cpu,
            tasks: vec![Task::Plan],
        });
    }
    besides
}

impl SlicePlan {
    /// Creates the plan of batches of `sizes`, with `chunks` chunks per slice.
    #[must_use]
    pub fn new(step: &StepPlan, sizes: &BatchSizes, chunks: usize) -> Self {
        let bytes = |keep: BufferLife| {
            let kept = step.buffers.iter().filter(move |b| b.keep == keep);
            kept.map(|b| (b, b.bytes_of(sizes, chunks) as u64))
                .filter(|&(_, bytes)| bytes > 0)
        };
        let clusters = Stage::ALL.into_iter().map(|cluster| {
            let first = bytes(BufferLife::Slice).filter(|(buffer, _)| buffer.cluster == cluster);
            let buffers: Vec<_> = first
                .map(|(b, bytes)| (b.name.to_string(), bytes))
                .collect();
            ClusterBuffers {
                cluster,
                bytes: sum(buffers.iter().map(|(_, bytes)| *bytes)),
                buffers,
            }
        });
        Self {
            edges: (chunks * sizes.chunk).min(sizes.edges),
            slices_per_batch: sizes.chunks().div_ceil(chunks.max(1)),
            clusters: clusters.collect(),
            batch_bytes: sum(bytes(BufferLife::Batch).map(|(_, bytes)| bytes)),
        }
    }

    /// Returns the bytes of one worker's buffers for one slice.
    #[must_use]
    pub fn slice_bytes(&self) -> u64 {
        sum(self.clusters.iter().map(|cluster| cluster.bytes))
    }
}

/// Adds up bytes, and saturates at the largest number.
fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}
