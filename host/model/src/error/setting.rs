//! Settings that refer to something that does not exist, or not in the dataset.

use std::path::PathBuf;

use pbg_config::{ComparatorError, OperatorError};

/// Setting that prevents training or evaluation. Paths are those of the dataset unless they are described otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The dataset lacks an entity type.
    #[error("entities.{entity_type}: the dataset {} has no such entity type; import it again with this configuration", dataset.display())]
    EntityType {
        /// Name of the entity type.
        entity_type: String,
        /// The dataset.
        dataset: PathBuf,
    },
    /// A key has another value than at the import.
    #[error("{key} is {configured}, but the dataset {} was imported with {imported}; {remedy}", dataset.display())]
    Imported {
        /// The key.
        key: String,
        /// Its current value.
        configured: String,
        /// Its value at the import.
        imported: String,
        /// The dataset.
        dataset: PathBuf,
        /// Advice.
        remedy: &'static str,
    },
    /// A relation of the dataset has no entry in the configuration.
    #[error("relations: no entry for `{relation}`, a relation of the dataset {}; add one, or an entry named `*`", dataset.display())]
    Relation {
        /// Name of the relation.
        relation: String,
        /// The dataset.
        dataset: PathBuf,
    },
    /// A relation joins other entity types than at the import.
    #[error(
        "relations: `{relation}` joins {} and {}, but was imported with {} and {}; import again",
        configured[0], configured[1], imported[0], imported[1]
    )]
    Ends {
        /// Name of the relation.
        relation: String,
        /// Configured entity types of the left and the right side.
        configured: [String; 2],
        /// Entity types of the left and the right side at the import.
        imported: [String; 2],
    },
    /// A relation uses an entity type that is not configured.
    #[error(
        "relations: `{relation}` uses the entity type `{entity_type}`, which is not configured"
    )]
    End {
        /// Name of the relation.
        relation: String,
        /// Name of the entity type.
        entity_type: String,
    },
    /// The operator of a relation cannot be computed.
    #[error("relations: `{relation}`: {source}")]
    Operator {
        /// The relation.
        relation: String,
        /// Reason.
        source: OperatorError,
    },
    /// The comparator cannot be computed.
    #[error(transparent)]
    Comparator(#[from] ComparatorError),
    /// An edge chunk has more edges than can be counted.
    #[error(
        "num_edge_chunks is {edge_chunks}, which leaves more than {} of the {largest} edges of the largest bucket \
         in one chunk; raise it, or use more partitions",
        u32::MAX
    )]
    EdgeChunks {
        /// Number of edge chunks.
        edge_chunks: u32,
        /// Number of edges in the largest bucket.
        largest: u64,
    },
    /// A folder cannot be the folder of a checkpoint.
    #[error("the checkpoint cannot be in {path}, which {what}; choose a separate folder for it")]
    CheckpointPath {
        /// Folder as configured.
        path: String,
        /// Reason.
        what: String,
    },
    /// The number of candidates is 0.
    #[error("candidates: must be `all` or at least 1")]
    NoCandidates,
    /// Embeddings of different dimensions cannot be compared.
    #[error("the entity types have embeddings of different dimensions; choose one of them")]
    Dimensions,
    /// An edge set has no edge that can be ranked.
    #[error("the edge set `{edge_set}` has no edges to rank{}", if *untrained == 0 {
        ""
    } else {
        "; its edges have entities or relations that were not trained"
    })]
    NoEdges {
        /// Name of the edge set.
        edge_set: String,
        /// Number of its edges that are left out because their entities or relations were not trained.
        untrained: u64,
    },
    /// The device or the precision does not support the model.
    #[error("{key}: {reason}")]
    Executor {
        /// Key that selects the device or the precision.
        key: &'static str,
        /// Reason.
        reason: String,
    },
    /// The negative sampler or selector chooses from one partition only.
    #[error(
        "negatives_from is `bucket`, but the {kind} {chosen} chooses from the partition of the replaced side; set \
         negatives_from = \"partition\", or remove `negative_sampler`"
    )]
    NegativesFrom {
        /// Kind of the plugin.
        kind: &'static str,
        /// The plugin.
        chosen: String,
    },
    /// The negative sampler or selector has no negatives to choose.
    #[error(
        "num_uniform_negs is 0, so the {kind} {chosen} has no negatives to choose; raise `num_uniform_negs`, or remove the \
         plugin"
    )]
    NoChosenNegatives {
        /// Kind of the plugin.
        kind: &'static str,
        /// The plugin.
        chosen: String,
    },
    /// The negative selector needs scores that the device does not compute.
    #[error(
        "execution.device: the negative selector {selector} needs scores of candidates, which are computed on the processor \
         cores only, not on {device}; train with execution.device = \"cpu\", or choose a negative sampler"
    )]
    CandidateScores {
        /// The selector.
        selector: String,
        /// The device.
        device: String,
    },
    /// The learning rate schedule would be asked for too many passes.
    #[error(
        "lr_schedule.decay: the schedule {schedule} would be asked for {passes} passes, more than {most}; set \
         `lr_schedule.decay_epochs`, after which learning rates stay as they are, or lower `num_edge_chunks` if it is above 1"
    )]
    SchedulePasses {
        /// The schedule.
        schedule: String,
        /// Number of passes.
        passes: u64,
        /// Largest possible number.
        most: u64,
    },
    /// The learning rate schedule takes too long.
    #[error(
        "lr_schedule.decay: the schedule {schedule} took more than {seconds} s for {asked} of {passes} passes, all of which \
         it is asked for before training begins; make it faster, or set `lr_schedule.decay_epochs`, after which learning \
         rates stay as they are"
    )]
    ScheduleSlow {
        /// The schedule.
        schedule: String,
        /// Passes that it was asked for.
        asked: u64,
        /// All passes.
        passes: u64,
        /// Longest time.
        seconds: u64,
    },
    /// The learning rate schedule is a plugin that has not been loaded.
    #[error(
        "lr_schedule.decay: the plugin {name} has not been loaded; internal error (a bug in pbg-host); please report it"
    )]
    ScheduleMissing {
        /// Name or path of the plugin.
        name: String,
    },
    /// The configuration cannot be written as TOML.
    #[error("the configuration cannot be written: {0}")]
    Unwritable(String),
}
