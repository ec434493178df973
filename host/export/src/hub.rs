//! Export of a model as a folder for a model hub: a checkpoint with its names, without edges and paths of this machine,
//! and a card that describes it.
//!
//! The folder is a checkpoint like others, so every command and the Python package read it.

use std::fs;
use std::path::{Path, PathBuf};

use pbg_checkpoint::ReadCheckpoint;
use pbg_checkpoint::manifest::RunInfo;
use pbg_dataset::Dataset;
use pbg_files::owner::{self, OwnerKind};
use pbg_files::{self as files, remote};

use crate::ExportError;

/// Name of the card.
const CARD: &str = "README.md";
/// First lines of a card, by which an earlier export is recognised.
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
    let names = out.join(NAMES);
    let staged = files::staged_name(&names);
    files::remove_folder(&staged)?;
    files::create_folder(&staged)?;
    dataset.write_names(&staged)?;
    // Without names, an interrupted export is not mistaken for a model.
    files::remove_folder(&names)?;
    files::rename(&staged, &names)?;
    checkpoint.publish_as(out, contents.run)?;
    files::replace(&out.join(CARD), contents.card.as_bytes())?;
    files::sync_folder_of(&out.join(CARD))?;
    let mut written = vec![out.join(CARD), out.join(pbg_checkpoint::MANIFEST)];
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
    let owner = owner::owner_of(out);
    let own = owner::resolve_path(out);
    let is_itself = |found: &owner::Owner| {
        found.kind == OwnerKind::Checkpoint && own.as_deref() == Some(&*found.path)
    };
    match owner {
        None => Ok(()),
        Some(owner) if is_itself(&owner) && is_export(out) => match overwrite {
            true => Ok(()),
            false => Err(ExportError::Exists(out.to_owned())),
        },
        Some(owner) => Err(ExportError::Inside {
            path: out.to_owned(),
            owner,
        }),
    }
}

/// Whether a folder is an earlier export of this kind.
fn is_export(folder: &Path) -> bool {
    let card = fs::read_to_string(folder.join(CARD));
    card.is_ok_and(|card| card.starts_with(CARD_BEGINNING)) && Dataset::exists(&folder.join(NAMES))
}
