//! Readers of what arrives from other machines, for tests that feed them hostile input (`tests/fuzz`). It is not an interface
//! for programs.

use std::path::Path;
use std::sync::Arc;

use pbg_files::remote::RemoteFolder;
use pbg_ledger::transport::{LastHeartbeat, RegisterEntry};

use crate::error::ConnectError;
use crate::heartbeats::HeartbeatLog;
use crate::object_register::ObjectRegister;
use crate::polled_traffic::BeatReader;
use crate::server::ServerRecord;

/// Log of the heartbeats that a server has delivered.
#[derive(Default)]
pub struct DeliveredHeartbeats(HeartbeatLog);

impl DeliveredHeartbeats {
    /// Takes a message.
    pub fn take(&self, message: &[u8]) {
        self.0.take(message, pbg_clock::now());
    }

    /// Returns the last heartbeat of each trainer.
    #[must_use]
    pub fn all(&self) -> Vec<LastHeartbeat> {
        self.0.all(pbg_clock::now())
    }
}

/// Reader of the heartbeats in an object store.
pub struct PolledHeartbeats {
    reader: BeatReader,
    beats: Arc<HeartbeatLog>,
}

impl PolledHeartbeats {
    /// Creates a reader that has looked at nothing yet.
    #[must_use]
    pub fn new(folder: &Arc<dyn RemoteFolder>) -> Self {
        let beats = Arc::<HeartbeatLog>::default();
        let reader = BeatReader::new(Arc::clone(folder), Arc::clone(&beats));
        Self { reader, beats }
    }

    /// Looks at all heartbeats, and returns the last of each trainer.
    pub fn look(&mut self) -> Vec<LastHeartbeat> {
        self.reader.look();
        self.beats.all(pbg_clock::now())
    }

    /// Returns the number of objects that are remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.reader.remembered()
    }
}

/// Reads the ledger's object in a folder of an object store.
///
/// # Errors
/// Why it cannot be read.
pub fn object(folder: &Arc<dyn RemoteFolder>) -> Result<Option<RegisterEntry>, String> {
    let register = ObjectRegister::new(Arc::clone(folder));
    register.read().map_err(|no| no.0)
}

/// Reads the file by which trainers find rank 0's server. Returns the address.
///
/// # Errors
/// When it is not such a file.
pub fn server_file(path: &Path) -> Result<Option<String>, ConnectError> {
    Ok(ServerRecord::read(path)?.map(|record| record.address))
}
