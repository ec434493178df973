//! Start of a run's server on this machine, as rank 0, and the record of its address.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use crate::error::ConnectError;
use crate::init_method::Address;
use crate::options::ConnectionOptions;
use crate::secret::Secret;
use crate::server::{self, RunningServer, ServerRecord, ServerStart, StoreLock};
use crate::server_files::{ServerFiles, local_address, outgoing_address};

/// Server to start for a run.
pub(crate) struct ServerHost<'a> {
    pub(crate) options: &'a ConnectionOptions,
    pub(crate) place: &'a ServerFiles,
    /// Address on which it listens.
    pub(crate) listen: IpAddr,
    /// Secret that trainers need to connect, if any.
    pub(crate) secret: Option<&'a Secret>,
}

impl ServerHost<'_> {
    /// Returns the program.
    ///
    /// # Errors
    /// Fails if there is none that is recent enough.
    pub(crate) fn program(&self) -> Result<PathBuf, ConnectError> {
        server::find(self.options.nats_server.as_deref(), &self.options.search)
    }

    /// Starts the server at `host`, on `port` or any free port, and waits until it listens.
    ///
    /// # Errors
    /// Fails if it ends or does not listen.
    pub(crate) fn start(
        &self,
        program: &std::path::Path,
        host: &Address,
        port: Option<u16>,
        lock: StoreLock,
    ) -> Result<RunningServer, ConnectError> {
        let start = ServerStart {
            program,
            store: &self.place.store,
            listen: self.listen,
            port,
            secret: self.secret,
            encrypted: (!host.is_loopback()).then_some(host.host.as_str()),
        };
        start.run(lock)
    }

    /// Writes the record of the server's address, with the secret if other trainers read it from there.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(crate) fn leave_record(
        &self,
        address: &Address,
        secret: Option<&Secret>,
        pid: u32,
    ) -> Result<(), ConnectError> {
        let record = ServerRecord {
            run: self.options.run.as_str().to_owned(),
            address: address.to_string(),
            secret: secret.map(|secret| secret.expose().to_owned()),
            pid,
            host: server::machine(),
            started: pbg_clock::unix_time().as_secs(),
        };
        record.write(&self.place.record)
    }
}

/// Returns the address on which a server of `file://` listens, and the host name under which others reach it.
pub(crate) fn own_address(options: &ConnectionOptions) -> (IpAddr, String) {
    let outgoing = || outgoing_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let listen = options.listen.unwrap_or_else(outgoing);
    let host = match listen.is_unspecified() {
        true => outgoing(),
        false => listen,
    };
    (listen, host.to_string())
}

/// Returns the address on which a server of `tcp://` listens.
pub(crate) fn listen_at(options: &ConnectionOptions, address: &Address) -> IpAddr {
    options.listen.unwrap_or_else(|| local_address(address))
}
