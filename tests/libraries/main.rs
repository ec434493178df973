//! Tests of the libraries through their public interfaces.

mod graphs;
mod sandbox;
mod train;
