//! Sub-slicing: the graph without its batch dimension, inside a loop over slices.
//!
//! A node that touches a tensor of the batch runs once per slice, on views of a slice's chunks. All other nodes run
//! once, before or after the loop. Results of the nodes in the loop exist for one slice only, in buffers that the next
//! slice reuses and that tensors of the same name share if they do not live at the same time. So memory does not depend
//! on the size of the batch, except for its columns and one gradient row per table row that it touches.

use std::ops::RangeInclusive;

use super::dimension::{BatchSizes, Dim, ElementType};
use super::graph::{
    BatchGraph, BatchPass, GraphNode, GraphTensor, Operation, Stage, TensorLife, TensorName,
};
use super::step_spec::StepSpec;
use crate::graph::Side;
use crate::model::Update;

/// Positives per slice with all negatives. Every slice reads all entities and their gradients once, so with fewer
/// positives the matrix product would be bound by memory bandwidth.
const ALL_NEGATIVES_ROWS: RangeInclusive<usize> = 64..=256;
/// Bytes of a slice's buffers above which the slice has only the smallest number of [`ALL_NEGATIVES_ROWS`].
const ALL_NEGATIVES_BYTES: usize = 64 << 20;

/// Consecutive nodes of one cluster, for one direction of comparison or for both.
#[derive(Clone, Debug, PartialEq)]
pub struct StageRun {
    /// Cluster of the nodes.
    pub cluster: Stage,
    /// Side that is replaced, if the nodes belong to one comparison.
    pub direction: Option<Side>,
    /// Indices of the nodes.
    pub nodes: Vec<usize>,
}

/// One pass over the batch, as a loop over slices.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceLoop {
    /// The pass.
    pub pass: BatchPass,
    /// Steps that run once, before the first slice.
    pub before: Vec<StageRun>,
    /// Steps that run for every slice.
    pub slice: Vec<StageRun>,
    /// Steps that run once, after the last slice.
    pub after: Vec<StageRun>,
}

/// Lifetime of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferLife {
    /// One slice; the next one reuses the buffer.
    Slice,
    /// The whole batch.
    Batch,
}

/// Buffer that tensors of the same name share.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Name.
    pub name: TensorName,
    /// Element type.
    pub element: ElementType,
    /// Lifetime.
    pub keep: BufferLife,
    /// Cluster that writes it first.
    pub cluster: Stage,
    /// Dimensions of each tensor that it holds at some time; without the batch for a slice's buffer.
    pub shapes: Vec<Vec<Dim>>,
    /// Passes that use it.
    pub passes: Vec<usize>,
    /// Last node that uses it.
    last: usize,
}

impl Buffer {
    /// Returns the bytes of one chunk's part, or of the whole buffer if it is kept for a batch.
    #[must_use]
    pub fn bytes(&self, sizes: &BatchSizes) -> usize {
        let elements = self.shapes.iter().map(|dims| sizes.elements(dims)).max();
        elements.unwrap_or(0).saturating_mul(self.element.bytes())
    }

    /// Returns the bytes with `chunks` chunks per slice.
    #[must_use]
    pub fn bytes_of(&self, sizes: &BatchSizes, chunks: usize) -> usize {
        match self.keep {
            BufferLife::Slice => self.bytes(sizes).saturating_mul(chunks),
            BufferLife::Batch => self.bytes(sizes),
        }
    }
}

/// Graph in the form in which it is executed: loops over slices, and buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct SlicedGraph {
    /// The graph.
    pub graph: BatchGraph,
    /// Loops over slices, one per pass, in order.
    pub loops: Vec<SliceLoop>,
    /// Steps that run at the end of the batch.
    pub end: Vec<StageRun>,
    /// Buffers to allocate.
    pub buffers: Vec<Buffer>,
}

impl BatchGraph {
    /// Converts the graph to its sliced form. With `Update::Slice`, each slice ends with an update of its rows.
    #[must_use]
    pub fn slice(self, update: Update) -> SlicedGraph {
        let buffers = allocate(&self);
        let graph = &self;
        let of = |pass: usize, place: LoopPart| {
            let nodes = graph.nodes.iter().enumerate();
            steps(nodes.filter(|&(index, node)| {
                node.pass == Some(pass) && place_of(graph, index) == place
            }))
        };
        let mut loops: Vec<SliceLoop> = self
            .passes
            .iter()
            .enumerate()
            .map(|(pass, &which)| SliceLoop {
                pass: which,
                before: of(pass, LoopPart::Before),
                slice: of(pass, LoopPart::Slice),
                after: of(pass, LoopPart::After),
            })
            .collect();
        let nodes = || graph.nodes.iter().enumerate();
        if update == Update::Slice {
            let rows = steps(nodes().filter(|(_, n)| n.operation == Operation::UpdateRows));
            for each in &mut loops {
                each.slice.extend(rows.iter().cloned());
            }
        }
        let end = steps(nodes().filter(|(_, node)| node.pass.is_none()));
        SlicedGraph {
            loops,
            end,
            buffers,
            graph: self,
        }
    }
}

/// Part of a pass in which a node runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopPart {
    Before,
    Slice,
    After,
}

fn is_batched(graph: &BatchGraph, node: &GraphNode) -> bool {
    let mut operands = node.inputs.iter().chain(&node.outputs);
    operands.any(|&tensor| graph.tensors[tensor].shape.is_batched())
}

/// Returns where a node runs. A node without a tensor of the batch runs before the loop of its pass, or after the loop
/// if nodes of the loop precede it.
fn place_of(graph: &BatchGraph, index: usize) -> LoopPart {
    let node = &graph.nodes[index];
    let looped = |other: &GraphNode| other.pass == node.pass && is_batched(graph, other);
    if looped(node) {
        LoopPart::Slice
    } else if graph.nodes[..index].iter().any(looped) {
        LoopPart::After
    } else {
        LoopPart::Before
    }
}

fn steps<'a>(nodes: impl Iterator<Item = (usize, &'a GraphNode)>) -> Vec<StageRun> {
    let mut steps: Vec<StageRun> = Vec::new();
    for (index, node) in nodes {
        match steps.last_mut() {
            Some(step) if (step.cluster, step.direction) == (node.cluster, node.direction) => {
                step.nodes.push(index);
            }
            _ => steps.push(StageRun {
                cluster: node.cluster,
                direction: node.direction,
                nodes: vec![index],
            }),
        }
    }
    steps
}

/// Assigns a buffer to every tensor: that of the tensor that it replaces, a free one of the same name, or a new one.
fn allocate(graph: &BatchGraph) -> Vec<Buffer> {
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut home: Vec<Option<usize>> = vec![None; graph.tensors.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for &tensor in node.inputs.iter().chain(&node.outputs) {
            let wanted = &graph.tensors[tensor];
            if wanted.life == TensorLife::Shared {
                continue;
            }
            let kept = home[tensor].or(wanted.replaces.and_then(|before| home[before]));
            let free = |(_, buffer): &(usize, &Buffer)| {
                buffer.name == wanted.name
                    && buffer.element == wanted.element
                    && buffer.keep == keep(wanted)
                    && buffer.last < index
            };
            let found = kept.or_else(|| buffers.iter().enumerate().find(free).map(|(i, _)| i));
            let buffer = found.unwrap_or_else(|| {
                buffers.push(Buffer {
                    name: wanted.name,
                    element: wanted.element,
                    keep: keep(wanted),
                    cluster: node.cluster,
                    shapes: Vec::new(),
                    passes: Vec::new(),
                    last: index,
                });
                buffers.len() - 1
            });
            home[tensor] = Some(buffer);
            let dims = match keep(wanted) {
                BufferLife::Slice => wanted.shape.per_chunk().to_vec(),
                BufferLife::Batch => wanted.shape.0.clone(),
            };
            let buffer = &mut buffers[buffer];
            if !buffer.shapes.contains(&dims) {
                buffer.shapes.push(dims);
            }
            if let Some(pass) = node.pass.filter(|pass| !buffer.passes.contains(pass)) {
                buffer.passes.push(pass);
            }
            buffer.last = buffer.last.max(last_use(graph, tensor));
        }
    }
    buffers
}

fn keep(tensor: &GraphTensor) -> BufferLife {
    match tensor.life == TensorLife::Made && tensor.shape.is_batched() {
        true => BufferLife::Slice,
        false => BufferLife::Batch,
    }
}

fn last_use(graph: &BatchGraph, tensor: usize) -> usize {
    let used = |node: &GraphNode| node.inputs.contains(&tensor) || node.outputs.contains(&tensor);
    graph.nodes.iter().rposition(used).unwrap_or(0)
}

impl SlicedGraph {
    /// Returns the specification that the graph was built from.
    #[must_use]
    pub fn step_spec(&self) -> &StepSpec {
        &self.graph.step_spec
    }

    /// Returns the bytes that one chunk of a slice takes in the pass that needs most.
    #[must_use]
    pub fn chunk_bytes(&self, sizes: &BatchSizes) -> usize {
        let of = |pass: usize| {
            let used = |buffer: &&Buffer| {
                buffer.keep == BufferLife::Slice && buffer.passes.contains(&pass)
            };
            let buffers = self.buffers.iter().filter(used);
            buffers
                .map(|buffer| buffer.bytes(sizes))
                .fold(0, usize::saturating_add)
        };
        (0..self.loops.len()).map(of).max().unwrap_or(0)
    }

    /// Returns the number of chunks per slice with which its buffers take at most `slice_bytes`, provided that the
    /// least number of chunks fits.
    #[must_use]
    pub fn chunks_per_slice(&self, sizes: &BatchSizes, slice_bytes: usize) -> usize {
        let all = Side::BOTH.iter().any(|&side| self.step_spec().all(side));
        let chunk = self.chunk_bytes(sizes).max(1);
        let least = match all {
            true => {
                let (fewest, most) = ALL_NEGATIVES_ROWS.into_inner();
                (ALL_NEGATIVES_BYTES / chunk).clamp(fewest, most)
            }
            false => 1,
        };
        let fit = slice_bytes / chunk;
        fit.max(least).min(sizes.chunks().max(1))
    }
}
