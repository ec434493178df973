//! Graphs of near neighbours, by which the nearest of very many points are found without a look at all of them.
//!
//! The graphs are those of Vamana, built and walked by Microsoft's DiskANN (`diskann`), which this crate alone names.
//! DiskANN leaves it to its user where points and links lie: [`link`] has them in memory, [`Walker`] walks
//! over whatever implements [`Space`], such as files of which it reads the few bytes that it needs.
//!
//! Source: S. J. Subramanya et al. (2019). DiskANN: Fast accurate billion-point nearest neighbor search on a single
//! node. NeurIPS 32, algorithms 1 to 3.

mod linked;
mod points;
mod walk;

pub use linked::{Graph, LinkOptions, link};
pub use points::Points;
pub use walk::{Space, Walker};

/// A rule of the library that a caller broke, or a defect of it.
#[derive(Debug, thiserror::Error)]
#[error("the index of near neighbours: {0}")]
pub struct GraphError(String);

impl GraphError {
    fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests;
