//! Fuzzing of heartbeats: those that a server delivers, and those in an object store.

use std::net::Ipv4Addr;

use pbg_core::graph::Bucket;
use pbg_fuzz::{Dice, bytes, json};
use pbg_ledger::transport::{Heartbeat, TrainerActivity};
use pbg_ledger::{MAX_NAME, Token};
use pbg_objects::{PartitionServerAccess, open_server};
use pbg_partition_server::{MemoryServer, MemoryServerOptions};
use pbg_transport::received::{DeliveredHeartbeats, PolledHeartbeats};
use serde_json::Value;

use crate::{fuzz, turn};

/// Most trainers whose heartbeats are remembered.
const MOST: usize = 512;

fn beat(dice: &mut Dice) -> Vec<u8> {
    let beat = Heartbeat {
        token: Token(dice.below(4) as u64),
        name: "node-a (0)".to_owned(),
        rank: Some(0),
        state: TrainerActivity::Training,
        bucket: Some(Bucket::new(3, 4)),
        edges_per_second: 1e6,
        waited: 0.01,
        parameters: Some(0.002),
    };
    let mut value = serde_json::to_value(beat).unwrap();
    match dice.below(3) {
        0 => {}
        1 => json(dice, &mut value),
        _ => {
            let text = serde_json::to_vec(&value).unwrap();
            return bytes(dice, &text, b"{\"token\":\"0000000000000001\"}");
        }
    }
    if dice.once_in(50) && value.is_object() {
        value["name"] = Value::from("a".repeat(dice.below(8 << 10)));
    }
    serde_json::to_vec(&value).unwrap()
}

fn check(beats: &[pbg_ledger::transport::LastHeartbeat]) {
    assert!(beats.len() <= MOST);
    for heard in beats {
        let beat = &heard.beat;
        assert!(beat.name.len() <= MAX_NAME);
        let rates = [
            Some(beat.edges_per_second),
            Some(beat.waited),
            beat.parameters,
        ];
        assert!(
            rates
                .iter()
                .flatten()
                .all(|rate| rate.is_finite() && *rate >= 0.0)
        );
    }
}

#[test]
fn delivered_heartbeats() {
    let turn = turn();
    let many = DeliveredHeartbeats::default();
    fuzz(turn, "delivered_heartbeats", 20_000, 8 << 20, |dice, _| {
        let beat = beat(dice);
        let one = DeliveredHeartbeats::default();
        one.take(&beat);
        check(&one.all());
        let text = String::from_utf8_lossy(&beat);
        many.take(
            text.replacen("0000000000000001", &format!("{:016x}", dice.bits()), 1)
                .as_bytes(),
        );
        check(&many.all());
        !one.all().is_empty()
    });
}

#[test]
fn polled_heartbeats() {
    let turn = turn();
    let server = MemoryServer::start(MemoryServerOptions {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        bucket: "bucket".to_owned(),
        memory: 1 << 20,
        key: None,
        tls: None,
    })
    .unwrap();
    let address = server.address().to_string();
    let folder = open_server(&address, "bucket", &PartitionServerAccess::default()).unwrap();
    fuzz(turn, "polled_heartbeats", 300, 64 << 20, |dice, _| {
        let mut reader = PolledHeartbeats::new(&folder);
        reader.look();
        let mut is_read = false;
        for turn in 1..4 {
            let token = Token(dice.below(3) as u64);
            let name = match dice.once_in(4) {
                true => format!("ledger/beats/{}", dice.below(100)),
                false => format!("ledger/beats/{token}"),
            };
            let content = [format!("{turn}\n").as_bytes(), &beat(dice)].concat();
            let content = match dice.once_in(3) {
                true => bytes(dice, &content, b"18446744073709551616\n"),
                false => content,
            };
            folder.put(&name, &content).unwrap();
            let beats = reader.look();
            check(&beats);
            is_read |= !beats.is_empty();
        }
        for file in folder.list_below("ledger/beats/").unwrap() {
            folder.remove(&file.name).unwrap();
        }
        is_read
    });
}
