//! Options of predictions.

use crate::index::IndexQueryOptions;

/// Options of predictions.
#[derive(Clone, Debug)]
pub struct PredictOptions {
    /// Largest number of entities in an answer.
    pub count: u32,
    /// Edge sets whose edges are left out of answers.
    pub filter: Vec<String>,
    /// Whether the known entity itself may be an answer, which makes a loop.
    pub loops: bool,
    /// Number of threads; all cores if `None`.
    pub threads: Option<usize>,
    /// Largest number of questions, if it is known.
    pub questions: Option<usize>,
    /// Options of the index that finds candidates. Without an index, all entities are candidates; with one, they are
    /// compared nevertheless if that takes less time and no width is given.
    pub index: Option<IndexQueryOptions>,
}
