//! Options of ranking.

use super::breakdown::GroupBy;

/// Entities among which a positive is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateSet {
    /// All entities of the type.
    All,
    /// A sample of this many, drawn uniformly once for the whole evaluation.
    Sample(u32),
}

/// Options of an evaluation.
#[derive(Clone, Debug)]
pub struct EvalOptions {
    /// Edge set to rank.
    pub edges: String,
    /// Edge sets whose edges are not wrong answers.
    pub filter: Vec<String>,
    /// Candidates.
    pub candidates: CandidateSet,
    /// Number of threads; all cores if `None`.
    pub threads: Option<usize>,
    /// Largest number of edges to rank, as a uniform sample of the set.
    pub limit: Option<usize>,
    /// Also sums up ranks by relation or entity type.
    pub by: Option<GroupBy>,
    /// Whether to leave out edges with an entity or a relation that no trained edge has. All entities remain
    /// candidates.
    pub seen: bool,
}
