//! Datasets: folders with dictionaries of entities, relations and edges by bucket.
//!
//! An import creates a dataset as a whole ([`Staging`], [`write`]); a run opens it ([`Dataset`]), reads the edges of a
//! bucket ([`EdgeSet`]) and looks up names ([`Dictionary`]). [`describe`] computes statistics of a dataset.
//! `docs/formats.md` describes every file, field by field.
//!
//! Invariants: edges are read by position, one record batch at a time, and the checksum of every batch is verified
//! before it is decoded, so a damaged or truncated file is an error, never a crash. A dataset is replaced atomically;
//! its ids stay when it grows ([`IdSpace`]). This crate knows neither text formats nor the configuration of a run.

use std::fs;
use std::path::{Path, PathBuf};

use pbg_files::owner::{self, OwnerKind};
use pbg_files::sealed_json::{self, SealError};
use pbg_files::{self as files, FileError, FileSummary};

mod arrow;
pub mod describe;
mod dictionary;
mod edges;
mod features;
mod ids;
pub mod manifest;
mod relations;
mod staging;
pub mod write;

pub use dictionary::{Dictionary, EntityId};
pub use edges::{EdgeReadError, EdgeSet};
pub use features::EntityFeatures;
pub use ids::NameChecksum;
pub use ids::{IdChange, IdSpace, NameList};
pub use manifest::DatasetManifest;
pub use relations::Relation;
pub use staging::Staging;
pub use staging::StagingError;

pub use pbg_files::sealed_json::MANIFEST;

/// Error of a dataset operation.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The folder is not a dataset.
    #[error(
        "{} is not a dataset: it has no {MANIFEST}; `pbg-host import` creates one", path.display()
    )]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was written in another format or by another version.
    #[error("{error}; import the edges again")]
    Format {
        /// Error that names the format found and the format expected.
        error: SealError,
    },
    /// A file does not have the content that was written.
    #[error("{} is damaged: {what}; import the edges again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// Another import has replaced the dataset since it was opened.
    #[error("{}", replaced(path))]
    Replaced {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// An import was interrupted while it replaced the dataset, or is replacing it now.
    #[error(transparent)]
    Unfinished(StagingError),
    /// The dataset has no edge set of this name.
    #[error("the dataset {} has no edge set `{name}`; it has {known}", path.display())]
    UnknownEdgeSet {
        /// Folder of the dataset.
        path: PathBuf,
        /// Requested name.
        name: String,
        /// Names of the existing edge sets.
        known: String,
    },
    /// The dataset has no entity type of this name.
    #[error("the dataset {} has no entity type `{name}`; it has {known}", path.display())]
    UnknownType {
        /// Folder of the dataset.
        path: PathBuf,
        /// Requested name.
        name: String,
        /// Names of the existing entity types.
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

/// Open dataset.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
    manifest: DatasetManifest,
    identity: String,
    relations: Vec<Relation>,
    relation_names: Vec<String>,
}

impl Dataset {
    /// Opens the dataset in folder `path`. Verifies the manifest, the sizes of all files, and the relations; the other
    /// files are verified when they are read. If an import was killed while it replaced the dataset, the previous
    /// dataset is renamed back first.
    ///
    /// # Errors
    /// When the folder is not a dataset, or the dataset is damaged or truncated.
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        match Self::open_there(path) {
            Err(DatasetError::Missing { .. }) if staging::restore(path)? => Self::open_there(path),
            opened => opened,
        }
    }

    fn open_there(path: &Path) -> Result<Self, DatasetError> {
        let manifest_path = path.join(MANIFEST);
        let unsealed = match sealed_json::read::<DatasetManifest>(&manifest_path, manifest::FORMAT)
        {
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

    /// Opens a dataset in `folder` that is complete except for its manifest.
    pub fn open_unsealed(folder: &Path, manifest: &DatasetManifest) -> Result<Self, DatasetError> {
        let relations = relations::read(folder, manifest)?;
        Ok(Self {
            path: folder.to_owned(),
            manifest: manifest.clone(),
            identity: String::new(),
            relation_names: relations.iter().map(|r| r.name.clone()).collect(),
            relations,
        })
    }

    /// Returns whether the folder looks like a dataset, intact or damaged. This includes a missing folder whose dataset
    /// was set aside by a killed import, since [`Dataset::open`] restores it.
    #[must_use]
    pub fn exists(path: &Path) -> bool {
        match owner::manifest_kind(path) {
            Some(kind) => kind == OwnerKind::Dataset,
            None if path.join(MANIFEST).is_file() => has_dictionary(path),
            None => staging::is_left_aside(path),
        }
    }

    /// Returns the dataset's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the manifest.
    #[must_use]
    pub fn manifest(&self) -> &DatasetManifest {
        &self.manifest
    }

    /// Returns the identity of the dataset, a short text that differs between datasets: the checksum of the manifest,
    /// which contains the checksums of all files.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the relations, in the order of their ids.
    #[must_use]
    pub fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// Returns the names of the relations, in the order of their ids.
    #[must_use]
    pub fn relation_names(&self) -> &[String] {
        &self.relation_names
    }

    /// Opens an edge set.
    ///
    /// # Errors
    /// When there is no edge set of this name or its file is damaged.
    pub fn edge_set(&self, name: &str) -> Result<EdgeSet, DatasetError> {
        self.detect_replacement(EdgeSet::open(self, name))
    }

    /// Reads the dictionary of an entity type, with the names of all its entities.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn dictionary(&self, entity_type: &str) -> Result<Dictionary, DatasetError> {
        self.detect_replacement(Dictionary::read(self, entity_type))
    }

    /// Calls `visit` with the id and the name of every entity of a type, in global order, without storing them.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn visit_entities(
        &self,
        entity_type: &str,
        visit: &mut dyn FnMut(EntityId, &str),
    ) -> Result<(), DatasetError> {
        self.detect_replacement(dictionary::read_names(self, entity_type, visit))
    }

    /// Reads the names of all entities of a type in global order: by partition, then by offset.
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

    /// Returns the id of an entity; `None` if the type has no entity of this name.
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

    /// Returns the id of the entity of this name in each type that has one.
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

    /// Reads and verifies the features of all entities of a featurized type, without storing them.
    ///
    /// # Errors
    /// As [`Dataset::features`].
    pub fn verify_features(&self, entity_type: &str) -> Result<(), DatasetError> {
        features::verify(self, entity_type)
    }

    /// Reads the features of all entities of a featurized type.
    ///
    /// # Errors
    /// When there is no such type, it has no features, or its file is damaged.
    pub fn features(&self, entity_type: &str) -> Result<EntityFeatures, DatasetError> {
        self.detect_replacement(EntityFeatures::read(self, entity_type))
    }

    /// Replaces an error that a new import explains by [`DatasetError::Replaced`]: a damaged or missing file may belong
    /// to a dataset imported since.
    fn detect_replacement<T>(&self, read: Result<T, DatasetError>) -> Result<T, DatasetError> {
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

/// Returns whether folder `path` now contains a dataset with another identity.
fn is_replaced(path: &Path, identity: &str) -> bool {
    let now = sealed_json::read::<DatasetManifest>(&path.join(MANIFEST), manifest::FORMAT);
    now.is_ok_and(|now| now.crc32 != identity)
}

/// Returns the message for a dataset that another import has replaced since it was opened.
fn replaced(path: &Path) -> String {
    format!(
        "the dataset {} was imported again after it was opened, and its files have been replaced; run the command \
         again, or in Python open the model again",
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

/// Returns whether the folder has a dictionary file. A damaged manifest may no longer say what it describes.
fn has_dictionary(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_str().is_some_and(is_dictionary))
}

fn is_dictionary(name: &str) -> bool {
    name.starts_with("entities_") && name.ends_with(".arrow")
}

fn check_size(path: &Path, summary: &FileSummary) -> Result<(), DatasetError> {
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

/// Opens a file of the dataset and verifies its checksum.
fn open_verified(
    folder: &Path,
    manifest: &DatasetManifest,
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
