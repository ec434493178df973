//! The configuration tree: what `pbg.toml` may say, with PBG's key names wherever it has one.
//!
//! The types here are plain data with their defaults and, as JSON-schema annotations, their ranges.
//! The schema is the only description of keys: checking a file, `--set`, the documentation and the
//! commented default file all read it. [`Config::parse`] turns text and overrides into a
//! [`Config`], or into the list of everything that is wrong with it.

use std::collections::BTreeMap;

use pbg_core::graph::{EntityDecl, RelationDecl, Schema};
use pbg_core::model::{Comparator, NegativesFrom, Optimizer, Regularizer, Storage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod check;
mod default;
mod defaults;
mod difference;
mod distributed;
mod errors;
mod execution;
mod installed;
mod key_path;
mod load;
mod model;
mod node;
mod operators;
mod overrides;
mod paths;
mod plugins;
mod presets;
mod reference;
mod schema;
mod sections;
mod spec;
mod suggest;
mod training;
mod validate;
mod validation;

pub use default::{DEFAULT_LOSS, DEFAULT_ORDER, DEFAULT_SAMPLER};
pub use difference::Difference;
pub use distributed::DistributedConfig;
pub use errors::{ConfigErrors, Problem};
pub use execution::ExecutionConfig;
pub use installed::Installed;
pub use model::{EntityConfig, RelationConfig};
pub use operators::OperatorError;
pub use overrides::split_override;
pub use plugins::{OnFault, PluginGrant, PluginPin, PluginsConfig};
pub use presets::Preset;
pub use reference::reference;
pub use schema::{default_toml, schema};
pub use suggest::key_named;
pub use validation::ValidationConfig;

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
    /// What embeddings are made of on disk; in memory, and in the optimizer's state, numbers are f32 always.
    #[serde(default)]
    #[schemars(extend("x-rule" = "`bf16` not on a GPU"))]
    pub storage: Storage,
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
    /// Standard deviation of the normal distribution of initial parameters of operators.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "x-unset" = "operators begin as the identity, as in PBG", "x-rule" = "not about operators of plugins, which say it themselves"))]
    pub operator_init_scale: Option<f32>,
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

    /// Loss: the name of a standard one or of a component in `PBG_PLUGIN_PATH`, or the path of a
    /// component (`*.wasm`).
    #[serde(default = "default::loss_fn")]
    #[schemars(length(min = 1))]
    pub loss_fn: String,
    /// The parameter `margin` of the loss, where it has one and
    /// `[plugins.params.LOSS]` does not set it.
    #[serde(default)]
    #[schemars(extend("x-unset" = "the loss's own default"))]
    pub margin: Option<f32>,
    /// Strength of the regulariser; 0 turns it off.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub regularization_coef: f32,
    /// Penalty on embeddings and parameters.
    #[serde(default)]
    #[schemars(extend("x-rule" = "not with operators `linear` and `affine`; `N3_embeddings` not with the comparator `cos`"))]
    pub regularizer: Regularizer,

    /// Weight of a further term of the loss, with dynamic relations: the cross entropy of each edge's relation among all
    /// relations of both directions, as their operators score them; 0 turns it off.
    #[serde(default)]
    #[schemars(range(min = 0), extend("x-rule" = "needs `dynamic_relations`, the comparator `dot` without `bias`, and an operator that works number by number; not on a GPU"))]
    pub relation_prediction: f32,

    /// Epochs to train in all; raise it later to go on. 0 leaves the initial model, to compare others with.
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
    /// Order of buckets: the name of a standard one or of a component in `PBG_PLUGIN_PATH`, or the
    /// path of a component (`*.wasm`).
    #[serde(default = "default::bucket_order")]
    #[schemars(length(min = 1))]
    pub bucket_order: String,
    /// Which relation the next batch is of, without dynamic relations: the name of a standard
    /// sampler or of a component in `PBG_PLUGIN_PATH`, or the path of a component (`*.wasm`).
    #[serde(default = "default::relation_sampler")]
    #[schemars(length(min = 1), extend("x-rule" = "none but the default with `dynamic_relations`"))]
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
    /// What is remembered of the gradients of embeddings, by which their steps are scaled. Operators and global embeddings
    /// have Adagrad in any case.
    #[serde(default)]
    #[schemars(extend("x-rule" = "`adagrad` not on a GPU"))]
    pub optimizer: Optimizer,
    /// Learning rate of embeddings.
    #[serde(default = "default::lr")]
    #[schemars(range(min = 0))]
    pub lr: f32,
    /// Learning rate of operators and global embeddings.
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
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000), extend("x-unset" = "after every bucket, as long as commits cost less than 2 % of the time"))]
    pub checkpoint_interval: Option<f64>,
    /// Keeps a copy of the checkpoint every so many epochs.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000), extend("x-unset" = "no copies"))]
    pub checkpoint_preservation_interval: Option<u32>,

    /// Trainers that the first bucket waits for.
    #[serde(default = "default::num_machines")]
    #[schemars(range(min = 1, max = 256), extend("x-rule" = "more than 1 needs `distributed_init_method`"))]
    pub num_machines: u32,
    /// How several trainers of one run find each other: `file:///PATH`, `tcp://HOST:PORT`, `env://`, or the NATS servers
    /// `nats://HOST:PORT` and `tls://HOST:PORT`, several with commas between.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "this machine trains alone"))]
    pub distributed_init_method: Option<String>,
    /// In the first pass, every bucket but the first has a partition that was trained before, so that all embeddings
    /// come to lie in one space.
    #[serde(default = "default::tree_init")]
    pub distributed_tree_init_order: bool,
    /// How the trainers of one run keep in touch.
    #[serde(default)]
    pub distributed: DistributedConfig,

    /// Formulas of operators that are plugins, by the operator's name. A run writes them into its checkpoint, where
    /// they say what its parameters mean; a plugin whose formula is here is not asked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub formulas: BTreeMap<String, String>,
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

    /// What the edges of the dataset are of.
    #[must_use]
    pub fn graph_schema(&self) -> Schema {
        let entity = |(name, entity): (&String, &EntityConfig)| {
            let decl = EntityDecl {
                num_partitions: entity.num_partitions,
                featurized: entity.featurized,
            };
            (name.clone(), decl)
        };
        let relation = |relation: &RelationConfig| RelationDecl {
            name: relation.name.clone(),
            lhs: relation.lhs.clone(),
            rhs: relation.rhs.clone(),
        };
        Schema {
            entities: self.entities.iter().map(entity).collect(),
            relations: self.relations.iter().map(relation).collect(),
            dynamic_relations: self.dynamic_relations,
        }
    }

    /// Edge sets whose edges are no wrong candidates when validation edges are ranked.
    #[must_use]
    pub fn validation_filter(&self) -> Vec<String> {
        let rules = &self.validation;
        let default = || {
            let mut sets = self.edge_sets.clone();
            sets.extend(rules.edges.clone());
            sets
        };
        rules.filter.clone().unwrap_or_else(default)
    }

    /// Learning rate of operators and global embeddings.
    #[must_use]
    pub fn parameter_lr(&self) -> f32 {
        self.relation_lr.unwrap_or(self.lr)
    }
}
