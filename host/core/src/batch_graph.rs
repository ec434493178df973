//! The training step of one relation as a graph of operations on tensors of known shapes.
//!
//! Every tensor except weights and tables has the batch as its first dimension, counted in chunks of positives that
//! share negatives. [`StepPlan::new`] derives the stages of each pass ([`PassStages`]), which executors run as a loop
//! over slices, and builds the graph of their operations, which checks shapes. A node that touches a tensor of the batch
//! runs once per slice. [`StepPlan`] knows the buffers that the loop needs, and how many chunks make a slice of a given
//! size. Stages form groups, one per device, which [`pipeline`] connects with pipes.

mod backward;
mod buffers;
mod build;
mod builder;
mod dimension;
mod error;
mod graph;
mod infer;
mod operands;
pub mod pipeline;
mod stages;
mod step_plan;
mod step_spec;

pub use buffers::{Buffer, BufferLife};
pub use dimension::{BatchSizes, Dim, ElementType, TensorShape};
pub use error::ShapeError;
pub use graph::{
    BatchGraph, BatchPass, GraphNode, GraphTensor, Negatives, Operation, RegularizedRows, Stage,
    TensorLife, TensorName,
};
pub use infer::parameter_width;
pub use stages::{CompareStage, GatherStage, PassStages, ScatterStage};
pub use step_plan::StepPlan;
pub use step_spec::StepSpec;
