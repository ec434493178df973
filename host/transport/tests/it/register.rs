//! Tests of the register's compare-and-set.

use std::thread;

use pbg_ledger::transport::{Register, WriteReply};
use pbg_transport::{ConnectionOptions, MAX_VALUE};

use crate::world::{World, quiet};

#[test]
fn eight_writers_lose_no_increment() {
    let Some(world) = World::new() else { return };
    let first = world.connect();
    thread::scope(|scope| {
        for writer in 0..8 {
            // Half of them share a connection.
            let own = (writer % 2 == 0).then(|| world.connect());
            let first = &first;
            scope.spawn(move || {
                let register = own.as_ref().unwrap_or(first);
                for count in 0..50 {
                    increment(register, &format!("{writer}-{count}"));
                }
            });
        }
    });
    assert_eq!(first.read().unwrap().unwrap().value, b"400");
}

pub(crate) fn increment(register: &dyn Register, id: &str) {
    for attempt in 0.. {
        let entry = register.read().unwrap();
        let number = entry.as_ref().map_or(0, |entry| {
            std::str::from_utf8(&entry.value)
                .unwrap()
                .parse::<u32>()
                .unwrap()
        });
        let value = (number + 1).to_string();
        let after = entry.map(|entry| entry.revision);
        let id = format!("{id}-{attempt}");
        if let WriteReply::Accepted(_) = register.write(after, value.as_bytes(), &id).unwrap() {
            return;
        }
    }
}

#[test]
fn a_write_needs_the_newest_revision_and_an_id_of_its_own() {
    let Some(world) = World::new() else { return };
    let register = world.connect();
    assert_eq!(register.read().unwrap(), None);
    assert_eq!(
        register.write(Some(1), b"a", "1").unwrap(),
        WriteReply::Refused
    );
    let WriteReply::Accepted(one) = register.write(None, b"a", "2").unwrap() else {
        panic!("refused")
    };
    assert_eq!(
        register.write(None, b"b", "3").unwrap(),
        WriteReply::Refused
    );
    assert_eq!(
        register.write(Some(one), b"b", "2").unwrap(),
        WriteReply::Refused
    );
    assert_eq!(
        register.write(Some(one + 1), b"b", "4").unwrap(),
        WriteReply::Refused
    );
    assert_eq!(register.read().unwrap().unwrap().value, b"a");
    let WriteReply::Accepted(two) = register.write(Some(one), b"b", "5").unwrap() else {
        panic!("refused")
    };
    assert!(two > one);
    let entry = register.read().unwrap().unwrap();
    assert_eq!((entry.revision, entry.value), (two, b"b".to_vec()));
}

#[test]
fn large_values_come_back_and_larger_ones_are_not_sent() {
    let Some(world) = World::new() else { return };
    let register = world.connect();
    let mut after = None;
    for size in [200 << 10, 0, 1, MAX_VALUE] {
        let value: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
        let written = register
            .write(after, &value, &format!("of {size}"))
            .unwrap();
        let entry = register.read().unwrap().unwrap();
        assert_eq!(
            (WriteReply::Accepted(entry.revision), entry.value),
            (written, value)
        );
        after = Some(entry.revision);
    }
    let error = register
        .write(after, &vec![0; MAX_VALUE + 1], "large")
        .unwrap_err();
    assert!(error.0.contains("too large"), "{error}");
}

#[test]
fn many_revisions_need_no_more_room_than_those_that_are_kept() {
    let Some(world) = World::new() else { return };
    let register = world.connect();
    let mut after = None;
    for count in 0..pbg_transport::KEPT_REVISIONS * 2 {
        let written = register
            .write(after, &[0; 100], &count.to_string())
            .unwrap();
        let WriteReply::Accepted(revision) = written else {
            panic!("refused")
        };
        assert!(after.is_none_or(|after| revision == after + 1));
        after = Some(revision);
    }
    assert_eq!(register.read().unwrap().unwrap().revision, after.unwrap());
}

#[test]
fn what_is_forgotten_reads_as_nothing_and_its_revisions_count_no_more() {
    let Some(world) = World::new() else { return };
    let register = world.connect();
    let WriteReply::Accepted(old) = register.write(None, b"a", "1").unwrap() else {
        panic!("refused")
    };
    register.forget().unwrap();
    assert_eq!(register.read().unwrap(), None);
    let WriteReply::Accepted(new) = register.write(None, b"b", "2").unwrap() else {
        panic!("refused")
    };
    assert_ne!(new, old);
    assert_eq!(
        register.write(Some(old), b"c", "3").unwrap(),
        WriteReply::Refused
    );
}

#[test]
fn the_newest_revisions_can_be_looked_at() {
    let Some(world) = World::new() else { return };
    let register = world.connect();
    assert_eq!(register.history().unwrap(), []);
    let mut after = None;
    for count in 0..pbg_transport::KEPT_REVISIONS + 3 {
        let value = count.to_string();
        let written = register.write(after, value.as_bytes(), &value).unwrap();
        let WriteReply::Accepted(revision) = written else {
            panic!("refused")
        };
        after = Some(revision);
    }
    let history = register.history().unwrap();
    assert_eq!(history.len(), pbg_transport::KEPT_REVISIONS as usize);
    let numbers: Vec<Vec<u8>> = history.iter().map(|entry| entry.value.clone()).collect();
    assert!(
        (3..)
            .map(|count: u32| count.to_string().into_bytes())
            .zip(&numbers)
            .all(|(a, b)| a == *b)
    );
    assert_eq!(history.last().map(|entry| entry.revision), after);
}

#[test]
fn who_only_looks_makes_no_register() {
    let Some(world) = World::new() else { return };
    let first = world.connect();
    first.forget().unwrap();
    let looks = ConnectionOptions {
        rank: None,
        creates_register: false,
        ..world.options()
    };
    let looking = quiet(&looks).unwrap();
    assert_eq!(looking.read(), Ok(None));
    // There is no stream with a history.
    looking.history().unwrap_err();
    assert_eq!(first.read(), Ok(None));
    assert_eq!(looking.history(), Ok(Vec::new()));
}
