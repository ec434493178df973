//! The configuration tree: what `pbg.toml` may say, with PBG's key names wherever it has one.
//!
//! The types here are plain data with their defaults and, as JSON-schema annotations, their ranges.
//! The schema is the only description of keys: checking a file, `--set`, the documentation and the
//! commented default file all read it. [`Config::parse`] turns text and overrides into a
//! [`Config`], or into the list of everything that is wrong with it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod check;
mod errors;
mod key_path;
mod load;
mod node;
mod overrides;
mod paths;
mod reference;
mod schema;
mod spec;
mod suggest;
mod training;
mod validate;

pub use errors::{ConfigErrors, Problem};
pub use overrides::split_override;
pub use reference::reference;
pub use schema::{default_toml, schema};
pub use suggest::nearest;
pub use validate::{STANDARD_LOSSES, STANDARD_ORDERS, STANDARD_SAMPLERS};

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Folder of the dataset that `pbg-host import` makes.
    #[schemars(length(min = 1))]
    pub dataset: String,
    /// Folder of the checkpoint: where a run writes, and resumes from.
    #[schemars(length(min = 1))]
    pub checkpoint_path: String,
    /// Edge sets of the dataset that every epoch trains, in this order.
    #[serde(default = "default::edge_sets")]
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub edge_sets: Vec<String>,
    /// Folder of a checkpoint whose embeddings and parameters are the initial ones; used only
    /// for what `checkpoint_path` does not have yet.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "random"))]
    pub init_path: Option<String>,
    /// Entity types by name.
    #[schemars(extend("minProperties" = 1))]
    pub entities: BTreeMap<String, EntityConfig>,
    /// Relations. The name `*` stands for every relation of the dataset that has no entry of its own.
    #[schemars(length(min = 1))]
    pub relations: Vec<RelationConfig>,

    /// Dimension of embeddings, unless an entity type has its own.
    #[schemars(range(min = 1, max = 65536))]
    pub dimension: u32,
    /// Standard deviation of the normal distribution of initial embeddings.
    #[serde(default = "default::init_scale")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub init_scale: f32,
    /// Rows longer than this are scaled back, in place, when they are looked up.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "x-unset" = "no limit"))]
    pub max_norm: Option<f32>,
    /// Adds a learned vector per entity type to its embeddings.
    /// Not possible with dynamic relations.
    #[serde(default)]
    #[schemars(extend("x-unset" = "`true`; `false` with dynamic relations", "x-rule" = "not `true` with dynamic relations"))]
    pub global_emb: Option<bool>,
    /// How two embeddings become a score.
    #[serde(default)]
    pub comparator: Comparator,
    /// The first coordinate is a bias, added to the score and left out of the comparator.
    #[serde(default)]
    #[schemars(extend("x-rule" = "needs dimensions of at least 2"))]
    pub bias: bool,
    /// One entry of `relations` is the template of many relation types, each with an operator of
    /// its own for either side (reciprocal); batches mix relations.
    #[serde(default)]
    #[schemars(extend("x-rule" = "needs exactly one entry in `relations`"))]
    pub dynamic_relations: bool,

    /// Loss: `ranking`, `logistic`, `softmax`, `self_adversarial`, `bce`,
    /// `sampled_softmax_temperature` or the path of a component (`*.wasm`).
    #[serde(default = "default::loss_fn")]
    #[schemars(length(min = 1))]
    pub loss_fn: String,
    /// The parameter `margin` of the loss, where it has one and
    /// `[plugins.params.LOSS]` does not set it.
    #[serde(default)]
    #[schemars(extend("x-unset" = "the loss's own default, 0.1 for `ranking`"))]
    pub margin: Option<f32>,
    /// Strength of the regulariser; 0 turns it off.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub regularization_coef: f32,
    /// Penalty on embeddings and parameters.
    #[serde(default)]
    #[schemars(extend("x-rule" = "not with operators `linear` and `affine`"))]
    pub regularizer: Regularizer,

    /// Epochs to train in all; raise it later to go on.
    #[serde(default = "default::num_epochs")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub num_epochs: u32,
    /// Parts into which every bucket is cut: all first parts are trained before all second parts.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000), extend("x-unset" = "by `max_edges_per_chunk`"))]
    pub num_edge_chunks: Option<u32>,
    /// With `num_edge_chunks` unset: as many parts as bring the largest bucket to at most this many edges.
    #[serde(default = "default::max_edges_per_chunk")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub max_edges_per_chunk: u64,
    /// Order of buckets: `inside_out`, `outside_in`, `affinity`, `random` or the path of a
    /// component (`*.wasm`).
    #[serde(default = "default::bucket_order")]
    #[schemars(length(min = 1))]
    pub bucket_order: String,
    /// Which relation the next batch is of, without dynamic relations: `proportional`, `uniform`,
    /// `round_robin`, `hard_first` or the path of a component (`*.wasm`).
    #[serde(default = "default::relation_sampler")]
    #[schemars(length(min = 1))]
    pub relation_sampler: String,
    /// Partitions that are in memory at once; more save loads.
    #[serde(default = "default::buffer_partitions")]
    #[schemars(range(min = 2, max = 131_072))]
    pub buffer_partitions: u32,
    /// Hogwild worker threads.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4096), extend("x-unset" = "one per core"))]
    pub workers: Option<u32>,
    /// Seed of everything random: the same seed with one worker gives the same bytes.
    #[serde(default)]
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub seed: u64,

    /// Positive edges per batch.
    #[serde(default = "default::batch_size")]
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-rule" = "a multiple of `num_batch_negs` if that is not 0"))]
    pub batch_size: u32,
    /// Positives per chunk: the others of its chunk are negatives of each. 0: none.
    #[serde(default = "default::num_batch_negs")]
    #[schemars(range(min = 0, max = 2_147_483_648_u32))]
    pub num_batch_negs: u32,
    /// Negatives per chunk and side, drawn uniformly from the partition. 0: none.
    #[serde(default = "default::num_uniform_negs")]
    #[schemars(range(min = 0, max = 2_147_483_648_u32), extend("x-rule" = "not both 0, unless all relations have `all_negs`"))]
    pub num_uniform_negs: u32,
    /// Where uniform negatives are drawn from.
    #[serde(default)]
    pub negatives_from: NegativesFrom,
    /// Positives that share negatives. More share more, which is faster.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-unset" = "`num_batch_negs`, or `num_uniform_negs` if that is 0", "x-rule" = "equal to `num_batch_negs` if that is not 0"))]
    pub chunk_size: Option<u32>,
    /// No negatives that replace the left side.
    #[serde(default)]
    pub disable_lhs_negs: bool,
    /// No negatives that replace the right side.
    #[serde(default)]
    #[schemars(extend("x-rule" = "not together with `disable_lhs_negs`"))]
    pub disable_rhs_negs: bool,
    /// Learning rate of embeddings (row-Adagrad).
    #[serde(default = "default::lr")]
    #[schemars(range(min = 0))]
    pub lr: f32,
    /// Learning rate of operators and global embeddings (Adagrad).
    #[serde(default)]
    #[schemars(range(min = 0), extend("x-unset" = "`lr`"))]
    pub relation_lr: Option<f32>,

    /// Fraction of each bucket's edges held out for evaluation while training: the same edges in
    /// every epoch, never trained.
    #[serde(default = "default::eval_fraction")]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub eval_fraction: f64,
    /// `num_batch_negs` of that evaluation.
    #[serde(default = "default::eval_negs")]
    #[schemars(range(min = 0, max = 2_147_483_648_u32))]
    pub eval_num_batch_negs: u32,
    /// `num_uniform_negs` of that evaluation.
    #[serde(default = "default::eval_negs")]
    #[schemars(range(min = 0, max = 2_147_483_648_u32))]
    pub eval_num_uniform_negs: u32,
    /// Ranks of an edge set between epochs, and what follows from them.
    #[serde(default)]
    pub validation: ValidationConfig,

    /// Seconds after which the next finished bucket commits a checkpoint; every epoch does in
    /// any case. 0: after every bucket.
    #[serde(default = "default::checkpoint_interval")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub checkpoint_interval: f64,
    /// Keeps a copy of the checkpoint every so many epochs.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000), extend("x-unset" = "no copies"))]
    pub checkpoint_preservation_interval: Option<u32>,

    /// How the work is laid out on the machine; results do not depend on it, but for rounding.
    #[serde(default)]
    pub execution: ExecutionConfig,
    /// What plugins get and may use.
    #[serde(default)]
    pub plugins: PluginsConfig,
}

impl Config {
    /// Dimension of the embeddings of entity type `name`.
    #[must_use]
    pub fn entity_dimension(&self, name: &str) -> u32 {
        self.entities
            .get(name)
            .and_then(|e| e.dimension)
            .unwrap_or(self.dimension)
    }

    /// Whether entity types have a global embedding.
    #[must_use]
    pub fn has_global_emb(&self) -> bool {
        self.global_emb.unwrap_or(!self.dynamic_relations)
    }

    /// Learning rate of operators and global embeddings.
    #[must_use]
    pub fn parameter_lr(&self) -> f32 {
        self.relation_lr.unwrap_or(self.lr)
    }
}

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

/// How the work is laid out on the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionConfig {
    /// Read the partitions that the next bucket lacks, and write those that left the buffer, while
    /// the current bucket trains. Takes memory for two partitions more.
    #[serde(default = "default::prefetch")]
    pub prefetch: bool,
    /// Bytes that the buffers of one slice of a batch aim at.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_099_511_627_776_u64), extend("x-unset" = "half of the second-level cache"))]
    pub slice_bytes: Option<u64>,
    /// Precision of the factors of matrix products; embeddings, sums and accumulators are f32 always.
    #[serde(default)]
    pub precision: Precision,
    /// When the gradients of a batch are applied to embeddings.
    #[serde(default)]
    pub update: Update,
}

/// Ranks of an edge set between epochs, and what follows from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidationConfig {
    /// Edge set that is ranked: both sides of each edge, filtered, as `pbg-host eval` ranks them.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "no validation"))]
    pub edges: Option<String>,
    /// Edge sets whose edges are no wrong candidates.
    #[serde(default)]
    #[schemars(extend("x-unset" = "`edge_sets` and `validation.edges`"))]
    pub filter: Option<Vec<String>>,
    /// Epochs between two rankings.
    #[serde(default = "default::validation_interval")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub interval: u32,
    /// Ranks at most this many edges, the same random ones each time.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-unset" = "all"))]
    pub limit: Option<u32>,
    /// Ranks each edge among this many random entities, the same ones each time.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-unset" = "all entities"))]
    pub candidates: Option<u32>,
    /// Ends training after this many rankings in a row without a higher MRR. The checkpoint with
    /// the highest one is kept in the folder `best` of the checkpoint.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000), extend("x-unset" = "training ends after `num_epochs`", "x-rule" = "needs `validation.edges`"))]
    pub early_stop: Option<u32>,
    /// Multiplies both learning rates after `lr_patience` rankings in a row without a higher MRR.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1, "x-unset" = "learning rates stay", "x-rule" = "needs `validation.edges`"))]
    pub lr_decay: Option<f32>,
    /// See `lr_decay`.
    #[serde(default = "default::lr_patience")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub lr_patience: u32,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self {
            edges: None,
            filter: None,
            interval: default::validation_interval(),
            limit: None,
            candidates: None,
            early_stop: None,
            lr_decay: None,
            lr_patience: default::lr_patience(),
        }
    }
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

/// Precision of the factors of matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32 bits.
    #[default]
    Fp32,
    /// bfloat16: several times faster where the processor multiplies it, and refused elsewhere.
    Bf16,
}

/// When the gradients of a batch are applied to embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// Once per batch, summed, as PBG does.
    #[default]
    Batch,
    /// At the end of each slice of a batch, while its rows are in the cache.
    Slice,
}

impl Default for ExecutionConfig {
    fn default() -> Self {
        Self {
            prefetch: default::prefetch(),
            slice_bytes: None,
            precision: Precision::default(),
            update: Update::default(),
        }
    }
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
    /// What happens when a plugin fails while training.
    #[serde(default)]
    pub on_fault: OnFault,
    /// Folders that plugins may read.
    #[serde(default)]
    pub grants: Vec<PluginGrant>,
    /// Plugins that must be the very ones.
    #[serde(default)]
    pub pins: Vec<PluginPin>,
}

/// What happens when a plugin fails while training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFault {
    /// The run ends; the last checkpoint is kept.
    #[default]
    End,
    /// The run goes on from the same point with the slot's standard plugin, and says so.
    Fallback,
}

/// Folders that a plugin may read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginGrant {
    /// Name of the plugin, as it names itself.
    #[schemars(length(min = 1))]
    pub plugin: String,
    /// Folders whose files it may read and list.
    #[schemars(length(min = 1))]
    pub read: Vec<String>,
}

/// A plugin that must be the very one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginPin {
    /// Name of the plugin, as it names itself.
    #[schemars(length(min = 1))]
    pub plugin: String,
    /// SHA-256 of its file in hexadecimal, as `pbg-host plugin inspect` shows it.
    #[schemars(length(min = 1), extend("x-rule" = "64 hexadecimal digits"))]
    pub sha256: String,
}

/// Limits of every call into a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginLimits {
    /// Milliseconds that one call may take before it is stopped.
    #[serde(default = "default::deadline_ms")]
    #[schemars(range(min = 1, max = 3_600_000))]
    pub deadline_ms: u64,
    /// MiB of memory that a plugin may allocate.
    #[serde(default = "default::memory_mib")]
    #[schemars(range(min = 1, max = 4096))]
    pub memory_mib: u64,
    /// Entries that all tables of a plugin may have together: about one for each of its functions.
    #[serde(default = "default::table_elements")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub table_elements: u64,
    /// KiB of stack that a call may use.
    #[serde(default = "default::stack_kib")]
    #[schemars(range(min = 16, max = 1024))]
    pub stack_kib: u64,
    /// MiB that one call may hand over, and that a file may have which a plugin reads.
    #[serde(default = "default::result_mib")]
    #[schemars(range(min = 1, max = 1024))]
    pub result_mib: u64,
    /// Resource handles that a plugin may hold at once.
    #[serde(default = "default::handles")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub handles: u64,
    /// Nodes that the graph of a traced loss may have.
    #[serde(default = "default::graph_nodes")]
    #[schemars(range(min = 1, max = 1024))]
    pub graph_nodes: u64,
    /// Lines that one call may log; more are counted and dropped.
    #[serde(default = "default::log_lines")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub log_lines: u64,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            deadline_ms: default::deadline_ms(),
            memory_mib: default::memory_mib(),
            table_elements: default::table_elements(),
            stack_kib: default::stack_kib(),
            result_mib: default::result_mib(),
            handles: default::handles(),
            graph_nodes: default::graph_nodes(),
            log_lines: default::log_lines(),
        }
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
    pub(super) fn num_epochs() -> u32 {
        1
    }
    pub(super) fn max_edges_per_chunk() -> u64 {
        1_000_000_000
    }
    pub(super) fn bucket_order() -> String {
        "inside_out".to_owned()
    }
    pub(super) fn prefetch() -> bool {
        true
    }
    pub(super) fn relation_sampler() -> String {
        "proportional".to_owned()
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
    pub(super) fn validation_interval() -> u32 {
        1
    }
    pub(super) fn lr_patience() -> u32 {
        2
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
    pub(super) fn table_elements() -> u64 {
        100_000
    }
    pub(super) fn stack_kib() -> u64 {
        512
    }
    pub(super) fn result_mib() -> u64 {
        16
    }
    pub(super) fn handles() -> u64 {
        1000
    }
    pub(super) fn graph_nodes() -> u64 {
        1024
    }
    pub(super) fn log_lines() -> u64 {
        100
    }
}
