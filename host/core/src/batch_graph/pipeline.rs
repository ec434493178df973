//! Groups of work on devices, and the bounded pipes between them: what runs beside what, and how much
//! may wait.
//!
//! A group carries out its tasks in sequence, each task belongs to one group. A group takes from its pipe,
//! works, hands on, and takes again until the pipe is closed. A run makes its threads and pipes from this.

use serde::{Deserialize, Serialize};

use super::dimension::Sizes;
use super::graph::Cluster;
use super::slice::{Keep, Sliced};
use crate::model::Update;

/// Name of the group that reads and writes partitions.
pub const STORAGE: &str = "storage";
/// Name of the group that prepares edges.
pub const EDGES: &str = "edges";
/// Name of the group that plans batches for a GPU.
pub const PLANNING: &str = "planning";
/// Name of the group that trains.
pub const TRAINING: &str = "training";

/// What a group works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The files.
    Disk,
    /// The cores.
    Cpu,
    /// A GPU, counted from 0.
    Cuda(u32),
}

/// What a group does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Reads partitions.
    Load,
    /// Writes changed partitions.
    WriteBack,
    /// Writes versions of the checkpoint.
    Commit,
    /// Reads a bucket's edges and puts them in random order.
    Edges,
    /// Draws a batch's negatives, and finds the rows that it touches, each once, and where edges and draws have them.
    Plan,
    /// A cluster of the batch graph.
    #[serde(untagged)]
    Cluster(Cluster),
}

impl Task {
    /// Its name.
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
    /// Its name.
    pub name: String,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Threads that do this side by side.
    pub threads: usize,
    /// Its tasks, in order.
    pub tasks: Vec<Task>,
}

/// A bounded queue between two groups, with the orders for what it carries in the other direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Where from, and for what goes back, where to.
    pub from: String,
    /// Where to.
    pub to: String,
    /// What is in it.
    pub carries: String,
    /// How many are on their way, at most.
    pub bound: usize,
    /// Their bytes, at most.
    pub bytes: u64,
}

/// How a run is spread over devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipeline {
    /// Groups.
    pub groups: Vec<Group>,
    /// Pipes between them.
    pub pipes: Vec<Pipe>,
    /// Slices whose gradients other workers may not see yet, at most: the staleness of what they read.
    pub slices_in_flight: usize,
}

/// A slice's buffers that a cluster is the first to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterBuffers {
    /// The cluster.
    pub cluster: Cluster,
    /// Their bytes together.
    pub bytes: u64,
    /// Name and bytes of each that is not empty.
    pub buffers: Vec<(String, u64)>,
}

/// How a batch is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicePlan {
    /// Edges of a slice.
    pub edges: usize,
    /// Slices of a full batch.
    pub slices_per_batch: usize,
    /// Buffers of one worker for one slice, by cluster.
    pub clusters: Vec<ClusterBuffers>,
    /// Buffers of one worker for a whole batch: its columns, sums of gradients, and all entities where
    /// all are negatives.
    pub batch_bytes: u64,
}

/// What a pipeline is built from, besides the clusters of the graph.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Partitions that may be on their way between disk and buffer, both ways together; 0: storage is no group of
    /// its own.
    pub partitions_ahead: usize,
    /// Partitions that do not stay in the buffer.
    pub swapped: usize,
    /// Bytes of the largest of them, of as many as may be on their way.
    pub partition_bytes: u64,
    /// Buckets whose edges may be ready before they are trained; 0: edges are no group of their own.
    pub buckets_ahead: usize,
    /// Bytes of the edges of the largest bucket, with their order.
    pub edge_bytes: u64,
    /// Batches that may be planned before a GPU trains them; 0: planning is no group of its own.
    pub batches_ahead: usize,
    /// Bytes of a full batch's plan.
    pub planned_bytes: u64,
    /// Threads that train.
    pub threads: usize,
    /// The GPU that trains, if one does.
    pub gpu: Option<u32>,
}

impl Pipeline {
    /// Spreads a run over the machine: the clusters of the graph train, and storage and edges are groups beside
    /// them, or tasks of theirs.
    #[must_use]
    pub fn new(machine: &Machine, slices: &SlicePlan, update: Update) -> Self {
        let (mut groups, mut pipes) = (Vec::new(), Vec::new());
        let (mut devices, mut within) = (Vec::new(), Vec::new());
        for Beside {
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
        devices.push(Device::Cpu);
        devices.extend(machine.gpu.map(Device::Cuda));
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

    /// The pipe from the group of this name to training; none where there is no such group, and training does
    /// its tasks itself.
    #[must_use]
    pub fn pipe(&self, from: &str) -> Option<&Pipe> {
        self.pipes.iter().find(|pipe| pipe.from == from)
    }
}

/// What may have a thread of its own.
struct Beside {
    pipe: Pipe,
    /// How far it may be ahead of training; 0: training does its tasks.
    ahead: usize,
    device: Device,
    tasks: Vec<Task>,
}

fn besides(machine: &Machine) -> Vec<Beside> {
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
        Beside {
            pipe: storage,
            ahead: partitions,
            device: Device::Disk,
            tasks: vec![Task::Load, Task::WriteBack, Task::Commit],
        },
        Beside {
            pipe: pipe(EDGES, "edges of buckets", buckets, edge_bytes),
            ahead: buckets,
            device: Device::Disk,
            tasks: vec![Task::Edges],
        },
    ];
    if machine.gpu.is_some() {
        let batches = machine.batches_ahead;
        // Besides those that wait there are one that is planned, one that is drawn, and one between the two.
        let bytes = machine.planned_bytes.saturating_mul(batches as u64 + 3);
        besides.push(Beside {
            pipe: pipe(PLANNING, "planned batches", batches, bytes),
            ahead: batches,
            device: Device::Cpu,
            tasks: vec![Task::Plan],
        });
    }
    besides
}

impl SlicePlan {
    /// The plan of batches of `sizes`, `chunks` chunks per slice.
    #[must_use]
    pub fn new(sliced: &Sliced, sizes: &Sizes, chunks: usize) -> Self {
        let bytes = |keep: Keep| {
            let kept = sliced.buffers.iter().filter(move |b| b.keep == keep);
            kept.map(|b| (b, b.bytes_of(sizes, chunks) as u64))
                .filter(|&(_, bytes)| bytes > 0)
        };
        let clusters = Cluster::ALL.into_iter().map(|cluster| {
            let first = bytes(Keep::Slice).filter(|(buffer, _)| buffer.cluster == cluster);
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
            batch_bytes: sum(bytes(Keep::Batch).map(|(_, bytes)| bytes)),
        }
    }

    /// Bytes of one worker's buffers for one slice.
    #[must_use]
    pub fn slice_bytes(&self) -> u64 {
        sum(self.clusters.iter().map(|cluster| cluster.bytes))
    }
}

/// Adds up bytes. Where the sum is more than can be counted, it is the largest number.
fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}
