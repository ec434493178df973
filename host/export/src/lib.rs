//! Export of embeddings and parameters to files that other tools read without this program.
//!
//! Embeddings are streamed partition by partition, in global order: by partition, then by offset. The formats are NumPy,
//! safetensors, Parquet and TSV ([`ExportFormat`]); [`predictions`] writes the answers to questions. An exported file
//! gets its name when it is complete, and a folder that belongs to a dataset or a checkpoint is refused.

use std::path::{Path, PathBuf};

use pbg_checkpoint::ReadCheckpoint;
use pbg_dataset::manifest::EntityType;
use pbg_dataset::{Dataset, IdSpace};
use pbg_files::{self as files, owner, remote};

mod embedding_file;
mod entities;
mod error;
mod export;
pub mod hub;
mod leftovers;
mod npy;
mod options;
mod parameters;
pub(crate) mod parquet;
pub mod predictions;
mod rows;
mod safetensors;
mod tsv;
mod upload;

pub use error::ExportError;
use export::Export;
pub use options::{ExportFormat, ExportOptions};

/// Exports the embeddings of all entities (for featurized types, of all features) and the parameters of the model into
/// folder `out`, which may be in an object store. If the dataset has grown since the checkpoint was written, only the rows of `earlier` are exported. A
/// type's global embedding is added to its rows, so that they are the input of operators and comparators. Returns the
/// files written. `progress` receives the rows written so far and their total number.
///
/// # Errors
/// When a file cannot be read or written, or dataset and checkpoint do not match.
pub fn run(
    dataset: &Dataset,
    checkpoint: &ReadCheckpoint,
    earlier: Option<&IdSpace>,
    out: &Path,
    options: &ExportOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<PathBuf>, ExportError> {
    if let Some(url) = remote::as_url(out) {
        let outgoing = remote::outgoing_folder(url)?;
        let run = |to: &Path, progress: &mut dyn FnMut(u64, u64)| {
            run(dataset, checkpoint, earlier, to, options, progress)
        };
        let sent =
            run(&outgoing, progress).and_then(|written| upload::send(url, &written, options));
        files::remove_folder(&outgoing)?;
        return sent;
    }
    if let Some(owner) = owner::owner_of(out) {
        let path = out.to_owned();
        return Err(ExportError::Inside { path, owner });
    }
    files::create_folder(out)?;
    let lock = leftovers::lock(out)?;
    // Without a lock, an incomplete file may belong to an export that is still running.
    if lock.is_some() {
        leftovers::sweep(out)?;
    }
    let export = Export {
        dataset,
        checkpoint,
        earlier,
        out,
        options,
        model: checkpoint.model()?,
    };
    let types = &dataset.manifest().entities;
    let rows = |(name, info): (&String, &EntityType)| -> u64 {
        let partitions = 0..info.num_partitions;
        partitions.map(|p| export.rows(name, info, p) as u64).sum()
    };
    let total = types.iter().map(rows).sum();
    let (mut written, mut done) = (Vec::new(), 0);
    for (name, info) in types {
        let of_type = rows((name, info));
        if of_type > 0 {
            written.extend(export.entities(name, info, &mut |rows| progress(done + rows, total))?);
        }
        done += of_type;
    }
    written.extend(export.parameters()?);
    files::sync(out)?;
    Ok(written)
}

#[cfg(test)]
mod tests;
