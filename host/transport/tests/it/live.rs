//! Heartbeats, wake-ups and questions.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pbg_core::graph::Bucket;
use pbg_ledger::Token;
use pbg_ledger::transport::{Heartbeat, LiveTraffic, TrainerActivity};

use crate::world::{LONG, World, eventually};

pub(crate) fn beat(token: u64, name: &str) -> Heartbeat {
    Heartbeat {
        token: Token(token),
        name: name.to_owned(),
        rank: Some(1),
        state: TrainerActivity::Training,
        bucket: Some(Bucket { lhs: 1, rhs: 2 }),
        edges_per_second: 1e5,
        waited: 0.25,
        parameters: None,
    }
}

#[test]
fn everybody_hears_everybody_including_oneself() {
    let Some(world) = World::new() else { return };
    let (a, b) = (world.connect(), world.connect());
    assert_eq!(a.heartbeats(), []);
    let beats = [beat(1, "a"), beat(2, "b")];
    a.beat(&beat(1, "older"));
    a.beat(&beats[0]);
    b.beat(&beats[1]);
    for connection in [&a, &b] {
        eventually("both are heard", || {
            let heard = connection.heartbeats();
            heard
                .iter()
                .map(|heard| heard.beat.clone())
                .eq(beats.iter().cloned())
        });
        assert!(connection.heartbeats().iter().all(|heard| heard.ago < LONG));
    }
}

#[test]
fn a_wake_up_is_not_missed_between_two_waits() {
    let Some(world) = World::new() else { return };
    let (a, b) = (world.connect(), world.connect());
    assert!(!a.wait(Duration::from_millis(10)));
    a.wake();
    for connection in [&a, &b] {
        assert!(connection.wait(LONG));
    }
    b.wake();
    assert!(b.wait(LONG), "a trainer wakes itself, too");
    // Lets the message arrive while nobody waits.
    eventually("it has arrived", || a.wait(Duration::from_millis(1)));
    assert!(!a.wait(Duration::from_millis(10)), "it counts once");
}

#[test]
fn questions_are_answered_by_whom_they_are_for() {
    let Some(world) = World::new() else { return };
    let (a, b) = (world.connect(), world.connect());
    let length = Arc::new(|question: &[u8]| question.iter().rev().copied().collect::<Vec<u8>>());
    a.answer(Token(1), length).unwrap();
    b.answer(Token(2), Arc::new(|_: &[u8]| b"b".to_vec()))
        .unwrap();
    eventually("b is there", || {
        a.ask(Token(2), b"", LONG) == Ok(b"b".to_vec())
    });
    for size in [0, 3, 512 << 10, 1 << 20] {
        let question: Vec<u8> = (0..size).map(|i| (i % 255) as u8).collect();
        let answer = b.ask(Token(1), &question, LONG).unwrap();
        assert!(answer.iter().rev().eq(&question), "{size}");
    }
    b.ask(Token(1), &vec![0; (1 << 20) + 1], LONG).unwrap_err();
    let error = b.ask(Token(3), b"", LONG).unwrap_err();
    assert!(error.0.contains("asking 0000000000000003"), "{error}");
}

#[test]
fn who_answers_for_another_token_answers_for_the_first_no_more() {
    let Some(world) = World::new() else { return };
    let (a, b) = (world.connect(), world.connect());
    a.answer(Token(1), Arc::new(|_: &[u8]| b"1".to_vec()))
        .unwrap();
    eventually("it answers", || b.ask(Token(1), b"", LONG).is_ok());
    a.answer(Token(2), Arc::new(|_: &[u8]| b"2".to_vec()))
        .unwrap();
    eventually("it answers", || {
        b.ask(Token(2), b"", LONG) == Ok(b"2".to_vec())
    });
    eventually("not for the first", || b.ask(Token(1), b"", LONG).is_err());
}

#[test]
fn slow_answers_do_not_hold_up_what_else_there_is() {
    let Some(world) = World::new() else { return };
    let (a, b) = (world.connect(), world.connect());
    let slow = Duration::from_millis(1500);
    a.answer(
        Token(1),
        Arc::new(move |_: &[u8]| {
            thread::sleep(slow);
            Vec::new()
        }),
    )
    .unwrap();
    eventually("it is there", || b.ask(Token(1), b"", LONG).is_ok());
    b.ask(Token(1), b"", Duration::from_millis(50)).unwrap_err();
    a.beat(&beat(1, "a"));
    eventually("its beat is heard", || !b.heartbeats().is_empty());
    b.ask(Token(1), b"", LONG).unwrap();
}
