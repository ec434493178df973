//! Trainers on a server of the user with the certificates of a private authority.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{PATIENCE, Trainer, edges, edges_by_epoch, nats_server};
use crate::support::Workplace;
use crate::support::graph::CONFIG;

/// Server, which is killed at the end of the test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Starts a server with the section of its configuration that `cluster keys` has printed.
fn server(place: &Workplace, printed: &str) -> Option<Server> {
    let program = nats_server()?;
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let start = printed.find("tls {").unwrap();
    let end = start + printed[start..].find('}').unwrap() + 1;
    let configuration = format!(
        "host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: {:?} }}\n{}\n",
        place.path("store").display().to_string(),
        &printed[start..end],
    );
    let path = place.path("nats.conf");
    fs::write(&path, configuration).unwrap();
    let log = fs::File::create(place.path("nats.log")).unwrap();
    let child = Command::new(program)
        .arg("--config")
        .arg(path)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let server = Server { child, port };
    let started = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        let log = || fs::read_to_string(place.path("nats.log")).unwrap();
        assert!(started.elapsed() < PATIENCE, "{}", log());
        thread::sleep(Duration::from_millis(20));
    }
    Some(server)
}

#[test]
fn keys_of_a_private_authority_let_trainers_in_and_nobody_else() {
    let config = CONFIG.replace("num_partitions = 3", "num_partitions = 4");
    let place = Workplace::with_dataset(&config);
    let keys = ["cluster", "keys", "keys", "--host", "127.0.0.1"];
    let printed = place.run(keys).succeeds().stdout;
    place.run(keys).fails(8, &["keys are never replaced"]);
    let wrong = ["cluster", "keys", "others", "--host", "tls://127.0.0.1"];
    place.run(wrong).fails(2, &["is not a host"]);
    let others = ["cluster", "keys", "others", "--host", "127.0.0.1"];
    place.run(others).succeeds();
    let Some(server) = server(&place, &printed) else {
        return;
    };
    let start = |rank: u32, keys: &[&str]| {
        let method = format!("distributed_init_method=tls://127.0.0.1:{}", server.port);
        let rank_text = rank.to_string();
        let mut args = vec!["train", "--rank", &rank_text, "--progress", "json"];
        let common = [
            "num_machines=2",
            &method,
            "distributed.lease=60",
            "distributed.heartbeat=0.2",
            "distributed.patience=60",
        ];
        for key in common.iter().chain(keys) {
            args.extend(["--set", key]);
        }
        Trainer::spawn(&place, rank, &mut place.command(args))
    };
    let authority = "distributed.authority=keys/authority.pem";
    let certificate = "distributed.certificate=keys/trainer.pem";
    let key = "distributed.key=keys/trainer-key.pem";
    for (keys, code, expected) in [
        (&[authority, certificate][..], 3, "belong together"),
        // The system's authorities have not signed the server's certificate.
        (&[certificate, key], 10, "authentication at"),
        (&[authority], 10, "authentication at"),
        (
            &[
                authority,
                "distributed.certificate=others/trainer.pem",
                "distributed.key=others/trainer-key.pem",
            ],
            10,
            "authentication at",
        ),
    ] {
        let mut refused = start(0, keys);
        assert_eq!(refused.ends(), Some(code), "{}", refused.errors());
        let errors = refused.errors();
        assert!(errors.contains(expected), "{errors}");
    }
    let keys = [authority, certificate, key];
    let (mut first, mut second) = (start(0, &keys), start(1, &keys));
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
    let all = edges(&place.path("train.tsv"));
    assert_eq!(edges_by_epoch(&[&first, &second]), [(0, all), (1, all)]);
    let file = "distributed_init_method=file:///tmp/nowhere";
    let unencrypted = ["train", "--rank", "0", "--set", file, "--set", authority];
    place.run(unencrypted).fails(3, &["tls://"]);
}
