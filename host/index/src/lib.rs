//! Graphs of near neighbours, in which the nearest of very many points are found without reading all points.
//!
//! The graphs are those of Vamana, built and searched by Microsoft's DiskANN (`diskann`), which only this crate uses.
//! DiskANN lets its user choose where points and links are stored. [`build_graph`] builds graphs in memory;
//! [`GraphSearcher`] searches any implementation of [`Space`], for instance files of which only the few bytes needed
//! are read.
//!
//! Source: S. J. Subramanya et al. (2019). DiskANN: Fast accurate billion-point nearest neighbor search on a single
//! node. NeurIPS 32, algorithms 1 to 3.

mod build;
mod points;
mod search;

pub use build::{BuildOptions, NeighborGraph, build_graph};
pub use points::Points;
pub use search::{GraphSearcher, Space};

/// Error of the DiskANN library: the caller violated one of its rules, or the library has a bug.
#[derive(Debug, thiserror::Error)]
#[error("nearest-neighbour index: {0}")]
pub struct NeighborGraphError(String);

impl NeighborGraphError {
    fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests;
