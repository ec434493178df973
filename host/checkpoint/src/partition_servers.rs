//! Partition servers of a run, which keep partitions in memory between checkpoints.
//!
//! A partition is sent to the servers whose tokens give the highest hashes together with its name (rendezvous hashing),
//! one for each replica. Which server has a file is recorded nowhere: servers are asked in the order of their hashes,
//! so that a file is found although servers have joined or left since. What no server takes is written to the checkpoint
//! folder, where every file is also looked for in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pbg_core::lock::lock;
use pbg_files::remote::RemoteFolder;
use pbg_files::{FileError, FileSummary};
use pbg_ledger::{PartitionServer, Token};

use super::CheckpointError;
use super::sent_object::SentObject;

/// Time for which a server that has failed to answer is not asked again.
const SILENCE: Duration = Duration::from_secs(2);

/// Connects to partition servers.
pub trait ServerConnector: Send + Sync {
    /// Opens the files of the server `token` at `address`. Requests that fail are not repeated for long.
    ///
    /// # Errors
    /// When the address is wrong, or the server does not answer.
    fn connect(&self, token: Token, address: &str) -> io::Result<Arc<dyn RemoteFolder>>;
}

/// Partition servers of a run, as seen by one trainer.
pub struct PartitionServers {
    connector: Arc<dyn ServerConnector>,
    /// Number of servers that each partition is sent to.
    replicas: usize,
    /// Server of this process, which is read until it ends, even after it was removed from the run.
    own: Option<(Token, String)>,
    servers: Mutex<BTreeMap<Token, Server>>,
}

impl fmt::Debug for PartitionServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionServers")
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

/// Server of the record.
#[derive(Clone)]
struct Server {
    address: String,
    /// Whether the record names it. Files are sent to no others.
    is_named: bool,
    /// Connection to it, once it was needed.
    folder: Option<Arc<dyn RemoteFolder>>,
    /// When it last failed to answer. It is not asked again at once.
    failed: Option<Instant>,
}

impl Server {
    fn is_silent(&self) -> bool {
        let failed = self.failed.map(pbg_clock::elapsed);
        failed.is_some_and(|ago| ago < SILENCE)
    }
}

/// Result of using one copy of a file.
pub(super) enum CopyUse<T> {
    Done(T),
    /// The copy is damaged, which is as good as none.
    Damaged,
    /// It did not arrive.
    Failed(io::Error),
    /// No other copy would be better.
    Useless,
}

/// A partition server that does not answer.
#[derive(Debug)]
pub(super) struct SilentServer {
    pub(super) address: String,
    pub(super) cause: io::Error,
}

impl SilentServer {
    /// Returns the error of a server that may have the file `name`.
    pub(super) fn with(self, name: &str) -> CheckpointError {
        let Self { address, cause } = self;
        let name = name.to_owned();
        CheckpointError::SilentServer {
            address,
            name,
            cause,
        }
    }
}

/// Result of looking for a file on all servers.
pub(super) enum Lookup<T> {
    Found(T),
    /// All servers have answered, and none has it.
    Absent,
    /// No server that has answered has it.
    Unknown(SilentServer),
}

impl PartitionServers {
    /// Creates the view of a trainer that knows no servers yet but that of its own process.
    #[must_use]
    pub fn new(
        connector: Arc<dyn ServerConnector>,
        replicas: usize,
        own: Option<(Token, String)>,
    ) -> Self {
        let created = Self {
            connector,
            replicas,
            own,
            servers: Mutex::default(),
        };
        created.update(&BTreeMap::new());
        created
    }

    /// Uses the servers that the newest record names, and no others.
    pub fn update(&self, named: &BTreeMap<Token, PartitionServer>) {
        let own = self.own.as_ref();
        let mut servers = lock(&self.servers);
        let is_own = |token: &Token| own.is_some_and(|(own, _)| own == token);
        servers.retain(|token, _| named.contains_key(token) || is_own(token));
        let named_addresses = named.iter().map(|(token, server)| (token, &server.address));
        for (token, address) in named_addresses.chain(own.map(|(token, address)| (token, address)))
        {
            let server = servers.entry(*token).or_insert_with(|| Server {
                address: address.clone(),
                is_named: false,
                folder: None,
                failed: None,
            });
            server.is_named = named.contains_key(token);
        }
    }

    /// Returns the servers in the order in which they are asked for the file `name` of the partition `key`.
    fn in_order(&self, key: &str) -> Vec<(Token, Server)> {
        let servers = lock(&self.servers).clone();
        let mut servers: Vec<(Token, Server)> = servers.into_iter().collect();
        servers.sort_by_key(|(token, _)| std::cmp::Reverse(token.rendezvous_hash(key.as_bytes())));
        servers
    }

    /// Asks a server something, unless it has just failed to answer.
    fn ask<T>(
        &self,
        token: Token,
        server: &Server,
        question: impl FnOnce(&dyn RemoteFolder) -> io::Result<T>,
    ) -> io::Result<T> {
        if server.is_silent() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "it has just failed to answer",
            ));
        }
        let asked = self.connected(token, server);
        let answer = asked.and_then(|folder| question(&*folder));
        if let Err(error) = &answer
            && error.kind() != io::ErrorKind::NotFound
        {
            self.failed(token);
        }
        answer
    }

    /// Records that a server has failed to answer.
    fn failed(&self, token: Token) {
        if let Some(server) = lock(&self.servers).get_mut(&token) {
            server.failed = Some(pbg_clock::now());
        }
    }

    /// Returns a connection to a server.
    fn connected(&self, token: Token, server: &Server) -> io::Result<Arc<dyn RemoteFolder>> {
        if let Some(folder) = &server.folder {
            return Ok(Arc::clone(folder));
        }
        // Not locked: another thread may connect at the same time, which is harmless.
        let folder = self.connector.connect(token, &server.address)?;
        if let Some(server) = lock(&self.servers).get_mut(&token) {
            server.folder = Some(Arc::clone(&folder));
        }
        Ok(folder)
    }

    /// Sends the file `name` of the partition `key`, whose content `put` makes, to as many servers as there are
    /// replicas, and returns these; fewer are better than none. Returns `None` if no server takes it.
    pub(super) fn write(
        &self,
        key: &str,
        name: &str,
        put: &dyn Fn(&mut SentObject) -> Result<(), FileError>,
    ) -> Option<(FileSummary, BTreeSet<Token>)> {
        let candidates = self.in_order(key).into_iter();
        let is_able = |server: &Server| server.is_named && !server.is_silent();
        let candidates: Vec<_> = candidates.filter(|(_, server)| is_able(server)).collect();
        let first = candidates
            .get(..self.replicas)
            .filter(|first| first.len() > 1);
        // The content is made once for all copies if nothing fails.
        if let Some(first) = first
            && let Some(summary) = self.send(first, name, put)
        {
            return Some((summary, first.iter().map(|(token, _)| *token).collect()));
        }
        // One of them may be full or gone. Which one shows only when each is tried alone.
        let (mut holders, mut written) = (BTreeSet::new(), None);
        for candidate in candidates {
            if let Some(summary) = self.send(std::slice::from_ref(&candidate), name, put) {
                written = Some(summary);
                holders.insert(candidate.0);
            }
            if holders.len() == self.replicas {
                break;
            }
        }
        Some((written?, holders))
    }

    /// Sends a file to servers. Returns `None` if one of them does not take it.
    fn send(
        &self,
        servers: &[(Token, Server)],
        name: &str,
        put: &dyn Fn(&mut SentObject) -> Result<(), FileError>,
    ) -> Option<FileSummary> {
        let writer = |(token, server): &(Token, Server)| {
            let folder = self.connected(*token, server).ok()?;
            Some((path_on(server, name), folder.writer(name).ok()?))
        };
        let writers: Option<Vec<_>> = servers.iter().map(writer).collect();
        let mut object = SentObject::new(writers?);
        put(&mut object).ok()?;
        object.finish().ok()
    }

    /// Looks for the file `name` of the partition `key` and passes its content and size to `use_it`, for one server
    /// after another until that succeeds.
    pub(super) fn read<T>(
        &self,
        key: &str,
        name: &str,
        use_it: &mut dyn FnMut(Box<dyn Read + Send>, u64, PathBuf) -> CopyUse<T>,
    ) -> Lookup<T> {
        let mut silent = None;
        for (token, server) in self.in_order(key) {
            let opened = self.ask(token, &server, |folder| {
                let file = folder.look_up(name)?;
                Ok((folder.reader(&file)?, file.size))
            });
            let cause = match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(cause) => cause,
                Ok((reader, size)) => match use_it(reader, size, path_on(&server, name)) {
                    CopyUse::Done(used) => return Lookup::Found(used),
                    CopyUse::Damaged => continue,
                    CopyUse::Useless => return Lookup::Absent,
                    CopyUse::Failed(cause) => {
                        self.failed(token);
                        cause
                    }
                },
            };
            let address = server.address;
            silent = Some(SilentServer { address, cause });
        }
        silent.map_or(Lookup::Absent, Lookup::Unknown)
    }

    /// Looks for the file `name` of the partition `key` and returns its size.
    pub(super) fn size(&self, key: &str, name: &str) -> Lookup<u64> {
        let mut silent = None;
        for (token, server) in self.in_order(key) {
            match self.ask(token, &server, |folder| folder.look_up(name)) {
                Ok(file) => return Lookup::Found(file.size),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => {
                    let address = server.address;
                    silent = Some(SilentServer { address, cause });
                }
            }
        }
        silent.map_or(Lookup::Absent, Lookup::Unknown)
    }

    /// Returns the names of all files on the servers that answer.
    pub(super) fn list(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (token, server) in self.in_order("") {
            let listed = self.ask(token, &server, |folder| folder.list_here());
            names.extend(listed.into_iter().flatten().map(|file| file.name));
        }
        names
    }

    /// Returns the names of all files on one server.
    ///
    /// # Errors
    /// When it is not known, or does not answer.
    pub(super) fn list_of(&self, token: Token) -> Result<Vec<String>, SilentServer> {
        let server = lock(&self.servers).get(&token).cloned();
        let Some(server) = server else {
            let (address, cause) = (token.to_string(), io::ErrorKind::AddrNotAvailable.into());
            return Err(SilentServer { address, cause });
        };
        let listed = self.connected(token, &server);
        match listed.and_then(|folder| folder.list_here()) {
            Ok(listed) => Ok(listed.into_iter().map(|file| file.name).collect()),
            Err(cause) => {
                let address = server.address;
                Err(SilentServer { address, cause })
            }
        }
    }

    /// Removes a file from all servers that answer. The others are removed from the run with what they have, or are
    /// asked again at the next checkpoint.
    pub(super) fn remove(&self, name: &str) {
        for (token, server) in self.in_order("") {
            let _kept = self.ask(token, &server, |folder| folder.remove(name));
        }
    }
}

/// Returns the path of a file on a server, for messages.
fn path_on(server: &Server, name: &str) -> PathBuf {
    PathBuf::from(format!("{}/{name}", server.address))
}
