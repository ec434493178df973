//! Tests of the kernels through their public interface.

mod comparators;
mod evaluation;
mod execution;
mod gradients;
mod hogwild;
mod losses;
mod memory;
mod operators;
mod optimizers;
mod ranking;
mod relation_prediction;
mod shares;
mod subnormal;
mod traced;
