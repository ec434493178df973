//! Errors of model specifications.

use pbg_core::batch_graph::ShapeError;
use pbg_core::graph::Side;

/// Reason why a model cannot be trained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The model has no relation or no entity type.
    #[error("a model needs at least one relation and one entity type")]
    Empty,
    /// A relation refers to an entity type that does not exist.
    #[error("relation {relation} has no such entity type on its {side:?} side")]
    Entity {
        /// Index of the relation.
        relation: usize,
        /// Side of the relation.
        side: Side,
    },
    /// Embeddings, operator and comparator of a relation do not fit together.
    #[error("relation {relation}: {source}")]
    Shape {
        /// Index of the relation.
        relation: usize,
        /// The node of the relation's batch graph that does not fit, and the reason.
        source: ShapeError,
    },
    /// Featurized entities cannot be drawn as negatives.
    #[error(
        "relation {relation}: featurized entities cannot be drawn as {negatives} negatives; use batch negatives"
    )]
    Featurized {
        /// Index of the relation.
        relation: usize,
        /// Kind of negatives: "all" or "uniform".
        negatives: &'static str,
    },
    /// N3 is not defined for matrix operators.
    #[error(
        "relation {relation}: the regularizer N3 is not defined for the operators linear and affine; use DURA"
    )]
    Regularizer {
        /// Index of the relation.
        relation: usize,
    },
    /// Options that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// A number outside its permitted range.
    #[error("{key} must be {rule}")]
    Number {
        /// Configuration key.
        key: &'static str,
        /// The permitted range, in words.
        rule: &'static str,
    },
    /// The comparator cannot cut the embeddings of an entity type into its components.
    #[error(
        "the comparator `{comparator}` cuts embeddings into {components} components, so the dimension must be a multiple \
         of {components}; `{entity}` has {dimension}"
    )]
    Components {
        /// Name of the comparator.
        comparator: String,
        /// Number of components.
        components: usize,
        /// Name of the entity type.
        entity: String,
        /// Dimension of its embeddings.
        dimension: usize,
    },
}
