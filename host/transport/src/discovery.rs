//! Discovery of the server that rank 0 starts, for trainers without servers of their own.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use crate::client::{DialFailure, Dialer, NatsConnection, ServerAccess};
use crate::error::ConnectError;
use crate::hosting::{ServerHost, listen_at, own_address};
use crate::init_method::Address;
use crate::options::ConnectionOptions;
use crate::secret::Secret;
use crate::server::{self, RunningServer, ServerRecord, StoreLock};
use crate::server_files::ServerFiles;
use crate::waiting::Deadline;

/// Time for which another run's heartbeats are awaited before its server is considered abandoned. It is longer than the
/// interval of heartbeats.
const LISTEN_FOR: Duration = Duration::from_secs(5);

/// Placeholder for a port that is not known yet; no server answers there.
const UNKNOWN: u16 = 1;

/// Connection to a server that was found or started.
pub(crate) struct ServerConnection {
    /// Connection.
    pub(crate) line: NatsConnection,
    /// Address.
    pub(crate) address: Address,
    /// Process, if this process has started it.
    pub(crate) child: Option<Child>,
}

/// Discovery of the server.
pub(crate) struct ServerDiscovery<'a> {
    pub(crate) options: &'a ConnectionOptions,
    pub(crate) dialer: &'a Dialer,
    pub(crate) waiting: Deadline<'a>,
}

impl ServerDiscovery<'_> {
    /// Finds the server by a file, into which rank 0 writes its address.
    ///
    /// # Errors
    /// Fails if there is no server, and none can be started, within the timeout.
    pub(crate) fn at_file(&mut self, path: &Path) -> Result<ServerConnection, ConnectError> {
        let place = ServerFiles::of_file(path);
        let shown = path.display();
        loop {
            let record = match ServerRecord::read(path) {
                // Rank 0 replaces a file with invalid content, too.
                Err(error @ ConnectError::Content { .. }) if !self.options.starts() => {
                    self.waiting.pause(&error.to_string())?;
                    continue;
                }
                Err(ConnectError::Content { .. }) => None,
                record => record?,
            };
            let why = match &record {
                None => format!("waiting for rank 0 to write {shown}"),
                Some(record) if record.run != self.options.run.as_str() => {
                    format!(
                        "waiting for rank 0: {shown} belongs to another run, {}",
                        record.run
                    )
                }
                Some(record) => match self.reach(record) {
                    Ok(reached) => return Ok(reached),
                    Err(why) => format!("waiting for rank 0: the server that {shown} names {why}"),
                },
            };
            if !self.options.starts() {
                self.waiting.pause(&why)?;
            } else if let Some(lock) = StoreLock::take(&place.store, record.as_ref())? {
                return self.start_at_file(&place, record.as_ref(), lock);
            } else if let Some(reached) = self.adopt(&place, record.as_ref())? {
                return Ok(reached);
            } else {
                self.reclaim_folder(&place, record.as_ref())?;
            }
        }
    }

    /// Connects to the server of a record of this run. The error is the end of a sentence.
    fn reach(&self, record: &ServerRecord) -> Result<ServerConnection, String> {
        let address = Address::parse(&record.address, None)?;
        let secret = record.secret.as_deref();
        let secret = secret.and_then(|text| Secret::new(text).ok());
        let secret = secret.ok_or("is recorded without a secret")?;
        let access =
            ServerAccess::private(Some(&secret), &address).map_err(|error| error.to_string())?;
        match self.dialer.dial(std::slice::from_ref(&address), &access) {
            Ok(line) => Ok(ServerConnection {
                line,
                address,
                child: None,
            }),
            Err(failure) => Err(format!("at {address} cannot be used: {failure}")),
        }
    }

    /// Connects to this run's server if it runs on this machine, but not at the address in the record, because the
    /// trainer that started it died before it could write the record.
    fn adopt(
        &self,
        place: &ServerFiles,
        record: Option<&ServerRecord>,
    ) -> Result<Option<ServerConnection>, ConnectError> {
        let is_ours = |record: &&ServerRecord| record.run == self.options.run.as_str();
        let Some(record) = record.filter(is_ours) else {
            return Ok(None);
        };
        let address = Address::parse(&record.address, None).ok();
        let (Some(mut address), Some((pid, port))) = (address, server::listening(&place.store))
        else {
            return Ok(None);
        };
        address.port = port;
        let record = ServerRecord {
            address: address.to_string(),
            pid,
            host: server::machine(),
            ..record.clone()
        };
        let Ok(reached) = self.reach(&record) else {
            return Ok(None);
        };
        record.write(&place.record)?;
        Ok(Some(reached))
    }

    fn start_at_file(
        &mut self,
        place: &ServerFiles,
        old: Option<&ServerRecord>,
        lock: StoreLock,
    ) -> Result<ServerConnection, ConnectError> {
        let (listen, host) = own_address(self.options);
        // With the same address and secret as before, live trainers find the new server.
        let old = old.filter(|old| old.run == self.options.run.as_str());
        let old_secret = old.and_then(|old| Secret::new(old.secret.as_deref()?).ok());
        let is_new = old_secret.is_none();
        let secret = match old_secret {
            Some(secret) => secret,
            None => Secret::draw()?,
        };
        let old_address = old.and_then(|old| Address::parse(&old.address, None).ok());
        let old_port = old_address
            .filter(|old| old.host == host && old.port != UNKNOWN)
            .map(|old| old.port);
        let host = Address {
            host,
            port: UNKNOWN,
        };
        let hosting = ServerHost {
            options: self.options,
            place,
            listen,
            secret: Some(&secret),
        };
        let program = hosting.program()?;
        if is_new {
            // If this process dies before it knows the port, the next one finds the server's secret.
            hosting.leave_record(&host, Some(&secret), 0)?;
        }
        let start = |port, lock| hosting.start(&program, &host, port, lock);
        let running = match start(old_port, lock) {
            // Another process uses the port now.
            Err(ConnectError::Start { .. }) if old_port.is_some() => {
                let lock = StoreLock::take(&place.store, None)?;
                let lost =
                    || ConnectError::System("start two servers at once on one folder".into());
                start(None, lock.ok_or_else(lost)?)?
            }
            running => running?,
        };
        let address = Address {
            port: running.port,
            ..host
        };
        hosting.leave_record(&address, Some(&secret), running.child.id())?;
        self.dial_own(address, Some(&secret), running)
    }

    /// Finds the server at an address, at which rank 0 starts it.
    ///
    /// # Errors
    /// Fails if there is no server, and none can be started, within the timeout, or if the server rejects this trainer.
    pub(crate) fn at_address(
        &mut self,
        address: &Address,
    ) -> Result<ServerConnection, ConnectError> {
        let secret = self.options.secret.clone();
        let access = ServerAccess::private(secret.as_ref(), address)?;
        loop {
            let why = match self.dialer.dial(std::slice::from_ref(address), &access) {
                Ok(line) => {
                    return Ok(ServerConnection {
                        line,
                        address: address.clone(),
                        child: None,
                    });
                }
                Err(DialFailure::Refused(what)) => {
                    let who = format!("the server at {address}");
                    return Err(ConnectError::Refused { who, what });
                }
                Err(DialFailure::Silent(what)) => what,
            };
            let place = match (self.options.starts(), self.options.folder.as_deref()) {
                (true, Some(folder)) => ServerFiles::of_folder(folder),
                (true, None) => return Err(ConnectError::NoFolder),
                (false, _) => {
                    let what = format!("waiting for rank 0's server at {address}: {why}");
                    self.waiting.pause(&what)?;
                    continue;
                }
            };
            let record = ServerRecord::read(&place.record)?;
            let Some(lock) = StoreLock::take(&place.store, record.as_ref())? else {
                let at = record.map_or("an unknown address".to_owned(), |record| record.address);
                let store = place.store.display();
                self.waiting.pause(&format!(
                    "waiting for {address}: {why}; a nats-server at {at} uses {store}"
                ))?;
                continue;
            };
            let hosting = ServerHost {
                options: self.options,
                place: &place,
                listen: listen_at(self.options, address),
                secret: secret.as_ref(),
            };
            let program = hosting.program()?;
            let running = hosting.start(&program, address, Some(address.port), lock)?;
            hosting.leave_record(address, None, running.child.id())?;
            return self.dial_own(address.clone(), secret.as_ref(), running);
        }
    }

    /// Connects to a server that already listens.
    fn dial_own(
        &mut self,
        address: Address,
        secret: Option<&Secret>,
        mut running: RunningServer,
    ) -> Result<ServerConnection, ConnectError> {
        let access = ServerAccess::private(secret, &address)?;
        (self.waiting.notice)(&format!("started nats-server at {address}"));
        loop {
            match self.dialer.dial(std::slice::from_ref(&address), &access) {
                Ok(line) => {
                    return Ok(ServerConnection {
                        line,
                        address,
                        child: Some(running.child),
                    });
                }
                Err(failure) => {
                    let what =
                        format!("waiting for the nats-server started at {address}: {failure}");
                    if let Err(error) = self.waiting.pause(&what) {
                        // No other trainer knows of it yet.
                        let _ended = running.child.kill().and_then(|()| running.child.wait());
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Handles a live server on this folder that this run cannot use: waits for it, or stops it if another run has
    /// abandoned it.
    fn reclaim_folder(
        &mut self,
        place: &ServerFiles,
        record: Option<&ServerRecord>,
    ) -> Result<(), ConnectError> {
        let shown = place.record.display();
        let Some(record) = record else {
            let store = place.store.display();
            return self.waiting.pause(&format!(
                "a nats-server uses {store}, but {shown} does not contain its address"
            ));
        };
        if record.run == self.options.run.as_str() {
            return self.waiting.pause(&format!(
                "waiting for the nats-server in {shown}, process {} on {}: it is running but does not answer",
                record.pid, record.host
            ));
        }
        if let Ok(reached) = self.reach(record)
            && reached.line.receives_heartbeats(&record.run, LISTEN_FOR)
        {
            return Err(ConnectError::Occupied {
                path: place.record.clone(),
                run: record.run.clone(),
            });
        }
        (self.waiting.notice)(&format!(
            "stopping the nats-server that run {} has left running at {shown}",
            record.run
        ));
        match server::stop(record, &place.store) {
            Ok(_) => self
                .waiting
                .pause(&format!("waiting for {shown} to become free")),
            Err(error) => self.waiting.pause(&error.to_string()),
        }
    }
}
