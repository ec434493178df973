//! The graphs of a step and of a loss, from outside.

mod batch_graph;
mod graphs;
mod loss_check;
mod loss_gradients;
