//! Copies of a dataset without its edges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pbg_files::{self as files, sealed_json};

use crate::manifest::{DatasetManifest, FORMAT};
use crate::{Dataset, DatasetError, MANIFEST};

impl Dataset {
    /// Writes a dataset with the entities and relations of this one and without edges into the empty folder `to`. Its
    /// files may be hard links.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_names(&self, to: &Path) -> Result<(), DatasetError> {
        let manifest = self.manifest();
        let edges: BTreeSet<&String> = manifest.edge_sets.values().map(|set| &set.file).collect();
        let kept = manifest.files.iter();
        let kept = kept.filter(|(name, _)| !edges.contains(name));
        let names = DatasetManifest {
            edge_sets: BTreeMap::new(),
            files: kept.map(|(name, file)| (name.clone(), *file)).collect(),
            ..manifest.clone()
        };
        for name in names.files.keys() {
            files::link_or_copy(&self.path().join(name), &to.join(name))?;
        }
        let path = to.join(MANIFEST);
        let sealed = sealed_json::seal(FORMAT, &names);
        let sealed = sealed.map_err(|e| DatasetError::damaged(&path, e.to_string()))?;
        files::sync_folder_of(&path)?;
        Ok(files::replace(&path, &sealed)?)
    }
}
