//! Partition servers of simulated trainers: memory that is gone with its process, behind a network that loses requests.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Cursor, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_checkpoint::ServerConnector;
use pbg_core::lock::lock;
use pbg_files::remote::{ContentTag, RemoteContent, RemoteFile, RemoteFolder, RemoteWriter};
use pbg_ledger::Token;

use crate::fault::SimFault;
use crate::world::{Process, SimWorld};

/// Time after which a request that is not answered fails.
const PATIENCE: Duration = Duration::from_secs(5);

/// Faults of the way to partition servers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerFaults {
    /// Probability that a request does not arrive.
    pub(crate) lost_request: f64,
    /// Probability that a request is carried out, but its answer does not arrive.
    pub(crate) lost_answer: f64,
    /// Longest duration of a request.
    pub(crate) latency: Duration,
}

/// Memory of one server.
#[derive(Clone)]
struct ServerMemory {
    process: Process,
    files: Arc<Mutex<BTreeMap<String, Arc<Vec<u8>>>>>,
}

/// Partition servers of a run.
pub(crate) struct SimServers {
    world: Arc<SimWorld>,
    memories: Mutex<BTreeMap<Token, ServerMemory>>,
    faults: Mutex<ServerFaults>,
}

impl SimServers {
    pub(crate) fn new(world: &Arc<SimWorld>) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            memories: Mutex::default(),
            faults: Mutex::default(),
        })
    }

    /// Disturbs requests from now on.
    pub(crate) fn set_faults(&self, faults: ServerFaults) {
        *lock(&self.faults) = faults;
    }

    /// Starts a server in the calling process.
    pub(crate) fn start(&self, token: Token) {
        let memory = ServerMemory {
            process: self.world.current(),
            files: Arc::default(),
        };
        lock(&self.memories).insert(token, memory);
    }

    fn happens(&self, probability: f64, fault: SimFault) -> bool {
        let is_drawn = probability > 0.0 && self.world.draw(|dice| dice.chance(probability));
        is_drawn && self.world.inject(fault)
    }
}

/// Opens the servers of a run from one of its processes.
pub(crate) struct SimServerConnector(pub(crate) Arc<SimServers>);

impl ServerConnector for SimServerConnector {
    fn connect(&self, token: Token, address: &str) -> io::Result<Arc<dyn RemoteFolder>> {
        Ok(Arc::new(ServerConnection {
            servers: Arc::clone(&self.0),
            token,
            address: address.to_owned(),
        }))
    }
}

/// A process's connection to a server.
#[derive(Clone)]
struct ServerConnection {
    servers: Arc<SimServers>,
    token: Token,
    address: String,
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl ServerConnection {
    /// Carries out a request with the files of the server.
    fn request<T>(
        &self,
        carry_out: impl FnOnce(&mut BTreeMap<String, Arc<Vec<u8>>>) -> T,
    ) -> io::Result<T> {
        let servers = &self.servers;
        let faults = *lock(&servers.faults);
        let latency = faults.latency.max(Duration::from_millis(1));
        pbg_clock::sleep(servers.world.draw(|dice| dice.duration(latency)));
        let memory = lock(&servers.memories).get(&self.token).cloned();
        let Some(memory) = memory.filter(|memory| servers.world.is_alive(memory.process)) else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let is_silent = servers.world.is_paused(memory.process)
            || servers.happens(faults.lost_request, SimFault::LostRequest);
        if is_silent {
            pbg_clock::sleep(PATIENCE);
            return Err(io::ErrorKind::TimedOut.into());
        }
        let answer = carry_out(&mut lock(&memory.files));
        match servers.happens(faults.lost_answer, SimFault::LostAnswer) {
            true => {
                pbg_clock::sleep(PATIENCE);
                Err(io::ErrorKind::TimedOut.into())
            }
            false => Ok(answer),
        }
    }

    fn content(&self, name: &str) -> io::Result<Arc<Vec<u8>>> {
        let content = self.request(|files| files.get(name).cloned())?;
        content.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn described(name: &str, bytes: &[u8]) -> RemoteFile {
    RemoteFile {
        name: name.to_owned(),
        size: bytes.len() as u64,
        tag: ContentTag::default(),
        modified: 0,
    }
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl RemoteFolder for ServerConnection {
    fn url(&self) -> &str {
        &self.address
    }

    fn list(&self) -> io::Result<Vec<RemoteFile>> {
        self.request(|files| {
            let files = files.iter();
            files.map(|(name, bytes)| described(name, bytes)).collect()
        })
    }

    fn list_here(&self) -> io::Result<Vec<RemoteFile>> {
        self.list()
    }

    fn list_below(&self, _: &str) -> io::Result<Vec<RemoteFile>> {
        unsupported()
    }

    fn look_up(&self, name: &str) -> io::Result<RemoteFile> {
        Ok(described(name, &self.content(name)?))
    }

    fn read(&self, _: &str, _: u64) -> io::Result<RemoteContent> {
        unsupported()
    }

    fn download(&self, _: &RemoteFile, _: &Path) -> io::Result<()> {
        unsupported()
    }

    fn upload(&self, _: &Path, _: &str) -> io::Result<()> {
        unsupported()
    }

    fn reader(&self, file: &RemoteFile) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(self.content(&file.name)?.to_vec())))
    }

    fn writer(&self, name: &str) -> io::Result<Box<dyn RemoteWriter>> {
        Ok(Box::new(FileBeingSent {
            connection: self.clone(),
            name: name.to_owned(),
            bytes: Vec::new(),
        }))
    }

    fn put(&self, _: &str, _: &[u8]) -> io::Result<()> {
        unsupported()
    }

    fn create(&self, _: &str, _: &[u8]) -> io::Result<Option<ContentTag>> {
        unsupported()
    }

    fn replace(&self, _: &str, _: &[u8], _: &ContentTag) -> io::Result<Option<ContentTag>> {
        unsupported()
    }

    fn duplicate(&self, _: &str, _: &str) -> io::Result<()> {
        unsupported()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.request(|files| drop(files.remove(name)))
    }
}

/// File on its way to a server.
struct FileBeingSent {
    connection: ServerConnection,
    name: String,
    bytes: Vec<u8>,
}

impl Write for FileBeingSent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RemoteWriter for FileBeingSent {
    fn finish(self: Box<Self>) -> io::Result<()> {
        let Self {
            connection,
            name,
            bytes,
        } = *self;
        connection.request(|files| drop(files.insert(name, Arc::new(bytes))))
    }
}
