//! The training step of one relation as a graph: what is computed from what, in which shape.
//!
//! Every tensor but weights and tables has the batch as its first dimension, counted in chunks of
//! positives that share negatives. [`Graph::new`] builds the graph and checks its shapes;
//! [`Graph::slice`] rewrites it to a loop over slices, whose nodes have lost the batch dimension;
//! [`Sliced`] knows which buffers that takes, and how many chunks make a slice of a wanted size. Nodes
//! form [`Cluster`]s, which the kernels compile to stages; clusters form groups, one per device, which
//! [`pipeline`] joins by pipes.

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

pub use dimension::{Dim, Element, Shape, Sizes};
pub use error::ShapeError;
pub use graph::{
    BatchPass, Cluster, Graph, Name, Negatives, Node, Operation, RegularizedRows, Tensor,
    TensorLife,
};
pub use infer::parameter_width;
pub use slice::{Buffer, Keep, Loop, Sliced, Step};
pub use step_spec::StepSpec;
