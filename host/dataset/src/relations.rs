//! `relations.arrow`: names and entity types of the relations.

use std::path::Path;

use super::arrow::{self, Batches};
use super::verified::open_verified;
use super::{DatasetError, DatasetManifest, schemas};

/// Relation of the dataset; its id is its position in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Name as in the imported files.
    pub name: String,
    /// Entity type of the left side.
    pub lhs: String,
    /// Entity type of the right side.
    pub rhs: String,
}

pub(super) fn read(
    folder: &Path,
    manifest: &DatasetManifest,
) -> Result<Vec<Relation>, DatasetError> {
    let (path, file) = open_verified(folder, manifest, &manifest.relations.file)?;
    let mut relations = Vec::new();
    for batch in Batches::open(path.clone(), file, schemas::relations_schema())? {
        let batch = batch?;
        let column = |name: &str| {
            let missing = || DatasetError::damaged(&path, format!("it has no column `{name}`"));
            arrow::texts(&batch, name).ok_or_else(missing)
        };
        let (names, lhs, rhs) = (column("name")?, column("lhs")?, column("rhs")?);
        relations.extend((0..batch.num_rows()).map(|i| Relation {
            name: names.value(i).to_owned(),
            lhs: lhs.value(i).to_owned(),
            rhs: rhs.value(i).to_owned(),
        }));
    }
    let known = |name: &String| manifest.entities.contains_key(name);
    if relations.len() != manifest.relations.count as usize
        || !relations.iter().all(|r| known(&r.lhs) && known(&r.rhs))
    {
        let what = "it does not match the manifest";
        return Err(DatasetError::damaged(&path, what));
    }
    Ok(relations)
}
