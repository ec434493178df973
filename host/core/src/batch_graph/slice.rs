//! Sub-slicing: the graph without its batch dimension, inside a loop over slices.
//!
//! A node that touches a tensor of the batch runs once per slice, on views of a slice's chunks; all
//! others run once, before the loop or after it. What such nodes make exists for one slice only, in a
//! buffer that the next slice uses again, and that tensors of one name share when they do not live at the
//! same time. So memory does not depend on the size of the batch, but for its columns and for one
//! gradient row per table row that it touches.

use std::ops::RangeInclusive;

use super::dimension::{Dim, Element, Sizes};
use super::graph::{BatchPass, Cluster, Graph, Name, Node, Operation, Tensor, TensorLife};
use super::step_spec::StepSpec;
use crate::graph::Side;
use crate::model::Update;

/// Positives per slice with all negatives: every slice reads all entities and their gradients once, so
/// that fewer would leave the matrix product waiting for memory.
const ALL_NEGATIVES_ROWS: RangeInclusive<usize> = 64..=256;
/// Bytes of a slice's buffers beyond which it has only the least of these.
const ALL_NEGATIVES_BYTES: usize = 64 << 20;

/// Nodes of one cluster that follow each other, for one direction of comparison or for both.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Their cluster.
    pub cluster: Cluster,
    /// The side that is replaced, where they belong to one comparison.
    pub direction: Option<Side>,
    /// The nodes, as indices.
    pub nodes: Vec<usize>,
}

/// One pass over the batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Which.
    pub pass: BatchPass,
    /// Runs once, before the first slice.
    pub before: Vec<Step>,
    /// Runs for every slice.
    pub slice: Vec<Step>,
    /// Runs once, after the last slice.
    pub after: Vec<Step>,
}

/// What a buffer is allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// One slice; the next one uses it again.
    Slice,
    /// The whole batch.
    Batch,
}

/// A buffer that tensors of one name share.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its name.
    pub name: Name,
    /// What it is made of.
    pub element: Element,
    /// How long what is in it is needed.
    pub keep: Keep,
    /// The cluster that writes it first.
    pub cluster: Cluster,
    /// Dimensions of each tensor that it holds at some time; without the batch if it is a slice's.
    pub shapes: Vec<Vec<Dim>>,
    /// Passes that use it.
    pub passes: Vec<usize>,
    /// Last node that uses it.
    last: usize,
}

impl Buffer {
    /// Bytes of one chunk's part, or of the whole if it is kept for a batch.
    #[must_use]
    pub fn bytes(&self, sizes: &Sizes) -> usize {
        let elements = self.shapes.iter().map(|dims| sizes.elements(dims)).max();
        elements.unwrap_or(0).saturating_mul(self.element.bytes())
    }

    /// Bytes with `chunks` chunks per slice.
    #[must_use]
    pub fn bytes_of(&self, sizes: &Sizes, chunks: usize) -> usize {
        match self.keep {
            Keep::Slice => self.bytes(sizes).saturating_mul(chunks),
            Keep::Batch => self.bytes(sizes),
        }
    }
}

/// A graph as it is executed: loops over slices, and buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Sliced {
    /// The graph.
    pub graph: Graph,
    /// The passes, one after the other.
    pub loops: Vec<Loop>,
    /// Runs at the end of the batch.
    pub end: Vec<Step>,
    /// What is allocated.
    pub buffers: Vec<Buffer>,
}

impl Graph {
    /// The sliced form. With `Update::Slice` each slice ends with an update of its rows.
    #[must_use]
    pub fn slice(self, update: Update) -> Sliced {
        let buffers = allocate(&self);
        let graph = &self;
        let of = |pass: usize, place: Place| {
            let nodes = graph.nodes.iter().enumerate();
            steps(nodes.filter(|&(index, node)| {
                node.pass == Some(pass) && place_of(graph, index) == place
            }))
        };
        let mut loops: Vec<Loop> = self
            .passes
            .iter()
            .enumerate()
            .map(|(pass, &which)| Loop {
                pass: which,
                before: of(pass, Place::Before),
                slice: of(pass, Place::Slice),
                after: of(pass, Place::After),
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
        Sliced {
            loops,
            end,
            buffers,
            graph: self,
        }
    }
}

/// When a node runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Slice,
    After,
}

fn is_batched(graph: &Graph, node: &Node) -> bool {
    let mut operands = node.inputs.iter().chain(&node.outputs);
    operands.any(|&tensor| graph.tensors[tensor].shape.is_batched())
}

/// A node without a tensor of the batch runs before the loop of its pass, unless nodes of the loop come
/// before it.
fn place_of(graph: &Graph, index: usize) -> Place {
    let node = &graph.nodes[index];
    let looped = |other: &Node| other.pass == node.pass && is_batched(graph, other);
    if looped(node) {
        Place::Slice
    } else if graph.nodes[..index].iter().any(looped) {
        Place::After
    } else {
        Place::Before
    }
}

fn steps<'a>(nodes: impl Iterator<Item = (usize, &'a Node)>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, node) in nodes {
        match steps.last_mut() {
            Some(step) if (step.cluster, step.direction) == (node.cluster, node.direction) => {
                step.nodes.push(index);
            }
            _ => steps.push(Step {
                cluster: node.cluster,
                direction: node.direction,
                nodes: vec![index],
            }),
        }
    }
    steps
}

/// Gives every tensor a buffer: that of the tensor whose place it takes, one of its name that is free
/// again, or a new one.
fn allocate(graph: &Graph) -> Vec<Buffer> {
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut home: Vec<Option<usize>> = vec![None; graph.tensors.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for &tensor in node.inputs.iter().chain(&node.outputs) {
            let wanted = &graph.tensors[tensor];
            if wanted.kind == TensorLife::Shared {
                continue;
            }
            let kept = home[tensor].or(wanted.instead_of.and_then(|before| home[before]));
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
                Keep::Slice => wanted.shape.per_chunk().to_vec(),
                Keep::Batch => wanted.shape.0.clone(),
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

fn keep(tensor: &Tensor) -> Keep {
    match tensor.kind == TensorLife::Made && tensor.shape.is_batched() {
        true => Keep::Slice,
        false => Keep::Batch,
    }
}

fn last_use(graph: &Graph, tensor: usize) -> usize {
    let used = |node: &Node| node.inputs.contains(&tensor) || node.outputs.contains(&tensor);
    graph.nodes.iter().rposition(used).unwrap_or(0)
}

impl Sliced {
    /// What the graph was built from.
    #[must_use]
    pub fn step_spec(&self) -> &StepSpec {
        &self.graph.step_spec
    }

    /// Bytes that one chunk of a slice occupies in the pass that needs most.
    #[must_use]
    pub fn chunk_bytes(&self, sizes: &Sizes) -> usize {
        let of = |pass: usize| {
            let used =
                |buffer: &&Buffer| buffer.keep == Keep::Slice && buffer.passes.contains(&pass);
            let buffers = self.buffers.iter().filter(used);
            buffers
                .map(|buffer| buffer.bytes(sizes))
                .fold(0, usize::saturating_add)
        };
        (0..self.loops.len()).map(of).max().unwrap_or(0)
    }

    /// Chunks per slice so that its buffers take `slice_bytes` at most, if one chunk does.
    #[must_use]
    pub fn chunks_per_slice(&self, sizes: &Sizes, slice_bytes: usize) -> usize {
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
