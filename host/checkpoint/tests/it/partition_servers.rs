//! Partitions on partition servers: where they are, what is lost with a server, and what a checkpoint needs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use pbg_checkpoint::{
    CheckpointManifest, PartitionData, PartitionRows, PartitionServers, ServerConnector,
    SharedCheckpoint, shared,
};
use pbg_files::remote::RemoteFolder;
use pbg_ledger::{FileId, PartitionFile, PartitionServer, Token};
use pbg_objects::PartitionServerAccess;
use pbg_partition_server::{MemoryServer, MemoryServerOptions};

/// Opens servers without keys.
struct Unlocked;

impl ServerConnector for Unlocked {
    fn connect(&self, token: Token, address: &str) -> io::Result<Arc<dyn RemoteFolder>> {
        let access = PartitionServerAccess::default();
        pbg_objects::open_server(address, &token.to_string(), &access)
    }
}

fn start(token: Token, memory: u64) -> MemoryServer {
    MemoryServer::start(MemoryServerOptions {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        bucket: token.to_string(),
        memory,
        key: None,
        tls: None,
    })
    .unwrap()
}

/// Servers of a run, by their tokens.
struct Servers(BTreeMap<Token, MemoryServer>);

impl Servers {
    fn new(count: u64, memory: u64) -> Self {
        let tokens = (1..=count).map(Token);
        Self(tokens.map(|token| (token, start(token, memory))).collect())
    }

    fn named(&self) -> BTreeMap<Token, PartitionServer> {
        let servers = self.0.iter().map(|(token, server)| {
            let address = server.address().to_string();
            (*token, PartitionServer { address, memory: 0 })
        });
        servers.collect()
    }

    fn holders(&self) -> BTreeSet<Token> {
        let holders = self.0.iter().filter(|(_, server)| server.held() > 0);
        holders.map(|(token, _)| *token).collect()
    }
}

fn open(folder: &tempfile::TempDir, replicas: usize, servers: &Servers) -> SharedCheckpoint {
    let view = PartitionServers::new(Arc::new(Unlocked), replicas, None);
    view.update(&servers.named());
    let opened = SharedCheckpoint::open(folder.path(), Token(9)).unwrap();
    opened.with_servers(Some(Arc::new(view)))
}

fn keep(files: &SharedCheckpoint, partition: u32, value: f32) -> (PartitionFile, BTreeSet<Token>) {
    let fill = move |_: usize, out: &mut [f32]| out.fill(value);
    let rows = PartitionRows {
        rows: 1000,
        dim: 10,
        embeddings: &fill,
        optimizer: Default::default(),
        state: &fill,
        rounding: None,
    };
    files.keep_partition("e", partition, 1, &rows).unwrap()
}

fn value(files: &SharedCheckpoint, partition: u32, file: &PartitionFile) -> Option<f32> {
    let mut data = PartitionData::default();
    let read = files.read_partition_into("e", partition, file, &mut data);
    read.ok()?;
    assert_eq!(data.embeddings.len(), 10_000);
    Some(data.embeddings[0])
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("embeddings"))
        .collect()
}

fn manifest(files: &[(u32, PartitionFile)]) -> CheckpointManifest {
    let entries = files.iter();
    let entries = entries.map(|(partition, file)| shared::manifest_entry("e", *partition, file));
    CheckpointManifest {
        version: 1,
        files: entries.collect(),
        ..CheckpointManifest::default()
    }
}

#[test]
fn a_partition_is_in_memory_until_a_checkpoint_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::new(3, 1 << 20);
    let files = open(&folder, 1, &servers);
    let kept: Vec<_> = (0..8).map(|p| (p, keep(&files, p, p as f32))).collect();
    assert!(kept.iter().all(|(_, (_, on))| on.len() == 1));
    let used: BTreeSet<Token> = kept.iter().flat_map(|(_, (_, on))| on.clone()).collect();
    assert!(used.len() > 1 && used == servers.holders());
    assert_eq!(names(&folder), [""; 0]);
    for (partition, (file, _)) in &kept {
        assert_eq!(value(&files, *partition, file), Some(*partition as f32));
        assert_eq!(files.missing("e", *partition, file).unwrap(), None);
    }
    let files_of: Vec<_> = kept.iter().map(|(p, (file, _))| (*p, *file)).collect();
    files.store_partitions(&manifest(&files_of)).unwrap();
    assert_eq!(names(&folder).len(), 8);
    // A checkpoint needs no servers.
    drop(servers);
    files.use_servers(&BTreeMap::new());
    for (partition, file) in &files_of {
        assert_eq!(value(&files, *partition, file), Some(*partition as f32));
    }
}

#[test]
fn two_replicas_survive_one_server_and_one_does_not() {
    for (replicas, survives) in [(1, false), (2, true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut servers = Servers::new(3, 1 << 20);
        let files = open(&folder, replicas, &servers);
        let (file, on) = keep(&files, 0, 7.0);
        assert_eq!((on.len(), on.clone()), (replicas, servers.holders()));
        let lost = *on.first().unwrap();
        servers.0.remove(&lost);
        let read = value(&files, 0, &file);
        assert_eq!(read, survives.then_some(7.0));
        // Until it is removed from the run, it may have the file.
        assert_eq!(files.missing("e", 0, &file).unwrap(), None);
        files.use_servers(&servers.named());
        let missing = files.missing("e", 0, &file).unwrap();
        assert_eq!(missing.is_none(), survives);
        let stored = files.store_partitions(&manifest(&[(0, file)]));
        assert_eq!(stored.is_ok(), survives);
    }
}

#[test]
fn what_no_server_takes_is_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    // Room for one partition of some 44 kB, not for two.
    let servers = Servers::new(1, 64 << 10);
    let files = open(&folder, 2, &servers);
    let (first, on) = keep(&files, 0, 1.0);
    assert_eq!(on, BTreeSet::from([Token(1)]));
    let (second, on) = keep(&files, 1, 2.0);
    assert_eq!(on, BTreeSet::new());
    assert_eq!(names(&folder).len(), 1);
    assert_eq!(value(&files, 0, &first), Some(1.0));
    assert_eq!(value(&files, 1, &second), Some(2.0));
    files.drop_from_servers("e", 0, first.id);
    assert_eq!(value(&files, 0, &first), None);
    assert_eq!(servers.0[&Token(1)].held(), 0);
    let (third, on) = keep(&files, 0, 3.0);
    assert_eq!(on.len(), 1);
    assert_eq!(value(&files, 0, &third), Some(3.0));
    // Garbage goes from the servers as from the folder.
    let listed = files.list().unwrap();
    assert_eq!(listed.len(), 2);
    let garbage = |_: &str, _: u32, _: FileId| true;
    files
        .remove_garbage(&listed, &[], garbage, |_| true)
        .unwrap();
    assert_eq!(files.list().unwrap(), [""; 0]);
    assert_eq!(servers.0[&Token(1)].held(), 0);
}

#[test]
fn a_damaged_copy_is_as_good_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::new(2, 1 << 20);
    let files = open(&folder, 2, &servers);
    let (file, _) = keep(&files, 0, 7.0);
    let listed = files.list().unwrap();
    let named = servers.named();
    for token in [Token(1), Token(2)] {
        let other = Unlocked.connect(token, &named[&token].address).unwrap();
        let mut bytes = other.read(&listed[0], 1 << 20).unwrap().bytes;
        bytes[1000] ^= 1;
        other.put(&listed[0], &bytes).unwrap();
        let expected = (token == Token(1)).then_some(7.0);
        assert_eq!(value(&files, 0, &file), expected);
        let stored = files.store_partitions(&manifest(&[(0, file)]));
        assert_eq!(stored.is_ok(), expected.is_some());
        std::fs::remove_file(folder.path().join(&listed[0])).unwrap_or_default();
    }
}
