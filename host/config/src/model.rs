//! Keys of entity types and relation types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults;

/// Configuration of an entity type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntityConfig {
    /// Number of partitions of this type; with 1, the type is always in memory. All types on the same side of relations
    /// that have more than one partition must have equally many.
    #[schemars(range(min = 1, max = 65536))]
    pub num_partitions: u32,
    /// Whether an entity is a bag of features, whose mean embedding is the embedding of the entity. Featurized types
    /// have one partition.
    #[serde(default)]
    #[schemars(extend("x-rule" = "needs `num_partitions = 1`"))]
    pub featurized: bool,
    /// Dimension of this type's embeddings.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65536), extend("x-unset" = "the top-level `dimension`", "x-rule" = "equal on both sides of a relation"))]
    pub dimension: Option<u32>,
    /// File of vectors from which this type's embeddings start: an npy, safetensors or Parquet file. A vector belongs to
    /// the entity of the same name (of a featurized type, to the feature). Entities without a vector start at random.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "random", "x-rule" = "its vectors have the dimension of the type"))]
    pub init: Option<String>,
    /// File with the names of the vectors of `init`, in their order: one per line, or a list in JSON (`*.json`), as
    /// `pbg-host export` writes it.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "the column of names of a Parquet file; vectors without names belong to the entities in the order of their ids", "x-rule" = "needs `init`"))]
    pub init_names: Option<String>,
    /// Whether this type's embeddings stay as they start, while operators and other types are trained. `max_norm` then
    /// scales them only where they are compared.
    #[serde(default)]
    #[schemars(extend("x-rule" = "not on a GPU"))]
    pub frozen: bool,
}

/// Configuration of a relation type, or of the template of all relation types.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelationConfig {
    /// Name as in the relation column of the edges; `*` for all relations without an entry; any label with dynamic
    /// relations.
    #[schemars(length(min = 1), extend("x-rule" = "unique"))]
    pub name: String,
    /// Entity type of the left side.
    #[schemars(length(min = 1), extend("x-rule" = "a key of `entities`"))]
    pub lhs: String,
    /// Entity type of the right side.
    #[schemars(length(min = 1), extend("x-rule" = "a key of `entities`"))]
    pub rhs: String,
    /// Factor of the loss of this relation's edges.
    #[serde(default = "defaults::weight")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub weight: f32,
    /// Transformation of the right side before it is compared (with dynamic relations: one for each side; formulas may
    /// transform both sides of static relations): a built-in operator, the name of a standard plugin or of a component
    /// in `PBG_PLUGIN_PATH`, or the path of a component (`*.wasm`). Built in are `none`, `diagonal` (element-wise product with D parameters), `translation` (sum with D
    /// parameters), `linear` (product with a D x D matrix), `affine` (product with a matrix, then a sum) and
    /// `complex_diagonal` (element-wise complex product: the first D/2 numbers are real parts, the last D/2 imaginary).
    #[serde(default = "defaults::operator")]
    #[schemars(length(min = 1), extend("x-rule" = "`complex_diagonal` and `rotate` need an even dimension, `quate` a multiple of 4"))]
    pub operator: String,
    /// Whether every entity of the type in the current partition is a negative, instead of sampled entities.
    #[serde(default)]
    #[schemars(extend("x-rule" = "not with featurized types"))]
    pub all_negs: bool,
}
