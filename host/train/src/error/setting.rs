//! What of a configuration there is not, or not in its dataset.

use std::path::PathBuf;

use pbg_config::OperatorError;

/// A setting that cannot be trained or evaluated with. The path is the dataset's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// An entity type that the dataset does not have.
    #[error("entities.{entity_type}: the dataset {} has no such entity type; import it again with this configuration", dataset.display())]
    EntityType {
        /// Its name.
        entity_type: String,
        /// The dataset.
        dataset: PathBuf,
    },
    /// A key with another value than at the import.
    #[error("{key} is {configured}, but the dataset {} was imported with {imported}; {remedy}", dataset.display())]
    Imported {
        /// The key.
        key: String,
        /// Its value.
        configured: String,
        /// Its value then.
        imported: String,
        /// The dataset.
        dataset: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// A relation of the dataset without an entry.
    #[error("relations: none is called `{relation}`, which the dataset {} has; add it, or an entry called `*`", dataset.display())]
    Relation {
        /// Its name.
        relation: String,
        /// The dataset.
        dataset: PathBuf,
    },
    /// A relation between other entity types than at the import.
    #[error(
        "relations: `{relation}` joins {} and {}, but was imported with {} and {}; import again",
        configured[0], configured[1], imported[0], imported[1]
    )]
    Ends {
        /// Its name.
        relation: String,
        /// Entity types of the left and the right side.
        configured: [String; 2],
        /// The same then.
        imported: [String; 2],
    },
    /// A relation with an entity type that is not configured.
    #[error("relations: `{relation}` has no entity type `{entity_type}`")]
    End {
        /// Its name.
        relation: String,
        /// The type's.
        entity_type: String,
    },
    /// A relation whose operator is nothing that can be computed.
    #[error("relations: `{relation}`: {source}")]
    Operator {
        /// The relation.
        relation: String,
        /// Why not.
        source: OperatorError,
    },
    /// An edge chunk with more edges than can be counted.
    #[error(
        "num_edge_chunks is {edge_chunks}, which leaves more than {} of the {largest} edges of the largest bucket \
         in one chunk; raise it, or use more partitions",
        u32::MAX
    )]
    EdgeChunks {
        /// Edge chunks.
        edge_chunks: u32,
        /// Edges of the largest bucket.
        largest: u64,
    },
    /// A folder that cannot be that of a checkpoint.
    #[error(
        "the checkpoint cannot be in {path}, which {what}; choose a folder that it has for itself"
    )]
    CheckpointPath {
        /// The folder, as it is configured.
        path: String,
        /// Why not.
        what: String,
    },
    /// A sample of no candidates.
    #[error("candidates: must be `all` or at least 1")]
    NoCandidates,
    /// Embeddings that cannot be compared.
    #[error("the entity types have embeddings of different dimensions; choose one of them")]
    Dimensions,
    /// An edge set without an edge that can be ranked.
    #[error("the edge set `{edge_set}` has no edges to rank{}", if *untrained == 0 {
        ""
    } else {
        "; those that it has are of entities or relations that were not trained"
    })]
    NoEdges {
        /// Its name.
        edge_set: String,
        /// Edges of it that are left out, since their entities or relations were not trained.
        untrained: u64,
    },
    /// A model that the device or the precision cannot compute.
    #[error("{key}: {reason}")]
    Executor {
        /// The key that asks for it.
        key: &'static str,
        /// What cannot be computed.
        reason: String,
    },
    /// A configuration that TOML cannot hold.
    #[error("the configuration cannot be written: {0}")]
    Unwritable(String),
}
