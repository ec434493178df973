//! The user's servers: a cluster of three that store the ledger together, and one that requires a token and encryption.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pbg_ledger::Token;
use pbg_ledger::transport::{LiveTraffic, Register, WriteReply};
use pbg_transport::{AccessToken, Address, ConnectionOptions, InitMethod, RunName};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::world::{LONG, World, error, eventually, quiet};

/// Servers that end with the test.
struct Servers {
    children: Vec<Child>,
    addresses: Vec<Address>,
}

impl Servers {
    fn start(world: &World, configurations: Vec<Value>, ports: &[u16]) -> Self {
        let program = world.options().nats_server.unwrap();
        let mut children = Vec::new();
        for (number, configuration) in configurations.into_iter().enumerate() {
            let file = world.path(&format!("user-{number}.conf"));
            fs::write(&file, configuration.to_string()).unwrap();
            let mut command = Command::new(&program);
            command.arg("--config").arg(file).stderr(Stdio::null());
            children.push(command.spawn().unwrap());
        }
        let host = "127.0.0.1".to_owned();
        let address = |port: &u16| Address {
            host: host.clone(),
            port: *port,
        };
        Self {
            children,
            addresses: ports.iter().map(address).collect(),
        }
    }

    fn options(&self, world: &World, tls: bool) -> ConnectionOptions {
        let mut options = world.options();
        options.rank = None;
        options.method = InitMethod::Nats {
            servers: self.addresses.clone(),
            tls,
        };
        options
    }

    fn kill(&mut self, number: usize) {
        self.children[number].kill().unwrap();
        self.children[number].wait().unwrap();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // A server that the test has killed has already ended.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Returns ports that are free at the moment.
fn free_ports(n: usize) -> Vec<u16> {
    let bound: Vec<TcpListener> = (0..n)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    bound
        .iter()
        .map(|bound| bound.local_addr().unwrap().port())
        .collect()
}

fn three(world: &World) -> Servers {
    let ports = free_ports(6);
    let (clients, routes) = ports.split_at(3);
    let urls: Vec<String> = routes
        .iter()
        .map(|port| format!("nats://127.0.0.1:{port}"))
        .collect();
    let configuration = |number: usize| {
        json!({
            "server_name": format!("server-{number}"),
            "host": "127.0.0.1",
            "port": clients[number],
            "jetstream": {
                "store_dir": world.path(&format!("store-{number}")),
                "sync_interval": "always",
            },
            "cluster": {
                "name": "three",
                "host": "127.0.0.1",
                "port": routes[number],
                "routes": urls,
            },
        })
    };
    Servers::start(world, (0..3).map(configuration).collect(), clients)
}

/// Adds a line to the register exactly once, even if replies are lost.
fn add(register: &dyn Register, line: &str) {
    for attempt in 0..1000 {
        let Ok(entry) = register.read() else { continue };
        let text = entry
            .as_ref()
            .map_or("", |entry| std::str::from_utf8(&entry.value).unwrap());
        if text.lines().any(|other| other == line) {
            return;
        }
        let text = format!("{text}{line}\n");
        let after = entry.as_ref().map(|entry| entry.revision);
        let id = format!("{line} {attempt}");
        if let Ok(WriteReply::Accepted(_)) = register.write(after, text.as_bytes(), &id) {
            return;
        }
    }
    panic!("{line} is refused for ever");
}

#[test]
fn three_servers_lose_nothing_when_one_is_killed_and_stand_still_without_two() {
    let Some(world) = World::new() else { return };
    let mut servers = three(&world);
    let mut options = servers.options(&world, false);
    options.replicas = 3;
    let register = quiet(&options).unwrap();
    thread::scope(|scope| {
        for writer in 0..4 {
            let own = (writer % 2 == 0).then(|| quiet(&options).unwrap());
            let register = &register;
            scope.spawn(move || {
                let register = own.as_ref().unwrap_or(register);
                for count in 0..25 {
                    add(register, &format!("{writer}-{count}"));
                }
            });
        }
        eventually("they are at work", || {
            register
                .read()
                .is_ok_and(|entry| entry.is_some_and(|entry| entry.value.len() > 60))
        });
        servers.kill(0);
    });
    let entry = register.read().unwrap().unwrap();
    let text = String::from_utf8(entry.value).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((lines.len(), text.lines().count()), (100, 100));
    servers.kill(1);
    eventually("one alone does not answer", || {
        register.write(Some(entry.revision), b"x", "alone").is_err()
    });
}

/// A server with a certificate and a token, and the file of the authority that has signed the certificate.
fn encrypted(world: &World, token: &str) -> (Servers, PathBuf) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &*authority).unwrap();
    let files = ["authority.pem", "certificate.pem", "key.pem"].map(|name| world.path(name));
    let texts = [authority.pem(), certificate.pem(), key.serialize_pem()];
    for (file, text) in files.iter().zip(texts) {
        fs::write(file, text).unwrap();
    }
    let [authority, certificate, key] = files;
    let port = free_ports(1);
    let configuration = json!({
        "host": "127.0.0.1",
        "port": port[0],
        "jetstream": { "store_dir": world.path("store") },
        "authorization": { "token": token },
        "tls": { "cert_file": certificate, "key_file": key },
    });
    (Servers::start(world, vec![configuration], &port), authority)
}

#[test]
fn tls_checks_the_server_and_the_server_checks_the_token() {
    let Some(world) = World::new() else { return };
    let token = "the-token-of-the-user";
    let (servers, authority) = encrypted(&world, token);
    let mut options = servers.options(&world, true);
    options.token = Some(AccessToken::new(token).unwrap());
    options.authority = Some(authority);
    let connection = quiet(&options).unwrap();
    assert!(matches!(
        connection.write(None, b"a", "1"),
        Ok(WriteReply::Accepted(_))
    ));
    connection.wake();
    assert!(connection.wait(LONG));
    options.token = Some(AccessToken::new("another-token-than-that").unwrap());
    let text = error(quiet(&options));
    assert!(text.contains("authentication at the server"), "{text}");
    assert!(!text.contains("another-token"), "{text}");
    // The system's authorities have not signed the server's certificate.
    options.authority = None;
    options.timeout = Duration::ZERO;
    error(quiet(&options));
}

/// A server whose users have the permissions for one run, as the crate's documentation lists them.
fn narrow(world: &World, run: &str) -> Servers {
    let api = ["CREATE", "INFO", "MSG.GET", "DELETE"]
        .map(|what| format!("$JS.API.STREAM.{what}.pbg-{run}"));
    let own = format!("pbg.{run}.>");
    let publish: Vec<&str> = api.iter().chain([&own]).map(String::as_str).collect();
    let port = free_ports(1);
    let configuration = json!({
        "host": "127.0.0.1",
        "port": port[0],
        "jetstream": { "store_dir": world.path("store") },
        "authorization": {
            "users": [{
                "user": "trainer",
                "password": "none",
                "permissions": { "publish": publish, "subscribe": [&own] },
            }],
        },
        "no_auth_user": "trainer",
    });
    Servers::start(world, vec![configuration], &port)
}

#[test]
fn rights_on_one_run_are_enough_for_it_and_for_no_other() {
    let Some(world) = World::new() else { return };
    let servers = narrow(&world, "test");
    let mut options = servers.options(&world, false);
    let connection = quiet(&options).unwrap();
    assert!(matches!(
        connection.write(None, b"a", "1"),
        Ok(WriteReply::Accepted(_))
    ));
    assert_eq!(connection.history().unwrap().len(), 1);
    connection
        .answer(Token(1), Arc::new(|_: &[u8]| b"b".to_vec()))
        .unwrap();
    assert_eq!(connection.ask(Token(1), b"", LONG), Ok(b"b".to_vec()));
    connection.forget().unwrap();
    assert_eq!(connection.read(), Ok(None));
    options.run = RunName::new("other").unwrap();
    options.timeout = Duration::from_secs(2);
    options.request_timeout = Duration::from_secs(1);
    let text = error(quiet(&options));
    assert!(
        text.to_lowercase().contains("permissions violation"),
        "{text}"
    );
}
