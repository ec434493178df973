//! Open dataset.

use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::{EntityType, FORMAT};
use super::verified::check_size;
use super::{DatasetError, DatasetManifest, MANIFEST, Relation, relations, staging};
use pbg_files::owner::{self, OwnerKind};
use pbg_files::remote::{self, LocalCopy};
use pbg_files::sealed_json::{self, SealError};

/// Open dataset.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
    manifest: DatasetManifest,
    identity: String,
    relations: Vec<Relation>,
    relation_names: Vec<String>,
    /// The copy, if the dataset is in an object store; nobody changes it while it is held.
    _copy: Option<LocalCopy>,
}

impl Dataset {
    /// Opens the dataset in folder `path`. Verifies the manifest, the sizes of all files, and the relations; the other
    /// files are verified when they are read. If an import was killed while it replaced the dataset, the previous
    /// dataset is renamed back first. Of a folder in an object store, a local copy is opened.
    ///
    /// # Errors
    /// When the folder is not a dataset, or the dataset is damaged or truncated.
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        let Some(url) = remote::as_url(path) else {
            return Self::open_local(path);
        };
        // Otherwise everything that a wrong URL names would be copied.
        if !remote::has_object(url, MANIFEST)? {
            return Err(DatasetError::Missing(path.to_owned()));
        }
        let copy = remote::copy_folder(url, &|name| !name.contains('/'))?;
        let opened = Self::open_local(&copy.folder)?;
        Ok(Self {
            _copy: Some(copy),
            ..opened
        })
    }

    fn open_local(path: &Path) -> Result<Self, DatasetError> {
        match Self::open_there(path) {
            Err(DatasetError::Missing { .. }) if staging::restore(path)? => Self::open_there(path),
            opened => opened,
        }
    }

    fn open_there(path: &Path) -> Result<Self, DatasetError> {
        let manifest_path = path.join(MANIFEST);
        let unsealed = match sealed_json::read::<DatasetManifest>(&manifest_path, FORMAT) {
            Ok(unsealed) => unsealed,
            Err(SealError::File(e)) if e.is_not_found() => {
                return Err(DatasetError::Missing(path.to_owned()));
            }
            Err(SealError::File(e)) => return Err(e.into()),
            Err(SealError::Damaged { path, what }) => {
                return Err(DatasetError::Damaged { path, what });
            }
            Err(error @ SealError::Format { .. }) => return Err(DatasetError::Format(error)),
        };
        let manifest = unsealed.body;
        let checked = manifest.check();
        checked.map_err(|what| DatasetError::damaged(&manifest_path, what))?;
        for (name, summary) in &manifest.files {
            check_size(&path.join(name), summary)?;
        }
        Self::of(path, manifest, unsealed.crc32)
    }

    /// Opens a dataset in `folder` that is complete except for its manifest.
    pub fn open_unsealed(folder: &Path, manifest: &DatasetManifest) -> Result<Self, DatasetError> {
        Self::of(folder, manifest.clone(), String::new())
    }

    fn of(path: &Path, manifest: DatasetManifest, identity: String) -> Result<Self, DatasetError> {
        let relations = relations::read(path, &manifest)?;
        Ok(Self {
            path: path.to_owned(),
            manifest,
            identity,
            relation_names: relations.iter().map(|r| r.name.clone()).collect(),
            relations,
            _copy: None,
        })
    }

    /// Returns whether the folder looks like a dataset, intact or damaged. This includes a missing folder whose dataset
    /// was set aside by a killed import, since [`Dataset::open`] restores it.
    #[must_use]
    pub fn exists(path: &Path) -> bool {
        if let Some(url) = remote::as_url(path) {
            // A store that does not answer is reported when the dataset is opened.
            return remote::has_object(url, MANIFEST).unwrap_or(true);
        }
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

    /// Replaces an error that a new import explains by [`DatasetError::Replaced`]: a damaged or missing file may belong
    /// to a dataset imported since.
    pub(crate) fn detect_replacement<T>(
        &self,
        read: Result<T, DatasetError>,
    ) -> Result<T, DatasetError> {
        read.map_err(|error| match error {
            DatasetError::Damaged { .. } | DatasetError::File(_)
                if is_replaced(&self.path, &self.identity) =>
            {
                DatasetError::Replaced(self.path.clone())
            }
            other => other,
        })
    }

    /// Returns the manifest entry of an entity type.
    pub(crate) fn entity_type(&self, name: &str) -> Result<&EntityType, DatasetError> {
        let unknown = || DatasetError::UnknownType {
            path: self.path.clone(),
            name: name.to_owned(),
            known: list(self.manifest.entities.keys()),
        };
        self.manifest.entities.get(name).ok_or_else(unknown)
    }
}

/// Returns whether folder `path` now contains a dataset with another identity.
pub(super) fn is_replaced(path: &Path, identity: &str) -> bool {
    let now = sealed_json::read::<DatasetManifest>(&path.join(MANIFEST), FORMAT);
    now.is_ok_and(|now| now.crc32 != identity)
}

/// Returns the names in backquotes, separated by commas.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// Returns whether the folder has a dictionary file. A damaged manifest may no longer say what it describes.
fn has_dictionary(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| name.starts_with("entities_") && name.ends_with(".arrow"))
}
