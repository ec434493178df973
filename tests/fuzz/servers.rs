//! Fuzzing of the file by which trainers find rank 0's server, and of the ledger's object in a store.

use std::fs;
use std::net::Ipv4Addr;

use pbg_fuzz::{bytes, json};
use pbg_ledger::MAX_COUNT;
use pbg_objects::{PartitionServerAccess, open_server};
use pbg_partition_server::{MemoryServer, MemoryServerOptions};
use pbg_transport::received;
use serde_json::json as document;

use crate::{fuzz, ledgers, turn};

#[test]
fn server_files() {
    let turn = turn();
    let secret = "0123456789abcdef".repeat(4);
    fuzz(turn, "server_files", 500, 8 << 20, |dice, place| {
        let mut record = document!({
            "run": "run", "address": "10.0.0.1:4222", "secret": secret, "pid": 7, "host": "node",
            "started": 1_700_000_000,
        });
        let mut text = serde_json::to_vec(&record).unwrap();
        match dice.below(3) {
            0 => {}
            1 => {
                json(dice, &mut record);
                text = serde_json::to_vec(&record).unwrap();
            }
            _ => text = bytes(dice, &text, b"{\"secret\": null}"),
        }
        let path = place.join("meet");
        fs::write(&path, text).unwrap();
        match received::server_file(&path) {
            Ok(found) => found.is_some(),
            Err(error) => {
                let text = error.to_string();
                assert!(!text.contains(&secret[..16]), "{text}");
                text.is_empty()
            }
        }
    });
}

#[test]
fn ledger_objects() {
    let turn = turn();
    let server = MemoryServer::start(MemoryServerOptions {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        bucket: "bucket".to_owned(),
        memory: 8 << 20,
        key: None,
        tls: None,
    })
    .unwrap();
    let address = server.address().to_string();
    let folder = open_server(&address, "bucket", &PartitionServerAccess::default()).unwrap();
    fuzz(turn, "ledger_objects", 200, 64 << 20, |dice, _| {
        let value = serde_json::to_vec(&ledgers::record(dice)).unwrap();
        let revision = match dice.once_in(8) {
            true => dice.bits(),
            false => dice.bits() >> 4,
        };
        let head = format!("pbg-host-ledger-1 {revision} {}", value.len());
        let mut sum = crc32fast::Hasher::new();
        sum.update(head.as_bytes());
        sum.update(&value);
        let head = format!("{head} {:08x}\n", sum.finalize());
        let valid = [head.as_bytes(), &value].concat();
        let content = match dice.once_in(8) {
            true => valid.clone(),
            false => bytes(dice, &valid, &valid),
        };
        folder.put("ledger/record", &content).unwrap();
        match received::object(&folder).unwrap() {
            // Of what was not written, nothing is read.
            Some(entry) => entry.value == value,
            None => {
                assert!(content != valid || revision > MAX_COUNT);
                false
            }
        }
    });
}
