//! Start and stop of a server process.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::record::{ServerRecord, machine, write_private};
use crate::error::ConnectError;
use crate::limits::MAX_PAYLOAD;
use crate::secret::Secret;

const CONFIGURATION: &str = "server.conf";
const LOG: &str = "server.log";
/// Output of the server before it opens its log.
const START_LOG: &str = "start.log";
/// Marker file of a server that was stopped on purpose.
const ENDED: &str = "ended";

/// Longest time from a server's start until it listens: it reads the register first.
const START_WITHIN: Duration = Duration::from_secs(30);
/// Longest time that a server may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// Right to start a server on a store.
pub(crate) struct StoreLock(File);

impl StoreLock {
    /// Acquires the lock. Returns `None` if a server of this store is running. `record` is the record of the store's
    /// last server.
    ///
    /// # Errors
    /// Fails if the folder cannot be created or written.
    pub(crate) fn take(
        store: &Path,
        record: Option<&ServerRecord>,
    ) -> Result<Option<Self>, ConnectError> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(store);
        made.map_err(ConnectError::file(store))?;
        let path = store.join("lock");
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(ConnectError::file(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            // A file system without locks cannot tell whether a server is running. On this machine, its process can.
            Err(TryLockError::Error(_)) => {
                let is_alive = |record: &ServerRecord| {
                    record.host == machine() && is_server_of(record.pid, store)
                };
                Ok((!record.is_some_and(is_alive)).then_some(Self(file)))
            }
        }
    }
}

/// Parameters of a server to start.
pub(crate) struct ServerStart<'a> {
    /// Program.
    pub(crate) program: &'a Path,
    /// Folder of its files.
    pub(crate) store: &'a Path,
    /// Address on which it listens.
    pub(crate) listen: IpAddr,
    /// Port; if none, any free port.
    pub(crate) port: Option<u16>,
    /// Secret that trainers need. Without one, the server accepts all clients.
    pub(crate) secret: Option<&'a Secret>,
    /// Host name under which trainers reach it, if traffic must be encrypted.
    pub(crate) encrypted: Option<&'a str>,
}

/// A server that has been started.
#[derive(Debug)]
pub(crate) struct RunningServer {
    /// Process, a child of this process.
    pub(crate) child: Child,
    /// Port on which it listens.
    pub(crate) port: u16,
}

impl ServerStart<'_> {
    /// Starts the server and waits until it listens. The lock is passed to its process.
    ///
    /// # Errors
    /// [`ConnectError::Start`] if it ends or does not listen; [`ConnectError::File`].
    pub(crate) fn run(&self, lock: StoreLock) -> Result<RunningServer, ConnectError> {
        self.write_configuration()?;
        self.forget_ports()?;
        clear_stopped_mark(self.store);
        let path = self.store.join(START_LOG);
        let log = File::create(&path).map_err(ConnectError::file(&path))?;
        let second = log.try_clone().map_err(ConnectError::file(&path))?;
        let mut command = Command::new(self.program);
        command.arg("--config").arg(self.store.join(CONFIGURATION));
        // In its own process group, it does not receive the signals that a terminal sends to the trainer.
        command.process_group(0);
        command
            .stdin(Stdio::from(lock.0))
            .stdout(log)
            .stderr(second);
        let mut child = command
            .spawn()
            .map_err(|error| self.failed(error.to_string()))?;
        match self.wait_for_port(&mut child) {
            Ok(port) => Ok(RunningServer { child, port }),
            Err(error) => {
                // It may have ended by itself, in which case the error says so.
                child.kill().ok();
                child.wait().ok();
                Err(error)
            }
        }
    }

    fn failed(&self, what: String) -> ConnectError {
        ConnectError::Start {
            what,
            log: self.store.join(LOG),
        }
    }

    fn write_configuration(&self) -> Result<(), ConnectError> {
        let mut configuration = json!({
            "server_name": "pbg-host",
            "host": self.listen.to_string(),
            "port": self.port.map_or(-1, i32::from),
            "ports_file_dir": self.store,
            "max_payload": MAX_PAYLOAD,
            "log_file": self.store.join(LOG),
            "logfile_size_limit": 8 << 20,
            "jetstream": {
                "store_dir": self.store,
                // An acknowledged write must survive a power failure.
                "sync_interval": "always",
                "max_memory_store": 16 << 20,
                "max_file_store": 1 << 30,
            },
        });
        if let Some(secret) = self.secret {
            let user = json!({ "nkey": secret.user_public()? });
            configuration["authorization"] = json!({ "users": [user] });
        }
        if let (Some(secret), Some(host)) = (self.secret, self.encrypted) {
            configuration["tls"] = self.write_certificate(secret, host)?;
        }
        // The syntax of nats-server's configuration includes JSON.
        let text = configuration.to_string();
        write_private(&self.store.join(CONFIGURATION), text.as_bytes())
    }

    fn write_certificate(&self, secret: &Secret, host: &str) -> Result<Value, ConnectError> {
        let (certificate, key) = secret.certificate(host)?;
        let certificate_file = self.store.join("certificate.pem");
        let key_file = self.store.join("key.pem");
        write_private(&certificate_file, certificate.as_bytes())?;
        write_private(&key_file, key.as_bytes())?;
        Ok(json!({ "cert_file": certificate_file, "key_file": key_file }))
    }

    /// Removes the files of servers that were killed.
    fn forget_ports(&self) -> Result<(), ConnectError> {
        for path in ports_files(self.store)? {
            fs::remove_file(&path).map_err(ConnectError::file(&path))?;
        }
        Ok(())
    }

    fn wait_for_port(&self, child: &mut Child) -> Result<u16, ConnectError> {
        let until = pbg_clock::now() + START_WITHIN;
        let end = format!("_{}.ports", child.id());
        loop {
            let files = ports_files(self.store)?;
            let of_this = files
                .iter()
                .find(|path| path.to_string_lossy().ends_with(&end));
            if let Some(port) = of_this.and_then(|path| port(path)) {
                return Ok(port);
            }
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    return Err(self.failed(format!("{status}, {}", self.last_message())));
                }
                Err(error) => return Err(self.failed(error.to_string())),
            }
            if pbg_clock::now() > until {
                let seconds = START_WITHIN.as_secs();
                return Err(self.failed(format!("it is not listening after {seconds} s")));
            }
            pbg_clock::sleep(POLL);
        }
    }

    /// Returns the server's last message.
    fn last_message(&self) -> String {
        let last = |name: &str| {
            let mut text = String::new();
            let file = File::open(self.store.join(name)).ok()?;
            file.take(1 << 20).read_to_string(&mut text).ok()?;
            let line = text.lines().rfind(|line| !line.trim().is_empty())?;
            Some(line.trim().to_owned())
        };
        last(START_LOG)
            .or_else(|| last(LOG))
            .unwrap_or_else(|| "without a message".into())
    }
}

fn ports_files(store: &Path) -> Result<Vec<PathBuf>, ConnectError> {
    let entries = fs::read_dir(store).map_err(ConnectError::file(store))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_one = |path: &PathBuf| path.extension().is_some_and(|end| end == "ports");
    Ok(paths.filter(is_one).collect())
}

/// Returns the port in a file that a server writes once it listens, or `None` while the file is being written.
fn port(path: &Path) -> Option<u16> {
    let value: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let address = value["nats"][0].as_str()?.rsplit_once("://")?.1;
    let of_address = |address: &str| Some(address.parse::<SocketAddr>().ok()?.port());
    of_address(address).or_else(|| address.rsplit_once(':')?.1.parse().ok())
}

/// Returns the process id and the port of the server of this store, if it runs on this machine and listens.
pub(crate) fn listening(store: &Path) -> Option<(u32, u16)> {
    let of_file = |path: PathBuf| {
        let name = path.file_stem()?.to_str()?;
        let pid = name.rsplit_once('_')?.1.parse().ok()?;
        is_server_of(pid, store).then_some((pid, port(&path)?))
    };
    ports_files(store).ok()?.into_iter().find_map(of_file)
}

/// Stops the server of `record`, whose files are in `store`, and waits until it has ended. Returns false if it is not
/// running.
///
/// # Errors
/// Fails if it runs on another machine, or does not end.
pub(crate) fn stop(record: &ServerRecord, store: &Path) -> Result<bool, ConnectError> {
    let wrong = |what: String| ConnectError::Content {
        path: store.to_owned(),
        what,
    };
    if record.host != machine() {
        return Err(wrong(format!(
            "its nats-server runs on {}, as process {}; stop it there",
            record.host, record.pid
        )));
    }
    let Some(pid) = i32::try_from(record.pid).ok().and_then(Pid::from_raw) else {
        return Err(wrong(format!("{} is not a process id", record.pid)));
    };
    if !is_server_of(record.pid, store) {
        return Ok(false);
    }
    // A full disk, or a missing store, must not prevent the server from being stopped.
    File::create(store.join(ENDED)).ok();
    match kill_process(pid, Signal::TERM) {
        Ok(()) => {}
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        Err(error) => return Err(wrong(format!("its nats-server cannot be stopped: {error}"))),
    }
    let until = pbg_clock::now() + STOP_WITHIN;
    while is_server_of(record.pid, store) {
        if pbg_clock::now() > until {
            let seconds = STOP_WITHIN.as_secs();
            return Err(wrong(format!(
                "its nats-server (process {}) does not end within {seconds} s",
                record.pid
            )));
        }
        pbg_clock::sleep(POLL);
    }
    Ok(true)
}

/// Removes the mark that the server of a store was stopped on purpose.
pub(crate) fn clear_stopped_mark(store: &Path) {
    // Usually there is no such file.
    fs::remove_file(store.join(ENDED)).ok();
}

/// Whether the server of a store was ended on purpose and not started again since.
pub(crate) fn was_ended(store: &Path) -> bool {
    store.join(ENDED).exists()
}

/// State of a server on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Its process is running.
    Runs,
    /// Its process was stopped by a signal.
    Stopped,
    /// Its process has ended unexpectedly.
    Gone,
    /// Its process was stopped on purpose.
    Ended,
}

/// Returns the state of the server of `record`, which was started on this machine.
pub(crate) fn health(record: &ServerRecord, store: &Path) -> Health {
    match is_server_of(record.pid, store) {
        true if is_stopped(record.pid) => Health::Stopped,
        true => Health::Runs,
        false if store.join(ENDED).exists() => Health::Ended,
        false => Health::Gone,
    }
}

/// Whether the server of `record` runs on this machine.
pub(crate) fn is_alive(record: &ServerRecord, store: &Path) -> bool {
    record.host == machine() && is_server_of(record.pid, store)
}

/// Whether a signal has stopped a process: then the state after its name is T.
fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit_once(") ").map(|(_, rest)| rest);
    behind_name.is_some_and(|rest| rest.starts_with('T'))
}

/// Whether a process is a server of this store. Process ids are reused, so the arguments are checked.
fn is_server_of(pid: u32, store: &Path) -> bool {
    let configuration = store.join(CONFIGURATION);
    let read = |pid: u32| -> io::Result<Vec<u8>> { fs::read(format!("/proc/{pid}/cmdline")) };
    let Ok(line) = read(pid) else { return false };
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.any(|argument| argument == configuration.as_os_str().as_encoded_bytes())
}
