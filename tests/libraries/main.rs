//! Tests of the libraries through their public interfaces.

#![expect(
    clippy::disallowed_methods,
    reason = "tests wait for programs and threads"
)]

mod graphs;
mod sandbox;
mod train;
