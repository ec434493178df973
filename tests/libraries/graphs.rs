//! Tests of the graphs of a step, of a loss and of an operator, through public interfaces.

mod batch_graph;
mod loss_check;
mod loss_gradients;
mod operators;
