//! Discovery of the server, and clients that are rejected.

use std::fs;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pbg_ledger::transport::{LiveTraffic, Register, WriteReply};
use pbg_transport::{Address, ConnectionOptions, InitMethod, RunName, Secret, connect};

use crate::world::{LONG, World, error, eventually, quiet};

#[test]
fn two_ranks_meet_at_a_file_whoever_comes_first() {
    for first in [0, 1] {
        let Some(world) = World::new() else { return };
        thread::scope(|scope| {
            let rank = |rank| {
                let mut options = world.options();
                options.rank = Some(rank);
                quiet(&options).unwrap()
            };
            let early = scope.spawn(move || rank(first));
            thread::sleep(Duration::from_millis(700));
            let late = rank(1 - first);
            let early = early.join().unwrap();
            assert!(matches!(
                early.write(None, b"a", "1"),
                Ok(WriteReply::Accepted(_))
            ));
            assert_eq!(late.read().unwrap().unwrap().value, b"a");
            late.wake();
            assert!(early.wait(LONG));
        });
        world.server();
    }
}

#[test]
fn the_file_and_the_secret_are_for_the_owner_alone() {
    let Some(world) = World::new() else { return };
    let connection = world.connect();
    let record = world.record();
    let secret = record["secret"].as_str().unwrap();
    let mode = |name: &str| fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("meet"), 0o600);
    assert_eq!(mode("meet.nats"), 0o700);
    assert_eq!(mode("meet.nats/server.conf"), 0o600);
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        if let Ok(line) = fs::read(entry.path().join("cmdline")) {
            assert!(
                !String::from_utf8_lossy(&line).contains(secret),
                "{entry:?}"
            );
        }
    }
    // The server is configured with a public key only.
    for entry in fs::read_dir(world.path("meet.nats")).unwrap().flatten() {
        if entry.path().is_file() {
            let text = fs::read(entry.path()).unwrap();
            assert!(
                !String::from_utf8_lossy(&text).contains(secret),
                "{entry:?}"
            );
        }
    }
    assert_eq!(
        connection.server().unwrap(),
        record["address"].as_str().unwrap()
    );
}

#[test]
fn stale_files_are_replaced() {
    let Some(world) = World::new() else { return };
    let good = {
        let connection = world.connect();
        connection.write(None, b"a", "1").unwrap();
        connection.stop_server().unwrap();
        world.record()
    };
    let mut other = good.clone();
    other["run"] = "another".into();
    let mut moved = good.clone();
    moved["address"] = "127.0.0.1:1".into();
    for stale in [
        good.to_string(),
        other.to_string(),
        moved.to_string(),
        "{}".into(),
        String::new(),
    ] {
        fs::write(world.path("meet"), &stale).unwrap();
        let connection = world.connect();
        // The server's files are next to the file, so the register still exists.
        assert_eq!(connection.read().unwrap().unwrap().value, b"a", "{stale}");
        assert_eq!(world.record()["run"], "test");
        connection.stop_server().unwrap();
    }
}

#[test]
fn a_server_that_nobody_could_tell_of_is_found_and_ended() {
    let Some(world) = World::new() else { return };
    world.connect().write(None, b"a", "1").unwrap();
    let (good, server) = (world.record(), world.server());
    let mut early = good.clone();
    early["address"] = "127.0.0.1:1".into();
    early["pid"] = 0.into();
    fs::write(world.path("meet"), early.to_string()).unwrap();
    let connection = world.connect();
    assert_eq!(connection.read().unwrap().unwrap().value, b"a");
    assert_eq!((world.record(), world.server()), (good, server));
    fs::write(world.path("meet"), early.to_string()).unwrap();
    assert!(connection.stop_server().unwrap());
    assert!(world.servers().is_empty());
    // Nobody listens at the placeholder port.
    let connection = world.connect();
    assert_eq!(connection.read().unwrap().unwrap().value, b"a");
    assert_ne!(connection.server().unwrap(), "127.0.0.1:1");
}

#[test]
fn what_another_run_has_left_is_ended_unless_its_trainers_are_at_work() {
    let Some(world) = World::new() else { return };
    let first = world.connect();
    let mut options = world.options();
    options.run = RunName::new("second").unwrap();
    let ended = Mutex::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !*ended.lock().unwrap() {
                first.beat(&crate::meeting::beat());
                thread::sleep(Duration::from_millis(200));
            }
        });
        let text = error(quiet(&options));
        *ended.lock().unwrap() = true;
        assert!(text.contains("used by run test"), "{text}");
    });
    let server = world.server();
    drop(first);
    let second = quiet(&options).unwrap();
    assert_ne!(world.server(), server);
    assert_eq!(second.read().unwrap(), None);
    assert_eq!(world.record()["run"], "second");
}

fn beat() -> pbg_ledger::transport::Heartbeat {
    pbg_ledger::transport::Heartbeat {
        token: pbg_ledger::Token(1),
        name: "a".into(),
        rank: None,
        state: pbg_ledger::transport::TrainerActivity::Training,
        bucket: None,
        edges_per_second: 0.0,
        waited: 0.0,
        parameters: None,
    }
}

#[test]
fn who_waits_says_for_what_and_not_for_ever() {
    let Some(world) = World::new() else { return };
    let mut options = world.options();
    options.rank = None;
    options.timeout = Duration::from_millis(700);
    let said = Mutex::new(Vec::new());
    let result = connect(&options, &|text| said.lock().unwrap().push(text.to_owned()));
    let text = error(result);
    assert!(
        text.contains("waiting for rank 0 to write") && text.contains("patience"),
        "{text}"
    );
    let said = said.into_inner().unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(world.servers().is_empty());
}

#[test]
fn who_is_not_wanted_any_more_waits_no_longer() {
    let Some(world) = World::new() else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let options = ConnectionOptions {
        rank: None,
        stop: Some(Arc::clone(&stop)),
        ..world.options()
    };
    let started = Instant::now();
    let result = connect(&options, &|_| stop.store(true, Ordering::Relaxed));
    assert!(error(result).contains("interrupted while waiting for rank 0"));
    assert!(started.elapsed() < LONG);
}

/// Returns a secret that consists of `digits`, repeated four times.
fn secret(digits: &str) -> Secret {
    Secret::new(&digits.repeat(4)).unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn tcp(host: &str) -> InitMethod {
    InitMethod::Tcp(Address {
        host: host.into(),
        port: free_port(),
    })
}

#[test]
fn two_ranks_meet_at_an_address_if_they_have_the_same_secret() {
    let Some(world) = World::new() else { return };
    let mut options = world.options();
    options.method = tcp("127.0.0.1");
    options.secret = Some(secret("0123456789abcdef"));
    let rank_0 = quiet(&options).unwrap();
    rank_0.write(None, b"a", "1").unwrap();
    options.rank = Some(1);
    assert_eq!(
        quiet(&options).unwrap().read().unwrap().unwrap().value,
        b"a"
    );
    for wrong in [None, Some(secret("fedcba9876543210"))] {
        for rank in [0, 1] {
            options.rank = Some(rank);
            options.secret = wrong.clone();
            let text = error(quiet(&options));
            assert!(
                text.contains("authentication at the server") && text.contains("same secret"),
                "{text}"
            );
            assert!(!text.contains("fedcba"), "{text}");
        }
    }
    // The connected trainer is not affected.
    assert_eq!(rank_0.read().unwrap().unwrap().value, b"a");
    assert!(rank_0.stop_server().unwrap());
}

#[test]
fn beyond_this_machine_traffic_is_encrypted_and_both_sides_are_checked() {
    let Some(world) = World::new() else { return };
    let Some(outgoing) = outgoing() else { return };
    let mut options = world.options();
    options.method = tcp(&outgoing.to_string());
    options.listen = None;
    options.secret = Some(secret("0123456789abcdef"));
    let rank_0 = quiet(&options).unwrap();
    rank_0.write(None, b"a", "1").unwrap();
    let configuration = fs::read_to_string(world.path("folder/nats/server.conf")).unwrap();
    assert!(configuration.contains("cert_file"), "{configuration}");
    options.rank = Some(1);
    assert_eq!(
        quiet(&options).unwrap().read().unwrap().unwrap().value,
        b"a"
    );
    options.secret = Some(secret("fedcba9876543210"));
    let text = error(quiet(&options));
    assert!(text.contains("authentication at the server"), "{text}");
    // The same with a file.
    let mut options = world.options();
    options.listen = None;
    let at_file = quiet(&options).unwrap();
    assert!(at_file.server().unwrap().starts_with(&outgoing.to_string()));
    assert_eq!(at_file.read().unwrap(), None);
}

/// Returns an address of this machine that other machines can reach.
fn outgoing() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback()).then_some(ip)
}

#[test]
fn nothing_goes_over_a_network_in_the_clear_unless_asked_for() {
    let options = |method: &str| {
        let found = InitMethod::parse(method, |_| None).unwrap();
        let mut options =
            pbg_transport::ConnectionOptions::new(found.method, RunName::new("a").unwrap());
        options.timeout = Duration::ZERO;
        options
    };
    let text = error(quiet(&options("nats://127.0.0.1:1,10.255.255.1:1")));
    assert!(
        text.contains("10.255.255.1:1") && text.contains("distributed.insecure = true"),
        "{text}"
    );
    let text = error(quiet(&options("tcp://10.255.255.1:1")));
    assert!(text.contains("PBG_HOST_SECRET"), "{text}");
    let text = error(quiet(&options("nats://127.0.0.1:1")));
    assert!(text.contains("waiting for 127.0.0.1:1"), "{text}");
    let mut insecure = options("nats://127.0.0.1:1");
    insecure.replicas = 2;
    assert!(error(quiet(&insecure)).contains("1 or 3"));
}

#[test]
fn servers_of_the_user_are_joined_and_left_alone() {
    let Some(world) = World::new() else { return };
    let mut options = world.options();
    options.method = tcp("127.0.0.1");
    let rank_0 = quiet(&options).unwrap();
    let found =
        InitMethod::parse(&format!("nats://{}", rank_0.server().unwrap()), |_| None).unwrap();
    options.method = found.method;
    let user = quiet(&options).unwrap();
    user.write(None, b"a", "1").unwrap();
    eventually("it is read", || rank_0.read().unwrap().is_some());
    assert!(!user.stop_server().unwrap());
    options.replicas = 3;
    options.run = RunName::new("three").unwrap();
    let text = error(quiet(&options));
    assert!(text.contains("cannot store the ledger"), "{text}");
}
