//! Indexes opened for reading.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{GraphFile, GraphInfo, IndexError, IndexManifest, read};
use pbg_files as files;

/// Maximum number of builds that may happen between reading a manifest and opening its graphs.
const ATTEMPTS: usize = 100;

/// One build of an index, held from the beginning of a command to its end. Later builds do not remove its graphs before
/// it is dropped.
#[derive(Debug)]
pub struct OpenIndexFiles {
    folder: PathBuf,
    manifest: IndexManifest,
    graphs: BTreeMap<String, Arc<File>>,
}

impl OpenIndexFiles {
    /// Opens the index in `folder`; `None` if there is none.
    ///
    /// # Errors
    /// When the index cannot be read or is damaged.
    pub fn find(folder: &Path) -> Result<Option<Self>, IndexError> {
        let Some(mut manifest) = read(folder)? else {
            return Ok(None);
        };
        for _ in 0..ATTEMPTS {
            match Self::of(folder, manifest.clone()) {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) => match read(folder)? {
                    Some(now) if now != manifest => manifest = now,
                    _ => return Err(error),
                },
            }
        }
        Err(IndexError::Busy(folder.to_owned()))
    }

    /// Opens the index that `manifest` describes. The manifest itself need not be on disk yet.
    ///
    /// # Errors
    /// When one of its graphs is missing or has another size.
    pub fn of(folder: &Path, manifest: IndexManifest) -> Result<Self, IndexError> {
        let mut graphs = BTreeMap::new();
        for info in manifest.types.values().flat_map(|of| &of.graphs) {
            let path = folder.join(&info.file);
            let file = files::open_locked(&path).map_err(|error| match error.is_not_found() {
                true => IndexError::damaged(&path, "it is missing"),
                false => error.into(),
            })?;
            let size = file.metadata().map(|found| found.len());
            let size = size.map_err(|e| files::FileError::new("open", &path, e))?;
            if size != info.size() {
                let what = format!("it has {size} bytes instead of {}", info.size());
                return Err(IndexError::damaged(&path, what));
            }
            graphs.insert(info.file.clone(), Arc::new(file));
        }
        Ok(Self {
            folder: folder.to_owned(),
            manifest,
            graphs,
        })
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the manifest.
    #[must_use]
    pub const fn manifest(&self) -> &IndexManifest {
        &self.manifest
    }

    /// Returns one of its graphs; `None` if the index has no such file.
    #[must_use]
    pub fn graph(&self, info: &GraphInfo) -> Option<GraphFile> {
        let file = self.graphs.get(&info.file)?;
        Some(GraphFile {
            path: self.folder.join(&info.file),
            file: Arc::clone(file),
            info: info.clone(),
        })
    }
}
