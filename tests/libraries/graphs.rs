//! The graphs of a step, of a loss and of an operator, from outside.

mod batch_graph;
mod loss_check;
mod loss_gradients;
mod operators;
