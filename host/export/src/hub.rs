//! Export of a model as a folder for a model hub: a checkpoint with its names, without edges and paths of this machine,
//! and a card that describes it.
//!
//! The folder is a checkpoint like others, so every command and the Python package read it.

use std::fs;
use std::path::{Path, PathBuf};

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{MANIFEST, ReadCheckpoint};
use pbg_dataset::{Dataset, DatasetError};
use pbg_files::owner::{self, Owner, OwnerKind};
use pbg_files::{self as files, remote};

use crate::{ExportError, leftovers};

/// Name of the card.
const CARD: &str = "README.md";
/// Line in the metadata of a card by which an earlier export is recognised.
const LIBRARY: &str = "library_name: pbg-host";
/// First lines of a card.
pub const CARD_BEGINNING: &str = "---\nlibrary_name: pbg-host\n";
/// Folder of the names within the export.
pub const NAMES: &str = "dataset";

/// What is exported besides the embeddings and parameters.
#[derive(Clone, Debug)]
pub struct HubContents {
    /// Description of the run, without paths of this machine.
    pub run: RunInfo,
    /// Text of the card, which begins with [`CARD_BEGINNING`].
    pub card: String,
    /// Files that belong to the checkpoint and are not in its manifest: name and content; `None` removes that of an earlier
    /// export.
    pub beside: Vec<(&'static str, Option<Vec<u8>>)>,
    /// Whether an earlier export is replaced.
    pub overwrite: bool,
}

/// Writes a folder for a model hub to `out`. Returns the files that it consists of.
///
/// # Errors
/// When a file of the model is damaged, `out` contains something else, or a file cannot be written.
pub fn write(
    dataset: &Dataset,
    checkpoint: &ReadCheckpoint,
    contents: HubContents,
    out: &Path,
) -> Result<Vec<PathBuf>, ExportError> {
    if let Some(url) = remote::as_url(out) {
        return Err(ExportError::NotLocal(url.to_owned()));
    }
    admit(out, contents.overwrite)?;
    checkpoint.verify()?;
    files::create_folder(out)?;
    let _lock = leftovers::lock(out)?;
    // Without a manifest, an interrupted export is not mistaken for a model; by its card, it is recognised and replaced.
    files::replace(&out.join(CARD), contents.card.as_bytes())?;
    files::remove(&out.join(MANIFEST))?;
    let names = out.join(NAMES);
    files::remove_folder(&names)?;
    files::create_folder(&names)?;
    dataset.write_names(&names)?;
    checkpoint.publish_as(out, contents.run)?;
    let mut written = vec![out.join(CARD), out.join(MANIFEST)];
    for (name, content) in contents.beside {
        let path = out.join(name);
        match content {
            Some(content) => {
                files::replace(&path, &content)?;
                written.push(path);
            }
            None => files::remove(&path)?,
        }
    }
    let of_model = checkpoint.manifest().files.keys();
    written.extend(of_model.map(|name| out.join(name)));
    let of_names = Dataset::open(&names)?;
    let of_names = of_names.manifest().files.keys();
    written.extend(of_names.map(|name| names.join(name)));
    written.push(names.join(pbg_dataset::MANIFEST));
    Ok(written)
}

/// Checks that nothing but an earlier export of this kind is replaced.
fn admit(out: &Path, overwrite: bool) -> Result<(), ExportError> {
    let own = owner::resolve_path(out);
    let is_itself =
        |found: &Owner| found.kind == OwnerKind::Checkpoint && own.as_deref() == Some(&*found.path);
    let is_earlier = is_export(out);
    match owner::owner_of(out) {
        Some(owner) if !(is_earlier && is_itself(&owner)) => {
            let path = out.to_owned();
            return Err(ExportError::Inside { path, owner });
        }
        _ => {}
    }
    let paths = [CARD, MANIFEST, NAMES].map(|name| out.join(name));
    let existing = paths
        .into_iter()
        .find(|path| fs::symlink_metadata(path).is_ok());
    match existing {
        Some(path) if !is_earlier => Err(ExportError::NoExport(path)),
        Some(path) if !overwrite => Err(ExportError::Exists(path)),
        _ => Ok(()),
    }
}

/// Whether a folder is an earlier export of this kind, complete or not: its card says so, and its names, if there are
/// any, belong to no dataset with edges.
fn is_export(folder: &Path) -> bool {
    let card = fs::read_to_string(folder.join(CARD)).unwrap_or_default();
    let mut metadata = card
        .lines()
        .skip(1)
        .take_while(|line| line.trim_end() != "---");
    let is_card = card.starts_with("---") && metadata.any(|line| line.trim_end() == LIBRARY);
    let names = folder.join(NAMES);
    let has_edges = || match Dataset::open(&names) {
        Ok(dataset) => !dataset.manifest().edge_sets.is_empty(),
        Err(DatasetError::Missing(_)) => false,
        Err(_) => true,
    };
    is_card && !has_edges()
}
