//! Names that somebody asked for and that there are not.

use std::path::PathBuf;

/// A name in a question that has no embedding or parameters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownName {
    /// A relation that the dataset does not have.
    #[error("the dataset {} has no relation `{relation}`; it has {known}", dataset.display())]
    Relation {
        /// The name.
        relation: String,
        /// The dataset.
        dataset: PathBuf,
        /// Some that it has.
        known: String,
    },
    /// A relation that the checkpoint has not met.
    #[error("the relation `{relation}` has no parameters in {} yet: it came to the dataset later", checkpoint.display())]
    RelationIsNew {
        /// The name.
        relation: String,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// An entity type that is not configured.
    #[error("there is no entity type `{entity_type}`; there is {known}")]
    EntityType {
        /// The name.
        entity_type: String,
        /// Some that there are.
        known: String,
    },
    /// An entity that the dataset does not have.
    #[error("there is no entity `{entity}`{similar}")]
    Entity {
        /// The name.
        entity: String,
        /// What is said of names like it.
        similar: String,
    },
    /// An entity of another type than the one that is asked for.
    #[error("there is no `{wanted}` called `{entity}`; it is of type {types}")]
    OtherType {
        /// The name.
        entity: String,
        /// The type that it should be of.
        wanted: String,
        /// Types that have it.
        types: String,
    },
    /// An entity that the checkpoint has not met.
    #[error(
        "`{entity}` has no embedding in {} yet: it came to the dataset later; `pbg-host train` draws one",
        checkpoint.display()
    )]
    EntityIsNew {
        /// The name.
        entity: String,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// An entity of several types.
    #[error("several entity types have a `{entity}`: {types}; choose one")]
    Ambiguous {
        /// The name.
        entity: String,
        /// Some of the types.
        types: String,
    },
}
