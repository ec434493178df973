//! The libraries from outside, through what they share with each other.

mod graphs;
mod sandbox;
mod train;
