//! Entity types and relations.

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
    /// either side). Built in are `none`, `diagonal` (element-wise product with D parameters),
    /// `translation` (sum with D parameters), `linear` (product with a D x D matrix), `affine`
    /// (product with a matrix, then a sum) and `complex_diagonal` (element-wise complex product: the
    /// first D/2 numbers are real parts, the last D/2 imaginary); or the name of a plugin: of a
    /// standard one or of a component in `PBG_PLUGIN_PATH`, or the path of a component (`*.wasm`).
    #[serde(default = "default::operator")]
    #[schemars(length(min = 1), extend("x-rule" = "components fit the dimension: `complex_diagonal` and `rotate` need an even one, `quate` a multiple of 4"))]
    pub operator: String,
    /// Every entity of the type in the current partition is a negative, instead of sampled ones.
    #[serde(default)]
    #[schemars(extend("x-rule" = "not with featurized types"))]
    pub all_negs: bool,
}
