//! Error of an export.

use std::path::PathBuf;

use pbg_checkpoint::CheckpointError;
use pbg_dataset::DatasetError;
use pbg_files::FileError;
use pbg_files::owner::Owner;

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
    #[error("{} already exists; choose another folder, or use the option to overwrite", .0.display())]
    Exists(PathBuf),
    /// The folder belongs to a dataset, checkpoint or index, which may remove the files in it.
    #[error("{} belongs to {owner}, which may replace or remove files in it; choose another folder", path.display())]
    Inside {
        /// The folder.
        path: PathBuf,
        /// The owner.
        owner: Owner,
    },
    /// A file would be replaced that does not belong to an earlier export for a model hub.
    #[error("{} does not belong to an earlier export for a model hub; choose another folder, or remove it", .0.display())]
    NoExport(PathBuf),
    /// A folder for a model hub cannot be written to an object store.
    #[error("{0} is in an object store; export to a folder on this machine, and upload that")]
    NotLocal(String),
    /// Another export writes to the folder.
    #[error("another export is writing to {}; wait for it, or choose another folder", .0.display())]
    Busy(PathBuf),
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
        "the name `{0}` contains a tab or line end, which TSV cannot represent; export as Parquet"
    )]
    Name(String),
}
