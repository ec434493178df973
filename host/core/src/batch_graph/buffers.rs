//! Buffers of a batch graph: tensors of the same name share one if they do not live at the same time.

use super::dimension::{BatchSizes, Dim, ElementType};
use super::graph::{BatchGraph, GraphNode, GraphTensor, Stage, TensorLife, TensorName};

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

/// Assigns a buffer to every tensor: that of the tensor that it replaces, a free one of the same name, or a new one.
pub(super) fn allocate(graph: &BatchGraph) -> Vec<Buffer> {
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
