//! Entity types, relations, and how an edge becomes a score.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default;

/// An entity type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntityConfig {
    /// Partitions of this type; 1 keeps it in memory throughout. All types with more than one
    /// must agree per side.
    #[schemars(range(min = 1, max = 65536))]
    pub num_partitions: u32,
    /// An entity is a bag of features: its embedding is the mean of theirs. Featurized types
    /// have one partition.
    #[serde(default)]
    #[schemars(extend("x-rule" = "needs `num_partitions = 1`"))]
    pub featurized: bool,
    /// Dimension of this type's embeddings.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65536), extend("x-unset" = "the top-level `dimension`", "x-rule" = "both sides of a relation agree"))]
    pub dimension: Option<u32>,
}

/// A relation, or the template of many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelationConfig {
    /// Name as in the relation column of the edges; `*` for all that are not named; any label
    /// with dynamic relations.
    #[schemars(length(min = 1), extend("x-rule" = "unique"))]
    pub name: String,
    /// Entity type of the left side.
    #[schemars(length(min = 1), extend("x-rule" = "a key of `entities`"))]
    pub lhs: String,
    /// Entity type of the right side.
    #[schemars(length(min = 1), extend("x-rule" = "a key of `entities`"))]
    pub rhs: String,
    /// Factor of the loss of this relation's edges.
    #[serde(default = "default::weight")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub weight: f32,
    /// Transformation of the right side before it is compared (with dynamic relations: one for
    /// either side).
    #[serde(default)]
    #[schemars(extend("x-rule" = "`complex_diagonal` needs an even dimension"))]
    pub operator: Operator,
    /// Every entity of the type in the current partition is a negative, instead of sampled ones.
    #[serde(default)]
    #[schemars(extend("x-rule" = "not with featurized types"))]
    pub all_negs: bool,
}

/// How a relation transforms an embedding of dimension D.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// The identity.
    #[default]
    None,
    /// Element-wise product with D parameters.
    Diagonal,
    /// Sum with D parameters.
    Translation,
    /// Product with a D x D matrix.
    Linear,
    /// Product with a D x D matrix, then sum with D parameters.
    Affine,
    /// Element-wise complex product: the first D/2 numbers are real parts, the last D/2 imaginary.
    ComplexDiagonal,
}

impl Operator {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::Diagonal,
        Self::Translation,
        Self::Linear,
        Self::Affine,
        Self::ComplexDiagonal,
    ];
}

/// How two embeddings become a score (higher is better).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparator {
    /// Inner product.
    Dot,
    /// Inner product of the normalised vectors.
    #[default]
    Cos,
    /// Minus the Euclidean distance.
    L2,
    /// Minus the squared Euclidean distance.
    SquaredL2,
}

impl Comparator {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dot, Self::Cos, Self::L2, Self::SquaredL2];
}

/// Penalty on embeddings and parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Regularizer {
    /// Cubed absolute values (Lacroix, Usunier, Obozinski 2018), moduli for `complex_diagonal`.
    #[default]
    N3,
}

/// Where uniform negatives are drawn from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NegativesFrom {
    /// The partition of the side that they replace, as in PBG.
    #[default]
    Partition,
    /// Both partitions of the bucket, where a relation has one entity type on both sides: scores become
    /// comparable between partitions, which they hardly are otherwise.
    Bucket,
}
