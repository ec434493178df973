//! Trainers that agree through an object store.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use pbg_files::remote::{self, Patience, RemoteFolder};
use pbg_ledger::Token;
use pbg_ledger::transport::{LiveTraffic, Register, WriteReply};
use pbg_transport::{Connection, ConnectionOptions, MAX_VALUE, connect_by_objects};

use crate::live::beat;
use crate::object_store::TestStore;
use crate::register::increment;
use crate::unreliable_store::UnreliableStore;
use crate::world::{LONG, World, eventually, quiet};

/// A process opens URLs in one way, so there is one test, with a folder for each of its parts.
#[test]
fn trainers_agree_through_an_object_store() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let cache = tempfile::tempdir().unwrap();
    let unreliable = UnreliableStore::new(cache.path(), store.environment());
    let troubles = unreliable.troubles.clone();
    remote::register_stores(unreliable);

    writers_lose_no_increment();
    a_write_needs_the_newest_revision();
    a_damaged_record_is_an_empty_register();
    heartbeats_are_heard_and_changes_wake();
    a_server_may_carry_the_heartbeats();
    troubles.loses_answers.store(true, Ordering::Relaxed);
    an_answer_that_was_lost_is_a_refusal();
    troubles.loses_answers.store(false, Ordering::Relaxed);
    troubles.ignores_conditions.store(true, Ordering::Relaxed);
    let error = connect_by_objects("s3://tests/lax", true)
        .err()
        .unwrap()
        .to_string();
    let expected = "it creates an object that exists already, so trainers cannot agree through it";
    assert!(error.contains(expected), "{error}");
    troubles.ignores_conditions.store(false, Ordering::Relaxed);
    for name in ["counter", "lax"] {
        let left = folder(name).list_below("ledger/").unwrap();
        let left: Vec<_> = left.iter().map(|file| &file.name).collect();
        assert!(!left.iter().any(|name| name.contains("probe")), "{left:?}");
    }
}

fn open(name: &str) -> Connection {
    connect_by_objects(&format!("s3://tests/{name}"), true).unwrap()
}

fn folder(name: &str) -> std::sync::Arc<dyn RemoteFolder> {
    remote::open_folder(&format!("s3://tests/{name}"), Patience::Long).unwrap()
}

fn writers_lose_no_increment() {
    let first = open("counter");
    thread::scope(|scope| {
        for writer in 0..8 {
            // Half of them share a connection.
            let own = (writer % 2 == 0).then(|| open("counter"));
            let first = &first;
            scope.spawn(move || {
                let register = own.as_ref().unwrap_or(first);
                for count in 0..10 {
                    increment(register, &format!("{writer}-{count}"));
                }
            });
        }
    });
    assert_eq!(first.read().unwrap().unwrap().value, b"80");
}

fn a_write_needs_the_newest_revision() {
    let register = open("revisions");
    assert_eq!(register.read().unwrap(), None);
    let refused = |after, value: &[u8]| {
        assert_eq!(
            register.write(after, value, "").unwrap(),
            WriteReply::Refused
        );
    };
    refused(Some(1), b"a");
    let WriteReply::Accepted(one) = register.write(None, b"a", "").unwrap() else {
        panic!("refused")
    };
    refused(None, b"b");
    refused(Some(one + 1), b"b");
    let large: Vec<u8> = (0..MAX_VALUE).map(|i| (i * 31 % 251) as u8).collect();
    let WriteReply::Accepted(two) = register.write(Some(one), &large, "").unwrap() else {
        panic!("refused")
    };
    assert!(two > one);
    refused(Some(one), b"b");
    let other = open("revisions");
    let entry = other.read().unwrap().unwrap();
    assert_eq!((entry.revision, &entry.value), (two, &large));
    assert_eq!(other.history().unwrap(), [entry]);
    register
        .write(Some(two), &vec![0; MAX_VALUE + 1], "")
        .unwrap_err();
    // After `cluster forget`, revisions of the old register are refused.
    other.forget().unwrap();
    refused(Some(two), b"b");
    assert_eq!(register.read().unwrap(), None);
    let WriteReply::Accepted(again) = other.write(None, b"c", "").unwrap() else {
        panic!("refused")
    };
    assert!(again != one && again != two);
}

fn a_damaged_record_is_an_empty_register() {
    let register = open("damaged");
    let WriteReply::Accepted(_) = register.write(None, b"value", "").unwrap() else {
        panic!("refused")
    };
    let folder = folder("damaged");
    let intact = folder.read("ledger/record", 1 << 20).unwrap().bytes;
    let end = intact.len() - 1;
    for at in 0..=end {
        let mut damaged = intact.clone();
        damaged[at] ^= 1;
        folder.put("ledger/record", &damaged).unwrap();
        assert_eq!(register.read().unwrap(), None, "byte {at}");
    }
    folder.put("ledger/record", &vec![b'x'; 2 << 20]).unwrap();
    assert_eq!(register.read().unwrap(), None);
    folder.put("ledger/record", &intact[..end]).unwrap();
    assert_eq!(register.read().unwrap(), None);
    // The next write replaces it.
    let WriteReply::Accepted(_) = register.write(None, b"new", "").unwrap() else {
        panic!("refused")
    };
    assert_eq!(open("damaged").read().unwrap().unwrap().value, b"new");
}

fn heartbeats_are_heard_and_changes_wake() {
    let folder = folder("beats");
    // What a trainer that died has left, and what nobody wrote.
    let dead = serde_json::to_vec(&beat(9, "dead")).unwrap();
    let dead = |number: u64| [format!("{number}\n").as_bytes(), &dead].concat();
    let name = "ledger/beats/0000000000000009";
    folder.put(name, &dead(7)).unwrap();
    let (a, b) = (open("beats"), open("beats"));
    assert!(a.server().is_none() && !a.carries_questions());
    let beats = [beat(1, "a"), beat(2, "b")];
    for connection in [&a, &b] {
        eventually("both are heard", || {
            a.beat(&beats[0]);
            b.beat(&beats[1]);
            let heard = connection.heartbeats();
            let heard = heard.iter().map(|heard| heard.beat.clone());
            heard.eq(beats.iter().cloned())
        });
    }
    // It lives after all.
    folder.put(name, &dead(8)).unwrap();
    eventually("it is heard", || b.heartbeats().len() == 3);
    // An older heartbeat, and one that is cut off, say nothing.
    for content in [dead(8), dead(3), dead(9)[..20].to_vec()] {
        let heard = b.heartbeats()[2].ago;
        folder.put(name, &content).unwrap();
        thread::sleep(Duration::from_millis(2500));
        assert!(b.heartbeats()[2].ago > heard + Duration::from_secs(1));
    }
    folder.put("ledger/beats/x", &[0; 100_000]).unwrap();
    while b.wait(Duration::from_millis(1500)) {}
    let WriteReply::Accepted(_) = a.write(None, b"value", "").unwrap() else {
        panic!("refused")
    };
    assert!(b.wait(LONG), "the other one sees the change");
    assert_eq!(b.heartbeats().len(), 3);
    a.ask(Token(2), b"?", LONG).unwrap_err();
    // A trainer that leaves takes its heartbeat along.
    drop(a);
    let names = folder.list_below("ledger/beats/").unwrap();
    let names: Vec<_> = names.iter().map(|file| &file.name).collect();
    assert!(
        !names.iter().any(|name| name.ends_with("0000000000000001")),
        "{names:?}"
    );
}

fn a_server_may_carry_the_heartbeats() {
    let Some(world) = World::new() else { return };
    let options = ConnectionOptions {
        ledger_url: Some("s3://tests/both".to_owned()),
        ..world.options()
    };
    let (a, b) = (quiet(&options).unwrap(), quiet(&options).unwrap());
    assert!(a.server().is_some() && a.carries_questions());
    assert_eq!(a.ledger_url(), Some("s3://tests/both"));
    increment(&a, "1");
    increment(&b, "2");
    assert_eq!(a.read().unwrap().unwrap().value, b"2");
    a.beat(&beat(1, "a"));
    eventually("it is heard", || b.heartbeats().len() == 1);
    assert_eq!(folder("both").list_below("ledger/").unwrap().len(), 1);
    // Nothing that must survive is on the server.
    let other = world.connect();
    assert_eq!(other.read().unwrap(), None);
}

fn an_answer_that_was_lost_is_a_refusal() {
    let register = open("lost");
    assert_eq!(register.write(None, b"a", "").unwrap(), WriteReply::Refused);
    // The ledger reads again and finds its own transaction.
    let entry = register.read().unwrap().unwrap();
    assert_eq!(entry.value, b"a");
    let after = Some(entry.revision);
    assert_eq!(
        register.write(after, b"b", "").unwrap(),
        WriteReply::Refused
    );
    assert_eq!(register.read().unwrap().unwrap().value, b"b");
}
