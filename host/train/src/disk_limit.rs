//! Speeds that the storage of partitions does not exceed.

use std::time::{Duration, Instant};

use pbg_config::ExecutionConfig;

/// Speeds in bytes per second that reads and writes of tables do not exceed; `None` for those of the disk.
///
/// Storage carries out one request after the other, so a request that takes too short a time is followed by a pause,
/// like on a disk of that speed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskLimit {
    read: Option<f64>,
    write: Option<f64>,
}

impl DiskLimit {
    /// Returns the speeds that a configuration sets.
    pub(crate) fn new(execution: &ExecutionConfig) -> Self {
        let bytes = |megabytes: Option<f64>| megabytes.map(|m| m * 1e6);
        Self {
            read: bytes(execution.read_mbps),
            write: bytes(execution.write_mbps),
        }
    }

    /// Waits until reading `bytes` has taken as long as it should. It began at `started`.
    pub(crate) fn after_read(self, bytes: u64, started: Instant) {
        wait(self.read, bytes, started);
    }

    /// The same for writing.
    pub(crate) fn after_write(self, bytes: u64, started: Instant) {
        wait(self.write, bytes, started);
    }
}

fn wait(speed: Option<f64>, bytes: u64, started: Instant) {
    let Some(speed) = speed else { return };
    let whole = Duration::try_from_secs_f64(bytes as f64 / speed).unwrap_or(Duration::MAX);
    let left = whole.saturating_sub(pbg_clock::elapsed(started));
    if !left.is_zero() {
        pbg_clock::sleep(left);
    }
}
