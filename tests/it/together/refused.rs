//! Trainers that a run rejects, and that do not disturb the others.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use pbg_ledger::transport::{Register as _, WriteReply};
use pbg_transport::{ConnectionOptions, InitMethod, RunName, connect};

use super::faults::waits_for;
use super::{Meeting, PATIENCE};
use crate::support::graph::CONFIG;
use crate::support::{Workplace, with};

#[test]
fn check_refuses_what_several_trainers_cannot_train() {
    let set = [
        "distributed_init_method=file:///tmp/somewhere/else",
        "num_machines=2",
    ];
    let place = Workplace::with_dataset(CONFIG);
    place.run(with(&["check"], &set)).succeeds();
    let none = [&set[..], &["num_epochs=0"]].concat();
    let words = ["num_epochs = 0", "train on one machine"];
    place.run(with(&["check"], &none)).fails(3, &words);
    let one = CONFIG.replace("num_partitions = 3", "num_partitions = 1");
    let place = Workplace::with_dataset(&one);
    let words = ["no entity type has more than one partition"];
    place.run(with(&["check"], &set)).fails(3, &words);
}

#[test]
fn what_does_not_fit_is_refused_and_the_others_notice_nothing() {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(["train", "--set", "num_machines=2"])
        .fails(3, &["num_machines", "distributed_init_method"]);
    place
        .run(["train", "--rank", "1"])
        .fails(2, &["--rank is for distributed runs only"]);
    let method = "distributed_init_method=file:///tmp/somewhere/else";
    place
        .run(["train", "--set", method])
        .fails(2, &["needs a rank", "--rank 0"]);
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let mut idle = meeting.start(0, 2, &["num_epochs=0"]);
    assert_eq!(idle.ends(), Some(3), "{}", idle.errors());
    assert!(
        idle.errors().contains("train on one machine"),
        "{}",
        idle.errors()
    );
    let mut first = meeting.start(0, 2, &[]);
    let started = Instant::now();
    while first.of("gathering").is_empty() {
        assert!(started.elapsed() < PATIENCE, "{}", first.errors());
        thread::sleep(Duration::from_millis(20));
    }
    for (rank, keys, expected) in [
        (1, &["lr=0.2"][..], "the hash of the configuration"),
        (0, &[], "rank 0 is taken"),
        (
            1,
            &["validation.edges=test"],
            "`[validation]` is edges test",
        ),
    ] {
        let mut other = meeting.start(rank, 2, keys);
        let code = other.ends();
        let errors = other.errors();
        assert!(errors.contains(expected), "{code:?}: {errors}");
        assert_eq!(code, Some(10), "{errors}");
    }
    let mut second = meeting.start(1, 2, &[]);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
}

#[test]
fn one_with_another_dataset_is_refused() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let import =
        "import --set dataset=other --set seed=99 --edges train=train.tsv --edges test=test.tsv";
    meeting.place.run(import.split(' ')).succeeds();
    let mut first = meeting.start(0, 2, &[]);
    waits_for(&mut first, "gathering");
    let mut other = meeting.start(1, 2, &["dataset=other"]);
    assert_eq!(other.ends(), Some(10), "{}", other.errors());
    assert!(other.errors().contains("dataset"), "{}", other.errors());
    let mut second = meeting.start(1, 2, &[]);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
}

#[test]
fn rank_0_that_cannot_train_leaves_no_server() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let alone = ["train", "--progress", "none"];
    meeting.place.run(alone).succeeds();
    // The existing checkpoint belongs to another model.
    let mut first = meeting.start(0, 1, &["dimension=8"]);
    assert_eq!(first.ends(), Some(5), "{}", first.errors());
    assert!(!meeting.server_runs());
    assert_eq!(meeting.left(), [""; 0]);
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn one_with_another_secret_is_refused() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    // The port was free when it was requested; rank 0 reports an error if it is taken by then.
    let port = free_port();
    let method = format!("distributed_init_method=\"tcp://127.0.0.1:{port}\"");
    let start = |rank, digits: &str| {
        let mut command = meeting.command(rank, 2, &[&method]);
        meeting.spawn(rank, command.env("PBG_HOST_SECRET", digits.repeat(4)))
    };
    // Repeated four times: 64 letters, but no hexadecimal digits.
    let mut guessable = start(0, "the-secret-of-it");
    assert_eq!(guessable.ends(), Some(2), "{}", guessable.errors());
    let errors = guessable.errors();
    assert!(errors.contains("openssl rand -hex 32"), "{errors}");
    assert!(!errors.contains("secret-of"), "{errors}");
    let mut first = start(0, "0123456789abcdef");
    waits_for(&mut first, "gathering");
    let heard = first.events().len();
    let mut other = start(1, "fedcba9876543210");
    assert_eq!(other.ends(), Some(10), "{}", other.errors());
    let errors = other.errors();
    assert_eq!(errors.matches("error:").count(), 1, "{errors}");
    assert!(errors.contains("the same secret"), "{errors}");
    assert!(!errors.contains("fedcba"), "{errors}");
    assert_eq!(first.events().len(), heard, "{}", first.errors());
    let mut second = start(1, "0123456789abcdef");
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
}

#[test]
fn a_ledger_of_another_version_is_left_alone() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let method = InitMethod::File(meeting.place.path("rendezvous"));
    let options = ConnectionOptions {
        rank: Some(0),
        nats_server: Some(meeting.nats.clone()),
        listen: Some(Ipv4Addr::LOCALHOST.into()),
        ..ConnectionOptions::new(method, RunName::new("run").unwrap())
    };
    let connection = connect(&options, &|_| ()).unwrap();
    let record = br#"{"terms":{"protocol":99,"news":[]},"more":{}}"#;
    let written = connection.write(None, record, "test").unwrap();
    for rank in [0, 1] {
        let mut trainer = meeting.start(rank, 1, &[]);
        assert_eq!(trainer.ends(), Some(10), "{}", trainer.errors());
        let errors = trainer.errors();
        assert_eq!(errors.matches("error:").count(), 1, "{errors}");
        assert!(errors.contains("protocol version 99"), "{errors}");
    }
    let entry = connection.read().unwrap().unwrap();
    assert_eq!(WriteReply::Accepted(entry.revision), written);
    assert_eq!(entry.value, record);
    assert_eq!(meeting.left(), [""; 0]);
    connection.stop_server().unwrap();
}
