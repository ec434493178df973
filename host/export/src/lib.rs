//! Export of embeddings and parameters to files that other tools read without this program.
//!
//! Embeddings are streamed partition by partition, in global order: by partition, then by offset. The formats are NumPy,
//! safetensors, Parquet and TSV ([`ExportFormat`]); [`predictions`] writes the answers to questions. An exported file
//! gets its name when it is complete, and a folder that belongs to a dataset or a checkpoint is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pbg_checkpoint::{CheckpointError, PartitionData, ReadCheckpoint, Tensor};
use pbg_dataset::manifest::EntityType;
use pbg_dataset::{Dataset, DatasetError, IdSpace};
use pbg_files::owner::{self, Owner};
use pbg_files::{self as files, ChecksummedFile, FileError};

mod leftovers;
mod npy;
mod parameters;
pub(crate) mod parquet;
pub mod predictions;
mod rows;
mod safetensors;
mod tsv;

use rows::RowStream;

/// Format of exported files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// NumPy arrays, with names in JSON files next to them.
    Npy,
    /// Safetensors, with names in JSON files next to them.
    Safetensors,
    /// Parquet with a name and a list of numbers per row.
    Parquet,
    /// Text lines with a name and numbers, separated by tabs.
    Tsv,
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "npy" => Ok(Self::Npy),
            "safetensors" => Ok(Self::Safetensors),
            "parquet" => Ok(Self::Parquet),
            "tsv" => Ok(Self::Tsv),
            _ => Err(format!(
                "unknown format `{name}`: use npy, safetensors, parquet or tsv"
            )),
        }
    }
}

/// Options of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Format of all files.
    pub format: ExportFormat,
    /// Whether files of an earlier export are replaced.
    pub overwrite: bool,
}

/// Error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A file exists and may not be overwritten.
    #[error("{} already exists; choose another folder, or use the option to overwrite", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// The folder belongs to a dataset, checkpoint or index, which may remove the files in it.
    #[error("{} belongs to {owner}, which may replace or remove files in it; choose another folder", path.display())]
    Inside {
        /// The folder.
        path: PathBuf,
        /// The owner.
        owner: Owner,
    },
    /// Another export writes to the folder.
    #[error("another export is writing to {}; wait for it, or choose another folder", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Checkpoint and dataset do not match.
    #[error("the checkpoint {} does not match the dataset: {what}", path.display())]
    Mismatch {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Description of the mismatch.
        what: String,
    },
    /// A name contains a character that the format cannot represent.
    #[error(
        "the name `{name}` contains a tab or line end, which TSV cannot represent; export as Parquet"
    )]
    Name {
        /// The name.
        name: String,
    },
}

/// Exports the embeddings of all entities (for featurized types, of all features) and the parameters of the model into
/// folder `out`. If the dataset has grown since the checkpoint was written, only the rows of `earlier` are exported. A
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

struct Export<'a> {
    dataset: &'a Dataset,
    checkpoint: &'a ReadCheckpoint,
    /// Ids of the checkpoint's rows, if the dataset has more rows.
    earlier: Option<&'a IdSpace>,
    out: &'a Path,
    options: &'a ExportOptions,
    /// Parameters of the model, including optimizer accumulators.
    model: Vec<Tensor>,
}

/// Consumer of a name.
type NameSink<'a> = dyn FnMut(&str) -> Result<(), ExportError> + 'a;
/// Producer that passes names to a consumer, one after the other.
type NameSource<'a> = dyn FnMut(&mut NameSink<'_>) -> Result<(), ExportError> + 'a;

/// Writer of a file of embeddings.
trait EmbeddingFile {
    /// Appends rows: their names (`[n]`) and their values (`[n, dim]`).
    fn put(&mut self, names: &[&str], values: &[f32]) -> Result<(), ExportError>;
    /// Completes the file.
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

impl Export<'_> {
    /// Writes the file `name` with `write`, which must create it only when it is complete.
    fn write(
        &self,
        name: &str,
        write: impl FnOnce(&Path) -> Result<(), ExportError>,
    ) -> Result<PathBuf, ExportError> {
        let path = self.out.join(name);
        if fs::symlink_metadata(&path).is_ok() && !self.options.overwrite {
            return Err(ExportError::Exists { path });
        }
        write(&path)?;
        Ok(path)
    }

    /// Returns the number of rows of a partition that the checkpoint has.
    fn rows(&self, entity_type: &str, info: &EntityType, partition: u32) -> usize {
        let earlier = self.earlier.and_then(|ids| ids.rows.get(entity_type));
        let all = info.table_rows(partition);
        earlier.map_or(all, |names| names.count(partition)) as usize
    }

    /// Calls `with` for the names of a type's rows that the checkpoint has, in global order, until it returns an error.
    fn visit_names(
        &self,
        entity_type: &str,
        info: &EntityType,
        with: &mut dyn FnMut(u32, &str) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut result = Ok(());
        let mut visit = |partition: u32, offset: u32, name: &str| {
            if result.is_ok() && (offset as usize) < self.rows(entity_type, info, partition) {
                result = with(partition, name);
            }
        };
        self.dataset.visit_rows(entity_type, &mut visit)?;
        result
    }

    fn entities(
        &self,
        entity_type: &str,
        info: &EntityType,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<PathBuf>, ExportError> {
        let stem = match info.featurized {
            true => format!("features_{entity_type}"),
            false => format!("entities_{entity_type}"),
        };
        let format = self.options.format;
        let file = match format {
            ExportFormat::Npy => format!("{stem}.npy"),
            ExportFormat::Safetensors => format!("{stem}.safetensors"),
            ExportFormat::Parquet => format!("{stem}.parquet"),
            ExportFormat::Tsv => format!("{stem}.tsv"),
        };
        let all = (0..info.num_partitions).map(|p| self.rows(entity_type, info, p));
        let all = all.sum();
        let written = self.write(&file, |path| {
            let first = self.partition(entity_type, info, 0, None)?;
            let shape = [all, first.dim];
            let file: Box<dyn EmbeddingFile> = match format {
                ExportFormat::Npy => Box::new(npy::NpyWriter::create(path, &shape)?),
                ExportFormat::Safetensors => {
                    Box::new(safetensors::SafetensorsWriter::create(path, &shape)?)
                }
                ExportFormat::Parquet => Box::new(parquet::ParquetWriter::create(path, first.dim)?),
                ExportFormat::Tsv => Box::new(tsv::TsvWriter::create(path, first.dim)?),
            };
            let mut rows = RowStream::new(self, (entity_type, info), first, file);
            self.visit_names(entity_type, info, &mut |partition, name| {
                rows.put(partition, name, progress)
            })?;
            rows.finish(progress)
        })?;
        let mut files = vec![written];
        if matches!(format, ExportFormat::Npy | ExportFormat::Safetensors) {
            let names = format!("{stem}.names.json");
            files.push(self.names(&names, &mut |put| {
                self.visit_names(entity_type, info, &mut |_, name| put(name))
            })?);
        }
        Ok(files)
    }

    /// Returns the global embedding of a type, if it has one.
    fn global(&self, entity_type: &str, dim: usize) -> Result<Option<&[f32]>, ExportError> {
        let name = format!("entities/{entity_type}/global_embedding");
        let Some(global) = self.model.iter().find(|tensor| tensor.name == name) else {
            return Ok(None);
        };
        let count = global.values.len();
        if count != dim {
            let what = format!("`{name}` has {count} numbers, but rows have {dim}");
            return Err(self.mismatch(what));
        }
        Ok(Some(&global.values))
    }

    /// Reads a partition and adds the global embedding. `reuse` is the previous partition, whose memory is reused and
    /// whose dimension must be the same.
    fn partition(
        &self,
        entity_type: &str,
        info: &EntityType,
        partition: u32,
        reuse: Option<PartitionData>,
    ) -> Result<PartitionData, ExportError> {
        let dim = reuse.as_ref().map(|data| data.dim);
        let mut data = reuse.unwrap_or_default();
        if !self
            .checkpoint
            .read_partition_into(entity_type, partition, &mut data)?
        {
            let what = format!("it does not have partition {partition} of `{entity_type}`");
            return Err(self.mismatch(what));
        }
        let rows = self.rows(entity_type, info, partition);
        if data.rows != rows || dim.is_some_and(|dim| dim != data.dim) || data.dim == 0 {
            let what = format!(
                "partition {partition} of `{entity_type}` has the shape [{}, {}] instead of [{rows}, {}]",
                data.rows,
                data.dim,
                dim.unwrap_or(data.dim)
            );
            return Err(self.mismatch(what));
        }
        if let Some(global) = self.global(entity_type, data.dim)? {
            for row in data.embeddings.chunks_exact_mut(data.dim) {
                let terms = row.iter_mut().zip(global);
                terms.for_each(|(value, term)| *value += term);
            }
        }
        Ok(data)
    }

    /// Writes the names that `visit` yields as a JSON list, which can represent any name.
    fn names(&self, file: &str, visit: &mut NameSource<'_>) -> Result<PathBuf, ExportError> {
        self.write(file, |path| {
            let mut file = ChecksummedFile::unfinished(path)?;
            let mut before = "[\n";
            visit(&mut |name| {
                file.put(before.as_bytes())?;
                before = ",\n";
                let text = serde_json::Value::from(name).to_string();
                Ok(file.put(text.as_bytes())?)
            })?;
            let is_empty = before == "[\n";
            file.put(if is_empty { b"[]\n" } else { b"\n]\n" })?;
            file.finish(true)?;
            Ok(())
        })
    }

    fn mismatch(&self, what: String) -> ExportError {
        ExportError::Mismatch {
            path: self.checkpoint.path().to_owned(),
            what,
        }
    }
}

#[cfg(test)]
mod tests;
