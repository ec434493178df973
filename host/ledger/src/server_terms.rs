//! Partition servers as the record and the terms of a run describe them.

use serde::{Deserialize, Serialize};

/// Most partition servers of a run.
pub const MAX_SERVERS: usize = 256;
/// Greatest length of a server's address in bytes.
pub const MAX_ADDRESS: usize = 128;

/// Where a run keeps partitions between checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTerms {
    /// Number of servers that must be there before the first bucket is trained; `None` if every trainer has one.
    pub count: Option<u32>,
    /// Number of servers that each partition is sent to.
    pub replicas: u32,
}

impl std::fmt::Display for ServerTerms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.count {
            Some(count) => write!(f, "{count}")?,
            None => f.write_str("-1")?,
        }
        write!(f, " with {} replicas", self.replicas)
    }
}

/// Partition server in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionServer {
    /// Address as `host:port`.
    pub address: String,
    /// Size of its memory for partitions, in bytes.
    pub memory: u64,
}
