//! The configuration of a run: the keys of `pbg.toml`, named as in PBG wherever PBG has the key.
//!
//! The types here are plain data with their defaults and, as JSON-schema annotations, their ranges.
//! The schema is the only description of the keys: the check of a file, `--set`, the reference in
//! `docs/config.md` and the commented default file are all derived from it. [`Config::parse`] turns
//! TOML text and overrides into a [`Config`], or returns all problems at once.

use std::collections::BTreeMap;

use pbg_core::graph::{EntityDecl, RelationDecl, Schema};
use pbg_core::model::{EmbeddingFormat, NegativesFrom, Optimizer, Regularizer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod check;
mod comparators;
mod defaults;
mod difference;
mod distributed;
mod errors;
mod execution;
mod formula_differences;
mod formulas;
mod idle_parameters;
mod inherited;
mod installed;
mod key_path;
mod ledger_place;
mod load;
mod lr_schedule;
mod model;
mod node;
mod operators;
mod overrides;
mod paths;
mod plugins;
mod presets;
mod reference;
mod resume_keys;
mod schema;
mod sections;
mod spec;
mod suggest;
mod validate;
mod validation;

pub use comparators::ComparatorError;
pub use defaults::{DEFAULT_LOSS, DEFAULT_NEGATIVES, DEFAULT_ORDER, DEFAULT_SAMPLER};
pub use difference::ConfigDifference;
pub use distributed::{DistributedConfig, LedgerChoice, LedgerPlace};
pub use errors::{ConfigErrors, ConfigProblem};
pub use execution::ExecutionConfig;
pub use formulas::{FormulaOrigin, UnwritableFormula, formula_text};
pub use idle_parameters::IdleParameters;
pub use installed::{StrategyNames, is_plugin_path};
pub use lr_schedule::LrScheduleConfig;
pub use model::{EntityConfig, RelationConfig};
pub use operators::OperatorError;
pub use overrides::split_override;
pub use plugins::{OnFault, PluginGrant, PluginPin, PluginsConfig};
pub use presets::Preset;
pub use reference::reference;
pub use schema::{default_toml, schema};
pub use suggest::key_named;
pub use validation::ValidationConfig;

/// Configuration of a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Folder of the dataset, as `pbg-host import` writes it; for reading, also the URL of a folder in an object store.
    #[schemars(length(min = 1))]
    pub dataset: String,
    /// Folder of the checkpoint, which a run writes and resumes from.
    #[schemars(length(min = 1))]
    pub checkpoint_path: String,
    /// Edge sets of the dataset that every epoch trains, in this order.
    #[serde(default = "defaults::edge_sets")]
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub edge_sets: Vec<String>,
    /// Folder (or URL) of a checkpoint whose embeddings and parameters initialise the model; used only for
    /// the parts of the model that `checkpoint_path` does not contain yet.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "random"))]
    pub init_path: Option<String>,
    /// Number format of embeddings on disk. Embeddings in memory and the optimizer's state are always f32.
    #[serde(default)]
    #[schemars(extend("x-rule" = "`bf16` not on a GPU"))]
    pub storage: EmbeddingFormat,
    /// Entity types by name.
    #[schemars(extend("minProperties" = 1))]
    pub entities: BTreeMap<String, EntityConfig>,
    /// Relation types. The name `*` stands for every relation of the dataset that has no entry of its own.
    #[schemars(length(min = 1))]
    pub relations: Vec<RelationConfig>,

    /// Dimension of embeddings, unless an entity type has its own.
    #[schemars(range(min = 1, max = 65536))]
    pub dimension: u32,
    /// Standard deviation of the normal distribution from which embeddings are initialised.
    #[serde(default = "defaults::init_scale")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub init_scale: f32,
    /// Standard deviation of the normal distribution from which parameters of operators are initialised.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "x-unset" = "operators start as the identity, as in PBG", "x-rule" = "does not apply to operators of plugins, which define their own initial values"))]
    pub operator_init_scale: Option<f32>,
    /// Maximum norm of an embedding: longer ones are scaled down to it, in place, when they are looked up.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "x-unset" = "no limit"))]
    pub max_norm: Option<f32>,
    /// Whether a learned vector per entity type is added to all embeddings of that type, unless the type is frozen.
    /// Not possible with dynamic relations.
    #[serde(default)]
    #[schemars(extend("x-unset" = "`true`; `false` with dynamic relations", "x-rule" = "not `true` with dynamic relations"))]
    pub global_emb: Option<bool>,
    /// Function that computes a score from two embeddings: a built-in comparator, the name of a plugin or the path of a
    /// component, or the name of a formula in `[formulas]`. Built in are `dot` (inner product), `cos` (inner product of the
    /// normalised vectors), `l2` (minus the Euclidean distance), `squared_l2` (minus its square), `l1` (minus the sum of
    /// absolute differences) and `complex_l1` (minus the sum of the moduli of complex differences, RotatE's distance: the
    /// first D/2 numbers are real parts, the last D/2 imaginary). `l1`, `complex_l1`, plugins and formulas are computed
    /// pair by pair and not as matrix products, which takes several times as long.
    #[serde(default = "defaults::comparator")]
    #[schemars(length(min = 1), extend("x-rule" = "`complex_l1` needs an even dimension; `l1`, `complex_l1`, plugins and formulas not with `bf16`, not on a GPU, and without indexes"))]
    pub comparator: String,
    /// Whether the first coordinate of an embedding is a bias, which is added to the score and left out of the
    /// comparator.
    #[serde(default)]
    #[schemars(extend("x-rule" = "needs dimensions of at least 2"))]
    pub bias: bool,
    /// Whether the one entry of `relations` is the template of all relation types. Each type then has its own operator
    /// for each side (reciprocal relations), and batches mix relation types.
    #[serde(default)]
    #[schemars(extend("x-rule" = "needs exactly one entry in `relations`"))]
    pub dynamic_relations: bool,

    /// Loss: the name of a standard loss or of a component in `PBG_PLUGIN_PATH`, or the path of a
    /// component (`*.wasm`).
    #[serde(default = "defaults::loss_fn")]
    #[schemars(length(min = 1))]
    pub loss_fn: String,
    /// Value of the loss's parameter `margin`, if the loss has one and
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
    #[schemars(extend("x-rule" = "`N3` and `N3_embeddings` not with the operators `linear` and `affine`; `N3_embeddings` and `DURA` not with the comparator `cos`"))]
    pub regularizer: Regularizer,

    /// Weight of relation prediction, an additional term of the loss: the cross entropy of each edge's relation type
    /// among the relation types of both directions, by the scores that their operators give. 0 turns it off.
    #[serde(default)]
    #[schemars(range(min = 0), extend("x-rule" = "needs `dynamic_relations`, the comparator `dot` without `bias`, and the operator `diagonal`, `translation` or `complex_diagonal`; not on a GPU"))]
    pub relation_prediction: f32,

    /// Total number of epochs; raise it later to continue training. 0 writes the untrained initial model, as a
    /// baseline.
    #[serde(default = "defaults::count::<1>")]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub num_epochs: u32,
    /// Number of edge chunks into which every bucket is cut. The first chunks of all buckets are trained before the
    /// second chunks.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000), extend("x-unset" = "chosen by `max_edges_per_chunk`"))]
    pub num_edge_chunks: Option<u32>,
    /// Maximum number of edges in a chunk of the largest bucket, from which the number of chunks follows if
    /// `num_edge_chunks` is unset.
    #[serde(default = "defaults::max_edges_per_chunk")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub max_edges_per_chunk: u64,
    /// Order of buckets: the name of a standard order or of a component in `PBG_PLUGIN_PATH`, or the
    /// path of a component (`*.wasm`).
    #[serde(default = "defaults::bucket_order")]
    #[schemars(length(min = 1))]
    pub bucket_order: String,
    /// Strategy that chooses the relation type of the next batch, without dynamic relations: the name of a standard
    /// sampler or of a component in `PBG_PLUGIN_PATH`, or the path of a component (`*.wasm`).
    #[serde(default = "defaults::relation_sampler")]
    #[schemars(length(min = 1), extend("x-rule" = "must be the default with `dynamic_relations`"))]
    pub relation_sampler: String,
    /// Number of partitions in memory at once. More partitions in memory need fewer loads.
    #[serde(default = "defaults::count::<2>")]
    #[schemars(range(min = 2, max = 131_072))]
    pub buffer_partitions: u32,
    /// Number of Hogwild worker threads.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4096), extend("x-unset" = "one per core"))]
    pub workers: Option<u32>,
    /// Seed of all random numbers. With one worker, the same seed gives the same bytes.
    #[serde(default)]
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub seed: u64,

    /// Positive edges per batch.
    #[serde(default = "defaults::count::<1000>")]
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-rule" = "a multiple of `num_batch_negs` if that is not 0"))]
    pub batch_size: u32,
    /// Positives per chunk; the other positives of its chunk are negatives of each positive. 0: no batch negatives.
    #[serde(default = "defaults::count::<50>")]
    #[schemars(range(min = 0, max = 2_147_483_648_u32))]
    pub num_batch_negs: u32,
    /// Negatives per chunk and side, drawn from the partition by `negative_sampler` (see also `negatives_from`). 0: no
    /// such negatives.
    #[serde(default = "defaults::count::<50>")]
    #[schemars(range(min = 0, max = 2_147_483_648_u32), extend("x-rule" = "not 0 if `num_batch_negs` is 0, unless all relations have `all_negs`"))]
    pub num_uniform_negs: u32,
    /// Strategy that chooses the negatives of `num_uniform_negs`, by a distribution or chunk by chunk: the name of a standard
    /// negative sampler or selector or of a component in `PBG_PLUGIN_PATH`, or the path of a component (`*.wasm`).
    #[serde(default = "defaults::negative_sampler")]
    #[schemars(length(min = 1), extend("x-rule" = "must be the default if `num_uniform_negs` is 0 or `negatives_from` is `bucket`"))]
    pub negative_sampler: String,
    /// Set of entities from which uniform negatives are drawn.
    #[serde(default)]
    pub negatives_from: NegativesFrom,
    /// Number of positives that share negatives. Larger chunks are faster.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-unset" = "`num_batch_negs`, or `num_uniform_negs` if that is 0", "x-rule" = "equal to `num_batch_negs` if that is not 0"))]
    pub chunk_size: Option<u32>,
    /// Whether to omit the negatives that replace the left side.
    #[serde(default)]
    pub disable_lhs_negs: bool,
    /// Whether to omit the negatives that replace the right side.
    #[serde(default)]
    #[schemars(extend("x-rule" = "not together with `disable_lhs_negs`"))]
    pub disable_rhs_negs: bool,
    /// Optimizer of embeddings. Operators and global embeddings always use Adagrad. Adam needs smaller learning rates:
    /// each of its steps changes every coordinate by about `lr`.
    #[serde(default)]
    #[schemars(extend("x-rule" = "only `row_adagrad` on a GPU"))]
    pub optimizer: Optimizer,
    /// Learning rate of embeddings.
    #[serde(default = "defaults::lr")]
    #[schemars(range(min = 0))]
    pub lr: f32,
    /// Learning rate of operators and global embeddings.
    #[serde(default)]
    #[schemars(range(min = 0), extend("x-unset" = "`lr`", "x-rule" = "needed if `optimizer` is `adam`"))]
    pub relation_lr: Option<f32>,
    /// Learning rates over the run.
    #[serde(default)]
    pub lr_schedule: LrScheduleConfig,

    /// Fraction of each bucket's edges that is held out for evaluation while training. The held-out edges are the same
    /// in every epoch and are never trained.
    #[serde(default = "defaults::eval_fraction")]
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 1))]
    pub eval_fraction: f64,
    /// `num_batch_negs` of the evaluation while training.
    #[serde(default = "defaults::count::<1000>")]
    #[schemars(range(min = 0, max = 2_147_483_648_u32))]
    pub eval_num_batch_negs: u32,
    /// `num_uniform_negs` of the evaluation while training.
    #[serde(default = "defaults::count::<1000>")]
    #[schemars(range(min = 0, max = 2_147_483_648_u32))]
    pub eval_num_uniform_negs: u32,
    /// Ranking of an edge set between epochs, for early stopping and learning rate decay.
    #[serde(default)]
    pub validation: ValidationConfig,

    /// Seconds after the last checkpoint from which the end of a bucket commits the next one. The end of an epoch
    /// always commits one. 0: after every bucket.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000), extend("x-unset" = "after every bucket, as long as commits take less than 2 % of the time"))]
    pub checkpoint_interval: Option<f64>,
    /// Number of epochs after which another copy of the checkpoint is kept.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000), extend("x-unset" = "no copies"))]
    pub checkpoint_preservation_interval: Option<u32>,

    /// Number of trainers that must have joined before the first bucket is trained.
    #[serde(default = "defaults::count::<1>")]
    #[schemars(range(min = 1, max = 256), extend("x-rule" = "more than 1 needs `distributed_init_method` or a `checkpoint_path` in an object store"))]
    pub num_machines: u32,
    /// Partition servers, which keep partitions in memory between checkpoints: -1 for one in every trainer, 0 for none
    /// (partitions are in `checkpoint_path`), or the number of `pbg-host partition-server` processes to wait for.
    #[serde(default)]
    #[schemars(range(min = -1, max = 256), extend("x-rule" = "other than 0 needs `distributed_init_method` or a `checkpoint_path` in an object store"))]
    pub num_partition_servers: i32,
    /// Address by which the trainers of a run find each other: `file:///PATH`, `tcp://HOST:PORT`, `env://`, or NATS
    /// servers as `nats://HOST:PORT` or `tls://HOST:PORT`, separated by commas.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "a single trainer, or trainers that meet in the object store"))]
    pub distributed_init_method: Option<String>,
    /// Whether every bucket of the first pass, except the first, must have a partition that was trained before. This
    /// places all embeddings in one space.
    #[serde(default = "defaults::tree_init")]
    pub distributed_tree_init_order: bool,
    /// Communication between the trainers of a run.
    #[serde(default)]
    pub distributed: DistributedConfig,

    /// Formulas of operators and of the comparator, if they are plugins, by their names, and formulas of your own. A run
    /// writes them into its checkpoint, where they define the meaning of its embeddings and parameters. A plugin whose
    /// formula is given here is not asked for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub formulas: BTreeMap<String, String>,
    /// How training runs on the machine. Except for `update`, the keys change results by rounding only.
    #[serde(default)]
    pub execution: ExecutionConfig,
    /// Parameters, limits and permissions of plugins.
    #[serde(default)]
    pub plugins: PluginsConfig,
}

impl Config {
    /// Returns the dimension of the embeddings of entity type `name`.
    #[must_use]
    pub fn entity_dimension(&self, name: &str) -> u32 {
        self.entities
            .get(name)
            .and_then(|e| e.dimension)
            .unwrap_or(self.dimension)
    }

    /// Returns whether entity types have a global embedding.
    #[must_use]
    pub fn has_global_emb(&self) -> bool {
        self.global_emb.unwrap_or(!self.dynamic_relations)
    }

    /// Returns the entity types and relation types of the dataset's edges.
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

    /// Returns the edge sets whose edges do not count as negatives when validation edges are ranked.
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

    /// Returns the learning rate of operators and global embeddings.
    #[must_use]
    pub fn parameter_lr(&self) -> f32 {
        self.relation_lr.unwrap_or(self.lr)
    }
}
