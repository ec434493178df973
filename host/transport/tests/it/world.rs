//! The folder of a test, and the servers that the test has started.

use std::env;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use pbg_transport::{ConnectError, Connection, ConnectionOptions, InitMethod, RunName, connect};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Returns the server program to test with. If there is none, reports that.
pub(crate) fn program() -> Option<PathBuf> {
    let installed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/nats/nats-server");
    let program = env::var_os("PBG_TEST_NATS").map_or_else(installed, PathBuf::from);
    if program.is_file() {
        return Some(program);
    }
    let why = format!("there is no nats-server ({})", program.display());
    assert!(
        env::var_os("PBG_TEST_NATS").is_none(),
        "{why}: PBG_TEST_NATS is an absolute path"
    );
    crate::tools::without("nats", &why);
    None
}

/// A folder with servers in it, which end with the test.
pub(crate) struct World {
    folder: TempDir,
    program: PathBuf,
}

impl World {
    /// Returns `None` if there is no server program to test with.
    pub(crate) fn new() -> Option<Self> {
        Some(Self {
            program: program()?,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options of rank 0 with `file://`, whose server runs on this machine.
    pub(crate) fn options(&self) -> ConnectionOptions {
        let run = RunName::new("test").unwrap();
        let mut options = ConnectionOptions::new(InitMethod::File(self.path("meet")), run);
        options.rank = Some(0);
        options.nats_server = Some(self.program.clone());
        options.listen = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        options.timeout = LONG;
        options.folder = Some(self.path("folder"));
        options
    }

    pub(crate) fn connect(&self) -> Connection {
        quiet(&self.options()).unwrap()
    }

    /// Returns the content of the file at which trainers meet.
    pub(crate) fn record(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("meet")).unwrap()).unwrap()
    }

    /// Returns the processes of the servers in this folder, which only this test has started.
    pub(crate) fn servers(&self) -> Vec<Pid> {
        let here = self.folder.path().as_os_str().as_encoded_bytes();
        let has = |line: &[u8]| {
            line.split(|byte| *byte == 0)
                .any(|argument| argument.starts_with(here) && argument.ends_with(b"server.conf"))
        };
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let (Some(number), Ok(line)) = (number, fs::read(entry.path().join("cmdline")))
                && has(&line)
            {
                found.extend(Pid::from_raw(number));
            }
        }
        found
    }

    /// Returns the process of the only server.
    pub(crate) fn server(&self) -> Pid {
        let servers = self.servers();
        assert_eq!(servers.len(), 1);
        servers[0]
    }

    /// Kills the only server and waits until it has ended.
    pub(crate) fn kill(&self) {
        kill_process(self.server(), Signal::KILL).unwrap();
        eventually("the server ends", || self.servers().is_empty());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for server in self.servers() {
            // It may have ended in the meantime, or may not be a child of this process.
            kill_process(server, Signal::KILL).ok();
            waitpid(Some(server), WaitOptions::empty()).ok();
        }
    }
}

/// Connects without a listener for messages.
pub(crate) fn quiet(options: &ConnectionOptions) -> Result<Connection, ConnectError> {
    connect(options, &|_| ())
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "not within {LONG:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn error(result: Result<Connection, ConnectError>) -> String {
    match result {
        Ok(_) => panic!("connected, but an error was expected"),
        Err(error) => error.to_string(),
    }
}
