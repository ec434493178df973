//! Datasets: folders with dictionaries, relations and edges, made by [`crate::import`].
//!
//! Edges are read by position, one record batch at a time, and every batch is checked against
//! its checksum before it is decoded: a damaged or truncated file is an error, never a crash.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{self, FileError, Summary};
use crate::owner::{self, Kind};
use crate::sealed::{self, SealError};

mod arrow;
mod dictionary;
mod edges;
mod features;
mod ids;
pub mod manifest;
mod relations;
mod staging;
pub(crate) mod write;

pub use dictionary::{Dictionary, EntityId};
pub use edges::{EdgeSet, ReadError};
pub use features::Features;
pub(crate) use ids::NameSum;
pub use ids::{Ids, NameList, Succession};
pub use manifest::Manifest;
pub use relations::Relation;
pub(crate) use staging::Staging;
pub use staging::StagingError;

/// Name of the manifest in its folder.
pub const MANIFEST: &str = "manifest.json";

/// What is wrong with a dataset.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The folder is none.
    #[error(
        "{} is no dataset: it has no {MANIFEST}; `pbg-host import` makes one", path.display()
    )]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was made by another version.
    #[error("{error}; import the edges again")]
    Format {
        /// What was found and what was expected.
        error: SealError,
    },
    /// A file is not as it was written.
    #[error("{} is damaged: {what}; import the edges again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Another import has put a new dataset in the place of the one that was opened.
    #[error("{}", replaced(path))]
    Replaced {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// An import was ended while it replaced the dataset, or is just replacing it.
    #[error(transparent)]
    Unfinished(StagingError),
    /// There is no such edge set.
    #[error("the dataset {} has no edge set `{name}`; it has {known}", path.display())]
    UnknownEdgeSet {
        /// The dataset.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// There is no such entity type.
    #[error("the dataset {} has no entity type `{name}`; it has {known}", path.display())]
    UnknownType {
        /// The dataset.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}

impl From<StagingError> for DatasetError {
    fn from(error: StagingError) -> Self {
        match error {
            StagingError::File(error) => Self::File(error),
            error => Self::Unfinished(error),
        }
    }
}

impl DatasetError {
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

/// An open dataset.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
    manifest: Manifest,
    identity: String,
    relations: Vec<Relation>,
    relation_names: Vec<String>,
}

impl Dataset {
    /// Opens the dataset in folder `path`: verifies the manifest, the sizes of all files, and the
    /// relations; the other files are verified as they are read. If an import was killed while it replaced the dataset,
    /// the last one is renamed back first.
    ///
    /// # Errors
    /// When the folder is no dataset, or one that was damaged or truncated.
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        match Self::open_there(path) {
            Err(DatasetError::Missing { .. }) if staging::restore(path)? => Self::open_there(path),
            opened => opened,
        }
    }

    fn open_there(path: &Path) -> Result<Self, DatasetError> {
        let manifest_path = path.join(MANIFEST);
        let unsealed = match sealed::read::<Manifest>(&manifest_path, manifest::FORMAT) {
            Ok(unsealed) => unsealed,
            Err(SealError::File(e)) if e.is_not_found() => {
                return Err(DatasetError::Missing {
                    path: path.to_owned(),
                });
            }
            Err(SealError::File(e)) => return Err(e.into()),
            Err(SealError::Damaged { path, what }) => {
                return Err(DatasetError::Damaged { path, what });
            }
            Err(error @ SealError::Format { .. }) => return Err(DatasetError::Format { error }),
        };
        let manifest = unsealed.body;
        manifest
            .check()
            .map_err(|what| DatasetError::damaged(&manifest_path, what))?;
        for (name, summary) in &manifest.files {
            check_size(&path.join(name), summary)?;
        }
        let relations = relations::read(path, &manifest)?;
        let relation_names = relations.iter().map(|r| r.name.clone()).collect();
        Ok(Self {
            path: path.to_owned(),
            manifest,
            identity: unsealed.crc32,
            relations,
            relation_names,
        })
    }

    /// A dataset in `folder` that has all its files but the manifest.
    pub(crate) fn being_made(folder: &Path, manifest: &Manifest) -> Result<Self, DatasetError> {
        let relations = relations::read(folder, manifest)?;
        Ok(Self {
            path: folder.to_owned(),
            manifest: manifest.clone(),
            identity: String::new(),
            relation_names: relations.iter().map(|r| r.name.clone()).collect(),
            relations,
        })
    }

    /// Whether the folder looks like a dataset, whole or not. That of a dataset which an import that was killed left
    /// aside does, since [`Dataset::open`] puts it back.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        match owner::kind(path) {
            Some(kind) => kind == Kind::Dataset,
            None if path.join(MANIFEST).is_file() => has_dictionary(path),
            None => staging::is_left_aside(path),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the folder holds.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// A short text that differs between datasets: the checksum of the manifest, which holds
    /// those of all files.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Relations, in the order of their ids.
    #[must_use]
    pub fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// Names of the relations, in the order of their ids.
    #[must_use]
    pub fn relation_names(&self) -> &[String] {
        &self.relation_names
    }

    /// Opens an edge set.
    ///
    /// # Errors
    /// When there is none of this name or its file is damaged.
    pub fn edge_set(&self, name: &str) -> Result<EdgeSet, DatasetError> {
        self.explained(EdgeSet::open(self, name))
    }

    /// The names of all entities of a type; reads the whole dictionary.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn dictionary(&self, entity_type: &str) -> Result<Dictionary, DatasetError> {
        self.explained(Dictionary::read(self, entity_type))
    }

    /// Calls `visit` with the place and the name of every entity of a type, in global order, without
    /// keeping them.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn visit_entities(
        &self,
        entity_type: &str,
        visit: &mut dyn FnMut(EntityId, &str),
    ) -> Result<(), DatasetError> {
        self.explained(dictionary::read_names(self, entity_type, visit))
    }

    /// Names of all entities of a type in global order: by partition, then by offset.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn entity_names(&self, entity_type: &str) -> Result<Vec<String>, DatasetError> {
        Ok(self
            .dictionary(entity_type)?
            .names()
            .map(str::to_owned)
            .collect())
    }

    /// Where an entity lies; `None` when the type has none of this name.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn find(&self, entity_type: &str, name: &str) -> Result<Option<EntityId>, DatasetError> {
        let dictionary = self.dictionary(entity_type)?;
        Ok(dictionary
            .names()
            .position(|n| n == name)
            .map(|at| dictionary.id(at as u64)))
    }

    /// All types that have an entity of this name, and where it lies.
    ///
    /// # Errors
    /// When a dictionary is damaged.
    pub fn find_in_any(&self, name: &str) -> Result<Vec<(String, EntityId)>, DatasetError> {
        let mut found = Vec::new();
        for entity_type in self.manifest.entities.keys() {
            if let Some(id) = self.find(entity_type, name)? {
                found.push((entity_type.clone(), id));
            }
        }
        Ok(found)
    }

    /// Reads the features of all entities of a featurized type without keeping them.
    ///
    /// # Errors
    /// As [`Dataset::features`].
    pub fn verify_features(&self, entity_type: &str) -> Result<(), DatasetError> {
        features::verify(self, entity_type)
    }

    /// The features of all entities of a featurized type.
    ///
    /// # Errors
    /// When there is no such type, it has no features, or its file is damaged.
    pub fn features(&self, entity_type: &str) -> Result<Features, DatasetError> {
        self.explained(Features::read(self, entity_type))
    }

    /// What was read, or why not: a file that does not fit or is gone may be one of a dataset that was imported since.
    fn explained<T>(&self, read: Result<T, DatasetError>) -> Result<T, DatasetError> {
        read.map_err(|error| match error {
            DatasetError::Damaged { .. } | DatasetError::File(_)
                if is_replaced(&self.path, &self.identity) =>
            {
                DatasetError::Replaced {
                    path: self.path.clone(),
                }
            }
            other => other,
        })
    }

    pub(crate) fn unknown_type(&self, name: &str) -> DatasetError {
        DatasetError::UnknownType {
            path: self.path.clone(),
            name: name.to_owned(),
            known: list(self.manifest.entities.keys()),
        }
    }
}

/// Whether folder `path` holds another dataset than the one of this identity.
fn is_replaced(path: &Path, identity: &str) -> bool {
    let now = sealed::read::<Manifest>(&path.join(MANIFEST), manifest::FORMAT);
    now.is_ok_and(|now| now.crc32 != identity)
}

/// What is said of a dataset that is not the one that was opened any more.
fn replaced(path: &Path) -> String {
    format!(
        "the dataset {} was imported anew after it was opened, and its files are others now: open it again, and the model \
         that asked for it, too",
        path.display()
    )
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Whether there is a file of entities: a manifest may be damaged so far that it does not say what it is of.
fn has_dictionary(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_str().is_some_and(is_dictionary))
}

fn is_dictionary(name: &str) -> bool {
    name.starts_with("entities_") && name.ends_with(".arrow")
}

fn check_size(path: &Path, summary: &Summary) -> Result<(), DatasetError> {
    let size = match files::size(path) {
        Ok(size) => size,
        Err(e) if e.is_not_found() => return Err(DatasetError::damaged(path, "it is missing")),
        Err(e) => return Err(e.into()),
    };
    if size == summary.size {
        return Ok(());
    }
    let what = format!("it has {size} bytes instead of {}", summary.size);
    Err(DatasetError::damaged(path, what))
}

/// Opens a file of the dataset and compares all of it with its checksum.
fn open_verified(
    folder: &Path,
    manifest: &Manifest,
    name: &str,
) -> Result<(PathBuf, std::fs::File), DatasetError> {
    let path = folder.join(name);
    let file = files::open(&path)?;
    let expected = manifest.files.get(name).copied();
    if Some(files::summarize(&file, &path)?) == expected {
        Ok((path, file))
    } else {
        Err(DatasetError::damaged(
            &path,
            "its checksum does not match its content",
        ))
    }
}

#[cfg(test)]
mod tests;
