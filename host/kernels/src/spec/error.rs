//! Why a model cannot be trained.

use pbg_core::batch_graph::ShapeError;
use pbg_core::graph::Side;

/// A model that cannot be trained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Nothing to train.
    #[error("a model needs at least one relation and one entity type")]
    Empty,
    /// A relation names an entity type that does not exist.
    #[error("relation {relation} has no such entity type on its {side:?} side")]
    Entity {
        /// Index of the relation.
        relation: usize,
        /// Its side.
        side: Side,
    },
    /// Embeddings, operator and comparator of a relation do not fit each other.
    #[error("relation {relation}: {source}")]
    Shape {
        /// Index of the relation.
        relation: usize,
        /// The node of its batch graph that does not fit, and why.
        source: ShapeError,
    },
    /// Features cannot be sampled as entities.
    #[error(
        "relation {relation}: featurized entities cannot be drawn as {negatives} negatives; use batch negatives"
    )]
    Featurized {
        /// Index of the relation.
        relation: usize,
        /// Which negatives.
        negatives: &'static str,
    },
    /// N3 has no meaning for a matrix.
    #[error(
        "relation {relation}: the regularizer N3 is not defined for the operators linear and affine"
    )]
    Regularizer {
        /// Index of the relation.
        relation: usize,
    },
    /// Keys that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// A number outside its range.
    #[error("{key} must be {rule}")]
    Number {
        /// Configuration key.
        key: &'static str,
        /// Its rule.
        rule: &'static str,
    },
}
