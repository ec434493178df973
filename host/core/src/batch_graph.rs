//! The training step of one relation as a graph of operations on tensors of known shapes.
//!
//! Every tensor except weights and tables has the batch as its first dimension, counted in chunks of positives that
//! share negatives. [`BatchGraph::new`] builds the graph and checks its shapes. [`BatchGraph::slice`] rewrites it to a
//! loop over slices, whose nodes have lost the batch dimension. [`SlicedGraph`] knows the buffers that the loop needs,
//! and how many chunks make a slice of a given size. Nodes form stages ([`Stage`]), which the kernels execute. Stages
//! form groups, one per device, which [`pipeline`] connects with pipes.

mod backward;
mod build;
mod builder;
mod dimension;
mod error;
mod graph;
mod infer;
mod operands;
pub mod pipeline;
mod slice;
mod step_spec;

pub use dimension::{BatchSizes, Dim, ElementType, TensorShape};
pub use error::ShapeError;
pub use graph::{
    BatchGraph, BatchPass, GraphNode, GraphTensor, Negatives, Operation, RegularizedRows, Stage,
    TensorLife, TensorName,
};
pub use infer::parameter_width;
pub use slice::{Buffer, BufferLife, SliceLoop, SlicedGraph, StageRun};
pub use step_spec::StepSpec;
