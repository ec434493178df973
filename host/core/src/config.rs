//! The configuration tree: what `pbg.toml` may say, with PBG's key names wherever it has one.
//!
//! The types here are plain data with their defaults `load` turns text and overrides into a
//! [`Config`] or into the list of everything that is wrong with it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Folder of the dataset that `pbg-host import` makes.
    pub dataset: String,
    /// Folder of the checkpoint: where a run writes, and resumes from.
    pub checkpoint_path: String,
    /// Edge sets of the dataset that every epoch trains, in this order.
    #[serde(default = "default::edge_sets")]
    pub edge_sets: Vec<String>,
    /// Folder of a checkpoint whose embeddings and parameters are the initial ones; used only
    /// for what `checkpoint_path` does not have yet.
    #[serde(default)]
    pub init_path: Option<String>,
    /// Entity types by name.
    pub entities: BTreeMap<String, EntityConfig>,
    /// Relations. The name `*` stands for every relation of the dataset that has no entry of its own.
    pub relations: Vec<RelationConfig>,

    /// Dimension of embeddings, unless an entity type has its own.
    pub dimension: u32,
    /// Standard deviation of the normal distribution of initial embeddings.
    #[serde(default = "default::init_scale")]
    pub init_scale: f32,
    /// Rows longer than this are scaled back, in place, when they are looked up.
    #[serde(default)]
    pub max_norm: Option<f32>,
    /// Adds a learned vector per entity type to its embeddings. Default: on, except with
    /// dynamic relations, which do not allow it.
    #[serde(default)]
    pub global_emb: Option<bool>,
    /// How two embeddings become a score.
    #[serde(default)]
    pub comparator: Comparator,
    /// The first coordinate is a bias, added to the score and left out of the comparator.
    #[serde(default)]
    pub bias: bool,
    /// One entry of `relations` is the template of many relation types, each with an operator of
    /// its own for either side (reciprocal); batches mix relations.
    #[serde(default)]
    pub dynamic_relations: bool,

    /// Loss: `ranking`, `logistic` or `softmax`.
    #[serde(default = "default::loss_fn")]
    pub loss_fn: String,
    /// Margin of the ranking loss.
    #[serde(default = "default::margin")]
    pub margin: f32,
    /// Strength of the regulariser; 0 turns it off.
    #[serde(default)]
    pub regularization_coef: f32,
    /// Which regulariser.
    #[serde(default)]
    pub regularizer: Regularizer,

    /// Epochs to train in all; raise it later to go on.
    #[serde(default = "default::num_epochs")]
    pub num_epochs: u32,
    /// Parts into which every bucket is cut: all first parts are trained before all second parts.
    /// Default: derived from `max_edges_per_chunk`.
    #[serde(default)]
    pub num_edge_chunks: Option<u32>,
    /// With `num_edge_chunks` unset: as many parts as bring the largest bucket to at most this many edges.
    #[serde(default = "default::max_edges_per_chunk")]
    pub max_edges_per_chunk: u64,
    /// Bucket order: name of a standard plugin or path of a component.
    #[serde(default = "default::bucket_order")]
    pub bucket_order: String,
    /// Partitions that fit the buffer at once (at least 2).
    #[serde(default = "default::buffer_partitions")]
    pub buffer_partitions: u32,
    /// Hogwild worker threads. Default: one per core.
    #[serde(default)]
    pub workers: Option<u32>,
    /// Seed of everything random: the same seed with one worker gives the same bytes.
    #[serde(default)]
    pub seed: u64,

    /// Positive edges per batch.
    #[serde(default = "default::batch_size")]
    pub batch_size: u32,
    /// Positives per chunk; each is compared with the others of its chunk. 0: none.
    #[serde(default = "default::num_batch_negs")]
    pub num_batch_negs: u32,
    /// Uniformly drawn negatives per chunk and side. 0: none.
    #[serde(default = "default::num_uniform_negs")]
    pub num_uniform_negs: u32,
    /// No negatives that replace the left side.
    #[serde(default)]
    pub disable_lhs_negs: bool,
    /// No negatives that replace the right side.
    #[serde(default)]
    pub disable_rhs_negs: bool,
    /// Learning rate of embeddings (row-Adagrad).
    #[serde(default = "default::lr")]
    pub lr: f32,
    /// Learning rate of operators and global embeddings (Adagrad). Default: `lr`.
    #[serde(default)]
    pub relation_lr: Option<f32>,

    /// Fraction of each bucket's edges held out for evaluation while training: the same edges in
    /// every epoch, never trained.
    #[serde(default = "default::eval_fraction")]
    pub eval_fraction: f64,
    /// `num_batch_negs` of that evaluation. Default 1000.
    #[serde(default = "default::eval_negs")]
    pub eval_num_batch_negs: u32,
    /// `num_uniform_negs` of that evaluation. Default 1000.
    #[serde(default = "default::eval_negs")]
    pub eval_num_uniform_negs: u32,

    /// Seconds after which the next finished bucket commits a checkpoint; every epoch does in
    /// any case. 0: after every bucket.
    #[serde(default = "default::checkpoint_interval")]
    pub checkpoint_interval: f64,
    /// Keeps a copy of the checkpoint every so many epochs.
    #[serde(default)]
    pub checkpoint_preservation_interval: Option<u32>,

    /// What plugins get and may use.
    #[serde(default)]
    pub plugins: PluginsConfig,
}

/// An entity type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntityConfig {
    /// Partitions of this type; 1 keeps it in memory throughout. All types with more than one
    /// must agree per side.
    pub num_partitions: u32,
    /// An entity is a bag of features: its embedding is the mean of theirs. Featurized types
    /// have one partition.
    #[serde(default)]
    pub featurized: bool,
    /// Dimension of this type's embeddings. Default: the top-level `dimension`.
    #[serde(default)]
    pub dimension: Option<u32>,
}

/// A relation, or the template of many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelationConfig {
    /// Name as in the relation column of the edges; `*` for all that are not named; any label
    /// with dynamic relations.
    pub name: String,
    /// Entity type of the left side.
    pub lhs: String,
    /// Entity type of the right side.
    pub rhs: String,
    /// Factor of the loss of this relation's edges.
    #[serde(default = "default::weight")]
    pub weight: f32,
    /// Transformation of the right side before it is compared (with dynamic relations: one for
    /// either side).
    #[serde(default)]
    pub operator: Operator,
    /// Every entity of the type in the current partition is a negative, instead of sampled ones.
    #[serde(default)]
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

/// Penalty on embeddings and parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Regularizer {
    /// Cubed absolute values (Lacroix, Usunier, Obozinski 2018), moduli for `complex_diagonal`.
    #[default]
    N3,
}

/// What plugins get and may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginsConfig {
    /// Parameters by plugin name: `[plugins.params.NAME]`.
    #[serde(default)]
    pub params: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// Limits of every call into a plugin.
    #[serde(default)]
    pub limits: PluginLimits,
}

/// Limits of every call into a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginLimits {
    /// Milliseconds that one call may take.
    #[serde(default = "default::deadline_ms")]
    pub deadline_ms: u64,
    /// MiB of linear memory.
    #[serde(default = "default::memory_mib")]
    pub memory_mib: u64,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self { deadline_ms: default::deadline_ms(), memory_mib: default::memory_mib() }
    }
}

/// Defaults: PBG's, where PBG has the key.
mod default {
    pub(super) fn edge_sets() -> Vec<String> {
        vec!["train".to_owned()]
    }
    pub(super) fn init_scale() -> f32 {
        1e-3
    }
    pub(super) fn loss_fn() -> String {
        "ranking".to_owned()
    }
    pub(super) fn margin() -> f32 {
        0.1
    }
    pub(super) fn num_epochs() -> u32 {
        1
    }
    pub(super) fn max_edges_per_chunk() -> u64 {
        1_000_000_000
    }
    pub(super) fn bucket_order() -> String {
        "inside_out".to_owned()
    }
    pub(super) fn buffer_partitions() -> u32 {
        2
    }
    pub(super) fn batch_size() -> u32 {
        1000
    }
    pub(super) fn num_batch_negs() -> u32 {
        50
    }
    pub(super) fn num_uniform_negs() -> u32 {
        50
    }
    pub(super) fn lr() -> f32 {
        0.01
    }
    pub(super) fn eval_fraction() -> f64 {
        0.05
    }
    pub(super) fn eval_negs() -> u32 {
        1000
    }
    pub(super) fn checkpoint_interval() -> f64 {
        600.0
    }
    pub(super) fn weight() -> f32 {
        1.0
    }
    pub(super) fn deadline_ms() -> u64 {
        1000
    }
    pub(super) fn memory_mib() -> u64 {
        64
    }
}
