//! Servers that are killed, stopped, or lose their files.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use pbg_ledger::transport::{LiveTraffic, Register, WriteReply};
use rustix::process::{Pid, Signal, getpgid, kill_process};

use crate::world::{LONG, World, eventually, quiet};

#[test]
fn what_was_acknowledged_survives_kills() {
    let Some(world) = World::new() else { return };
    let others = world.connect();
    let address = world.record()["address"].clone();
    let mut after = None;
    for round in 0..3 {
        let rank_0 = world.connect();
        for count in 0..5 {
            let id = format!("{round}-{count}");
            let WriteReply::Accepted(revision) = rank_0.write(after, id.as_bytes(), &id).unwrap()
            else {
                panic!("refused")
            };
            after = Some(revision);
        }
        drop(rank_0);
        world.kill();
        // It is started again at the same address, so trainers that were connected find it.
        let rank_0 = world.connect();
        assert_eq!(world.record()["address"], address);
        let entry = rank_0.read().unwrap().unwrap();
        assert_eq!(
            (Some(entry.revision), entry.value),
            (after, format!("{round}-4").into_bytes())
        );
        eventually("others read again", || {
            others.read().is_ok_and(|entry| entry.is_some())
        });
    }
    let id_of_the_last = "2-4";
    assert_eq!(
        others.write(after, b"x", id_of_the_last).unwrap(),
        WriteReply::Refused
    );
}

/// Whether every thread of a process is stopped, because the kernel stops them one after the other.
fn stands_still(process: Pid) -> bool {
    let threads = format!("/proc/{}/task", process.as_raw_nonzero());
    fs::read_dir(threads).unwrap().all(|thread| {
        let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
        // The state follows the name, which is in parentheses.
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    })
}

#[test]
fn a_server_that_stands_still_gives_no_answer_in_time_and_goes_on_later() {
    let Some(world) = World::new() else { return };
    let mut options = world.options();
    options.request_timeout = Duration::from_secs(3);
    let register = quiet(&options).unwrap();
    let WriteReply::Accepted(first) = register.write(None, b"a", "1").unwrap() else {
        panic!("refused")
    };
    let server = world.server();
    kill_process(server, Signal::STOP).unwrap();
    eventually("all of the server stands still", || stands_still(server));
    let start = Instant::now();
    register.read().unwrap_err();
    register.write(Some(first), b"b", "2").unwrap_err();
    assert!(start.elapsed() < LONG);
    // Long enough for the client to consider the connection broken.
    thread::sleep(Duration::from_secs(12));
    register.read().unwrap_err();
    kill_process(server, Signal::CONT).unwrap();
    eventually("it reads again", || register.read().is_ok());
    // The unanswered write may have happened, or not, or may still happen, so the writer reads again.
    eventually("it writes again", || {
        let Ok(Some(entry)) = register.read() else {
            return false;
        };
        let id = format!("after {}", entry.revision);
        entry.value == b"c"
            || matches!(
                register.write(Some(entry.revision), b"c", &id),
                Ok(WriteReply::Accepted(_))
            )
    });
    assert!(register.wait(LONG), "a connection made again wakes");
}

#[test]
fn a_server_that_lost_its_files_has_an_empty_register() {
    let Some(world) = World::new() else { return };
    let others = world.connect();
    let WriteReply::Accepted(old) = others.write(None, b"a", "1").unwrap() else {
        panic!("refused")
    };
    world.kill();
    fs::remove_dir_all(world.path("meet.nats/jetstream")).unwrap();
    let rank_0 = world.connect();
    eventually("others read again", || others.read() == Ok(None));
    assert_eq!(rank_0.read().unwrap(), None);
    assert_eq!(
        others.write(Some(old), b"b", "2").unwrap(),
        WriteReply::Refused
    );
    assert!(matches!(
        others.write(None, b"b", "3").unwrap(),
        WriteReply::Accepted(_)
    ));
    assert_eq!(rank_0.read().unwrap().unwrap().value, b"b");
}

#[test]
fn nothing_answers_without_a_server() {
    let Some(world) = World::new() else { return };
    let mut options = world.options();
    options.request_timeout = Duration::from_millis(300);
    let register = quiet(&options).unwrap();
    world.kill();
    register.read().unwrap_err();
    register.write(None, b"a", "1").unwrap_err();
    register.wake();
    assert!(!register.wait(Duration::from_millis(10)));
}

#[test]
fn a_server_outlives_who_started_it_and_ends_when_told() {
    let Some(world) = World::new() else { return };
    drop(world.connect());
    let server = world.server();
    assert_eq!(
        getpgid(Some(server)).unwrap(),
        server,
        "the server leads its own process group"
    );
    let again = world.connect();
    assert_eq!(world.server(), server, "the same server");
    assert!(again.stop_server().unwrap());
    eventually("it ends", || world.servers().is_empty());
    assert!(!again.stop_server().unwrap(), "there is no server to stop");
}
