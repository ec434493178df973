//! Starts the server of a run on this machine, as rank 0, and says where it is.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::SystemTime;

use crate::error::ClusterError;
use crate::method::Address;
use crate::options::Options;
use crate::place::{Place, local_address, outgoing_address};
use crate::secret::Secret;
use crate::server::{self, Lock, Record, Running, Start};

/// A server to start for a run.
pub(crate) struct Hosting<'a> {
    pub(crate) options: &'a Options,
    pub(crate) place: &'a Place,
    /// Where it listens.
    pub(crate) listen: IpAddr,
    /// What trainers have to know.
    pub(crate) secret: Option<&'a Secret>,
}

impl Hosting<'_> {
    /// The program.
    ///
    /// # Errors
    /// When there is none that is new enough.
    pub(crate) fn program(&self) -> Result<PathBuf, ClusterError> {
        server::find(self.options.nats_server.as_deref(), &self.options.search)
    }

    /// Starts it at `host`, with this port or any that is free, and waits until it listens.
    ///
    /// # Errors
    /// When it ends or does not listen.
    pub(crate) fn start(
        &self,
        program: &std::path::Path,
        host: &Address,
        port: Option<u16>,
        lock: Lock,
    ) -> Result<Running, ClusterError> {
        let start = Start {
            program,
            store: &self.place.store,
            listen: self.listen,
            port,
            secret: self.secret,
            encrypted: (!host.is_loopback()).then_some(host.host.as_str()),
        };
        start.run(lock)
    }

    /// Leaves a record of where it is; with the secret where others find it there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn leave_record(
        &self,
        address: &Address,
        secret: Option<&Secret>,
        pid: u32,
    ) -> Result<(), ClusterError> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let record = Record {
            run: self.options.run.as_str().to_owned(),
            address: address.to_string(),
            secret: secret.map(|secret| secret.expose().to_owned()),
            pid,
            host: server::machine(),
            started: since.map_or(0, |since| since.as_secs()),
        };
        record.write(&self.place.record)
    }
}

/// Where a server of `file://` listens, and how others call that.
pub(crate) fn own_address(options: &Options) -> (IpAddr, String) {
    let outgoing = || outgoing_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let listen = options.listen.unwrap_or_else(outgoing);
    let host = match listen.is_unspecified() {
        true => outgoing(),
        false => listen,
    };
    (listen, host.to_string())
}

/// Where a server of `tcp://` listens.
pub(crate) fn listen_at(options: &Options, address: &Address) -> IpAddr {
    options.listen.unwrap_or_else(|| local_address(address))
}
