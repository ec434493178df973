//! Checkpoints: folders that hold one complete version of a run at every moment, even after a crash.
//!
//! Every write creates a new file. A commit syncs all of them to disk and then replaces the manifest atomically. A file
//! that the manifest does not name is not part of the checkpoint: it is removed after the commit, or when the folder is
//! opened the next time.
//!
//! A commit may run while training continues ([`Checkpoint::begin`]). Anything written in the meantime belongs to the
//! following commit.
//!
//! In reading order: the folder of a single run ([`Checkpoint`]) or of several trainers ([`SharedCheckpoint`]), the
//! manifest ([`CheckpointManifest`]), the memory of other machines ([`PartitionServers`]), the files of partitions and parameters ([`PartitionFiles`], [`tensors`]), a
//! reader that stays on one version ([`ReadCheckpoint`]), and files of nearest-neighbour indexes ([`index`]).
//! `docs/formats.md` describes every file. This crate knows neither the training loop nor the configuration: it stores
//! what it is given.

mod checkpoint;
mod commit;
mod error;
mod event_log;
mod first_commit;
pub mod index;
mod lock;
pub mod manifest;
mod metrics;
mod names;
mod partition_files;
mod partition_servers;
mod preserve;
mod read;
mod recovery;
mod sent_object;
pub mod shared;
mod shared_folder;
pub mod tensors;
mod versions;

pub use checkpoint::Checkpoint;
pub use error::CheckpointError;
pub use event_log::{EventReader, MetricsWriter};
pub use manifest::CheckpointManifest;
pub use partition_files::{FolderWriter, PartitionFiles};
pub use partition_servers::{PartitionServers, ServerConnector};
pub use preserve::{PreservedBest, find_best};
pub use read::ReadCheckpoint;
pub use recovery::{exists, list_preserved, recovery_advice};
pub use shared::SharedCheckpoint;
pub use tensors::{
    CONVERSION_BYTES, CopyRows, EmbeddingLocation, EmbeddingRows, PartitionData, PartitionRows,
    Tensor, TensorRef, row_sum,
};
pub use versions::TargetCommit;

pub use pbg_files::sealed_json::MANIFEST;

#[cfg(test)]
mod tests;
