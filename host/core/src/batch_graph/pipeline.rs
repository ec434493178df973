//! Groups of work on devices, and the bounded pipes between them: what runs beside what, and how much
//! may wait.
//!
//! A group owns one device or several and carries out its tasks in sequence; no device belongs to two
//! groups. A group takes from its pipe, works, hands on, and takes again until the pipe is closed.

use serde::{Deserialize, Serialize};

use super::dimension::Sizes;
use super::graph::Cluster;
use super::slice::{Keep, Sliced};
use crate::model::Update;

/// Partitions on their way between disk and buffer, at most, both ways together: a bucket may lack
/// both of its own.
pub const ON_THEIR_WAY: usize = 2;

/// What a group owns.
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
    /// Reads a bucket's edges and puts them in random order.
    Edges,
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
            Self::Edges => "edges",
            Self::Cluster(cluster) => cluster.name(),
        }
    }
}

/// Tasks that are carried out in sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its devices; no other group has them.
    pub devices: Vec<Device>,
    /// Threads that do this side by side.
    pub threads: usize,
    /// Its tasks, in order.
    pub tasks: Vec<Task>,
}

/// A bounded queue between two groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Where from, and for what goes back, where to.
    pub from: String,
    /// Where to.
    pub to: String,
    /// What is in it.
    pub carries: String,
    /// How many, at most.
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

impl Pipeline {
    /// Spreads a run over the disk and `workers` threads. The disk is a group of its own if partitions are
    /// to be read and written while others train; `partition_bytes` is what the largest take that do not
    /// stay in the buffer, 0 if all do.
    #[must_use]
    pub fn new(
        prefetch: bool,
        partition_bytes: u64,
        workers: usize,
        update: Update,
        slices_per_batch: usize,
    ) -> Self {
        let storage = [Task::Load, Task::WriteBack];
        let training = [Task::Edges]
            .into_iter()
            .chain(Cluster::ALL.map(Task::Cluster));
        let group = |name: &str, devices: &[Device], threads, tasks: Vec<Task>| Group {
            name: name.to_owned(),
            devices: devices.to_vec(),
            threads,
            tasks,
        };
        let (groups, pipes) = if prefetch && partition_bytes > 0 {
            let groups = vec![
                group("storage", &[Device::Disk], 1, storage.to_vec()),
                group("training", &[Device::Cpu], workers, training.collect()),
            ];
            let pipe = Pipe {
                from: "storage".to_owned(),
                to: "training".to_owned(),
                carries: "partitions, either way".to_owned(),
                bound: ON_THEIR_WAY,
                bytes: partition_bytes,
            };
            (groups, vec![pipe])
        } else {
            let devices = [Device::Disk, Device::Cpu];
            let tasks = storage.into_iter().chain(training).collect();
            (
                vec![group("training", &devices, workers, tasks)],
                Vec::new(),
            )
        };
        let per_worker = match update {
            Update::Batch => slices_per_batch,
            Update::Slice => 1,
        };
        Self {
            groups,
            pipes,
            slices_in_flight: workers * per_worker,
        }
    }
}

impl Pipeline {
    /// The same, where training gives its work to a GPU.
    #[must_use]
    pub fn on_gpu(mut self, index: u32) -> Self {
        let trains = |group: &&mut Group| group.tasks.contains(&Task::Cluster(Cluster::Loss));
        if let Some(group) = self.groups.iter_mut().find(trains) {
            group.devices.push(Device::Cuda(index));
        }
        self
    }
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
                bytes: buffers.iter().map(|(_, bytes)| bytes).sum(),
                buffers,
            }
        });
        Self {
            edges: (chunks * sizes.chunk).min(sizes.edges),
            slices_per_batch: sizes.chunks().div_ceil(chunks.max(1)),
            clusters: clusters.collect(),
            batch_bytes: bytes(Keep::Batch).map(|(_, bytes)| bytes).sum(),
        }
    }

    /// Bytes of one worker's buffers for one slice.
    #[must_use]
    pub fn slice_bytes(&self) -> u64 {
        self.clusters.iter().map(|cluster| cluster.bytes).sum()
    }
}
