//! Errors of names in questions that do not exist.

use std::path::PathBuf;

/// Name in a question that has no embedding or parameters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownName {
    /// The dataset has no such relation.
    #[error("the dataset {} has no relation `{relation}`; it has {known}", dataset.display())]
    Relation {
        /// The name.
        relation: String,
        /// The dataset.
        dataset: PathBuf,
        /// Some of the dataset's relations.
        known: String,
    },
    /// The relation has no parameters in the checkpoint, because it was added to the dataset later.
    #[error("the relation `{relation}` has no parameters in {} yet: it was added to the dataset later", checkpoint.display())]
    RelationIsNew {
        /// The name.
        relation: String,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// The entity type is not configured.
    #[error("there is no entity type `{entity_type}`; known types are {known}")]
    EntityType {
        /// The name.
        entity_type: String,
        /// Some of the configured entity types.
        known: String,
    },
    /// The dataset has no such entity.
    #[error("there is no entity `{entity}`{similar}")]
    Entity {
        /// The name.
        entity: String,
        /// Remark about similar names.
        similar: String,
    },
    /// The entity exists, but is of another type than requested.
    #[error("`{entity}` is not of type `{wanted}`, but of type {types}")]
    OtherType {
        /// The name.
        entity: String,
        /// Requested entity type.
        wanted: String,
        /// Entity types that have an entity of this name.
        types: String,
    },
    /// The entity has no embedding in the checkpoint, because it was added to the dataset later.
    #[error(
        "`{entity}` has no embedding in {} yet: it was added to the dataset later; `pbg-host train` initialises it",
        checkpoint.display()
    )]
    EntityIsNew {
        /// The name.
        entity: String,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// Several entity types have an entity of this name.
    #[error("several entity types have an entity `{entity}`: {types}; choose one")]
    Ambiguous {
        /// The name.
        entity: String,
        /// Some of the entity types.
        types: String,
    },
}
