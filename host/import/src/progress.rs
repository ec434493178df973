//! Progress of an import.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::ImportError;

/// Progress of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportProgress {
    /// The content of a pipe is copied to a file.
    Spooling {
        /// Path of the pipe.
        path: PathBuf,
        /// Bytes copied so far.
        bytes: u64,
    },
    /// The format of files was detected. This event comes before any edges are read.
    ReadAs {
        /// Description: the files, their format, and the first edge of the first file.
        what: String,
    },
    /// Edges are read.
    Reading {
        /// Edge set.
        set: String,
        /// Bytes of all files read so far, as stored on disk (compressed).
        bytes: u64,
        /// Bytes of all files.
        total_bytes: u64,
        /// Edges read so far.
        edges: u64,
    },
    /// Names do not fit in memory: reading starts again, with names on disk.
    NamesToDisk {
        /// Reason.
        why: String,
    },
    /// Names on disk are numbered.
    Numbering {
        /// Bytes of names that are numbered.
        bytes: u64,
        /// Bytes of all names, counting each occurrence.
        total_bytes: u64,
    },
    /// Names in edges are replaced with their numbers.
    Joining {
        /// Edge set.
        set: String,
        /// Edges of the set processed so far.
        edges: u64,
        /// All edges of the set.
        total_edges: u64,
    },
    /// Entities are assigned to partitions.
    Assigning {
        /// Number of entities of all types.
        entities: u64,
    },
    /// Entities and relations that occur only in held-out edges are counted.
    Counting {
        /// Edges processed so far.
        edges: u64,
        /// All edges.
        total_edges: u64,
    },
    /// The edges of a set are sorted by bucket and written.
    Writing {
        /// Edge set.
        set: String,
        /// Edges of the set written so far.
        edges: u64,
        /// All edges of the set.
        total_edges: u64,
    },
}

pub(super) fn report_progress(
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
    event: ImportProgress,
) -> Result<(), ImportError> {
    if progress(event).is_break() {
        Err(ImportError::Cancelled)
    } else {
        Ok(())
    }
}
