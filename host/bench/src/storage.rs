//! Speed of writing and reading a partition, compared with plain files and with a copy in memory.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{Checkpoint, CheckpointError, PartitionData, ReadCheckpoint};
use pbg_core::model::Optimizer;
use pbg_files::{self as files, FileError};
use pbg_model::RunError;
use serde::Serialize;

use crate::clocks::process_cpu_seconds;

/// Dimension of the embeddings of the measured partition.
const DIMENSION: usize = 100;
/// Number of rounds, each of which measures every operation once. The fastest round of an operation is reported.
const ROUNDS: usize = 3;
/// Size in bytes of each write and read of plain files.
const BLOCK: usize = 1 << 20;

/// Measured speed of an operation on a number of bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct IoRate {
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// CPU seconds per gigabyte (10^9 bytes).
    pub cpu_seconds_per_gb: f64,
}

impl IoRate {
    fn keep_faster(&mut self, other: Self) {
        if other.bytes_per_second > self.bytes_per_second {
            *self = other;
        }
    }
}

/// Results of `bench storage`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StorageReport {
    /// Size of the partition in bytes.
    pub bytes: u64,
    /// Writing and committing the partition, until it is on the disk.
    pub write: IoRate,
    /// Writing the same number of plain bytes, until they are on the disk.
    pub plain_write: IoRate,
    /// Reading the partition and verifying its checksum, with a cold page cache.
    pub read: IoRate,
    /// Reading the same number of plain bytes, with a cold page cache.
    pub plain_read: IoRate,
    /// Copying the same number of bytes in memory.
    pub memory_copy: IoRate,
}

/// Measures a partition of about `bytes` bytes in `folder`, which must be empty.
///
/// # Errors
/// When the folder cannot be written or read.
pub fn storage(folder: &Path, bytes: u64) -> Result<StorageReport, RunError> {
    Ok(measure(folder, bytes)?)
}

fn measure(folder: &Path, bytes: u64) -> Result<StorageReport, CheckpointError> {
    let rows = (bytes as usize / (4 * DIMENSION + 4)).max(1);
    let data = PartitionData {
        rows,
        dim: DIMENSION,
        embeddings: (0..rows * DIMENSION).map(|i| i as f32 * 1e-6).collect(),
        optimizer: Optimizer::RowAdagrad,
        state: vec![1.0; rows],
    };
    let mut report = StorageReport {
        bytes: (4 * (data.embeddings.len() + rows)) as u64,
        ..StorageReport::default()
    };
    let plain = folder.join("plain");
    for round in 0..ROUNDS {
        let ours = folder.join(format!("checkpoint-{round}"));
        report
            .plain_write
            .keep_faster(timed(report.bytes, || write_plain(&plain, report.bytes))?);
        report
            .write
            .keep_faster(timed(report.bytes, || write(&ours, &data))?);
        for path in paths(&ours)?.iter().chain([&plain]) {
            files::drop_page_cache(path)?;
        }
        report
            .plain_read
            .keep_faster(timed(report.bytes, || read_plain(&plain))?);
        report
            .read
            .keep_faster(timed(report.bytes, || read(&ours, rows))?);
        let mut copy = vec![0.0; data.embeddings.len()];
        report.memory_copy.keep_faster(timed(report.bytes, || {
            copy.copy_from_slice(std::hint::black_box(&data.embeddings));
            std::hint::black_box(&copy);
            Ok(())
        })?);
        fs::remove_dir_all(&ours).map_err(|e| FileError::new("remove", &ours, e))?;
    }
    Ok(report)
}

fn timed(
    bytes: u64,
    work: impl FnOnce() -> Result<(), CheckpointError>,
) -> Result<IoRate, CheckpointError> {
    let (started, cpu) = (pbg_clock::now(), process_cpu_seconds());
    work()?;
    let bytes = bytes as f64;
    Ok(IoRate {
        bytes_per_second: bytes / started.elapsed().as_secs_f64(),
        cpu_seconds_per_gb: 1e9 * (process_cpu_seconds() - cpu) / bytes,
    })
}

fn write(folder: &Path, data: &PartitionData) -> Result<(), CheckpointError> {
    let checkpoint = Checkpoint::open_or_create(folder)?;
    checkpoint.write_partition("entity", 0, data.dim, &data.embeddings, &data.state)?;
    checkpoint.commit(RunInfo {
        config: String::new(),
        config_hash: String::new(),
        dataset: String::new(),
        strategies: Vec::new(),
        state: serde_json::Value::Null,
        ..RunInfo::default()
    })?;
    Ok(())
}

fn read(folder: &Path, rows: usize) -> Result<(), CheckpointError> {
    let data = ReadCheckpoint::open(folder)?.read_partition("entity", 0)?;
    match data {
        Some(data) if data.rows == rows => Ok(()),
        _ => Err(CheckpointError::Missing(folder.to_owned())),
    }
}

fn write_plain(path: &Path, bytes: u64) -> Result<(), CheckpointError> {
    let block = vec![1; BLOCK];
    let write = || {
        let mut file = File::create(path)?;
        let mut left = bytes as usize;
        while left > 0 {
            let part = left.min(BLOCK);
            file.write_all(&block[..part])?;
            left -= part;
        }
        file.sync_all()
    };
    Ok(write().map_err(|e| FileError::new("write", path, e))?)
}

fn read_plain(path: &Path) -> Result<(), CheckpointError> {
    let mut block = vec![0; BLOCK];
    let mut read = || {
        let mut file = File::open(path)?;
        while file.read(&mut block)? > 0 {}
        Ok(())
    };
    Ok(read().map_err(|e| FileError::new("read", path, e))?)
}

fn paths(folder: &Path) -> Result<Vec<std::path::PathBuf>, CheckpointError> {
    let failed = |e| FileError::new("list", folder, e);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    Ok(paths.into_iter().filter(|path| path.is_file()).collect())
}
