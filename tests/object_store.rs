//! An object store on this machine, which a test starts and which ends with it. Each package of tests that needs one
//! includes this file.

use std::env;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than the store takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// The bucket of the tests.
pub(crate) const BUCKET: &str = "tests";
/// Credentials of the tests.
const KEY: &str = "test-key";
const SECRET: &str = "test-secret";

/// A store that speaks the protocol of S3, on loopback, with the bucket [`BUCKET`].
pub(crate) struct TestStore {
    server: Child,
    folder: TempDir,
    port: u16,
}

impl TestStore {
    /// Starts the store that `PBG_TEST_OBJECT_STORE` names, or the one that the set-up of the tests has installed.
    /// Returns `None` if there is none.
    pub(crate) fn start() -> Option<Self> {
        let program = program()?;
        // Another process may take a port in between; then the next ones are tried.
        for _ in 0..5 {
            if let Some(store) = Self::try_start(&program) {
                return Some(store);
            }
        }
        panic!("the object store does not start");
    }

    fn try_start(program: &Path) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let identity = format!(
            "{{\"identities\":[{{\"name\":\"test\",\"credentials\":[{{\"accessKey\":\"{KEY}\",\"secretKey\":\"{SECRET}\"}}],\
             \"actions\":[\"Admin\",\"Read\",\"Write\",\"List\",\"Tagging\"]}}]}}"
        );
        let users = folder.path().join("users.json");
        fs::write(&users, identity).expect("room");
        let ports = free_ports();
        let mut command = Command::new(program);
        command.args([
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-s3",
            "-s3.iam=false",
        ]);
        command.args([
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=30",
        ]);
        command.args(["-s3.port.iceberg=0", "-s3.port.lance=0"]);
        command.arg(format!("-dir={}", folder.path().display()));
        command.arg(format!("-s3.config={}", users.display()));
        for (option, port) in PORTS.iter().zip(ports) {
            command.arg(format!("-{option}={port}"));
        }
        let log = File::create(folder.path().join("log")).expect("room");
        command
            .stdout(Stdio::null())
            .stderr(log)
            .stdin(Stdio::null());
        let server = command
            .current_dir(folder.path())
            .spawn()
            .expect("the object store");
        let [port, filer, ..] = ports;
        let mut store = Self {
            server,
            folder,
            port,
        };
        let is_ready = store.answers(port) && store.answers(filer);
        is_ready.then(|| {
            make_bucket(filer);
            store
        })
    }

    /// Waits until the store answers at `port`. Returns false if it has ended.
    fn answers(&mut self, port: u16) -> bool {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if self.server.try_wait().expect("its state").is_some() {
                return false;
            }
            let log = || fs::read_to_string(self.folder.path().join("log"));
            assert!(begun.elapsed() < PATIENCE, "no object store:\n{:?}", log());
            thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// Returns the variables of the environment with which programs find the store.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        [
            (
                "AWS_ENDPOINT_URL",
                format!("http://127.0.0.1:{}", self.port),
            ),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Options of the store that give its ports: first that of S3, then that of the store's own file system.
const PORTS: [&str; 8] = [
    "s3.port",
    "filer.port",
    "s3.port.grpc",
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port.grpc",
];

/// Returns ports that nobody uses now.
fn free_ports() -> [u16; PORTS.len()] {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let listeners = [(); PORTS.len()].map(listen);
    listeners.map(|listener| listener.local_addr().expect("its address").port())
}

/// Creates the bucket, which is a folder of the store's own file system.
fn make_bucket(filer: u16) {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, filer)).expect("a connection");
    let request = format!(
        "POST /buckets/{BUCKET}/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
}

fn program() -> Option<PathBuf> {
    let installed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/seaweedfs/weed");
    let program = env::var_os("PBG_TEST_OBJECT_STORE").map_or_else(installed, PathBuf::from);
    if program.is_file() {
        return Some(program);
    }
    let why = format!("there is no object store ({})", program.display());
    assert!(
        env::var_os("PBG_TEST_OBJECT_STORE").is_none(),
        "{why}: PBG_TEST_OBJECT_STORE is an absolute path"
    );
    crate::tools::without("seaweedfs", &why);
    None
}
