use std::collections::HashMap;

use super::*;

fn parse(text: &str) -> Result<InitMethod, MethodError> {
    InitMethod::parse(text, |name| panic!("asks for {name}")).map(|found| found.method)
}

fn env(variables: &[(&str, &str)]) -> Result<ResolvedMethod, MethodError> {
    let map: HashMap<&str, &str> = variables.iter().copied().collect();
    InitMethod::parse("env://", |name| {
        map.get(name).map(|&value| value.to_owned())
    })
}

fn address(host: &str, port: u16) -> Address {
    Address {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn reads_what_users_write() {
    assert_eq!(
        parse("file:///mnt/a b/meet"),
        Ok(InitMethod::File("/mnt/a b/meet".into()))
    );
    assert_eq!(
        parse("tcp://node-0:29500"),
        Ok(InitMethod::Tcp(address("node-0", 29500)))
    );
    assert_eq!(
        parse("tcp://[fe80::1]:29500"),
        Ok(InitMethod::Tcp(address("fe80::1", 29500)))
    );
    let nats = |tls, servers: &[Address]| {
        Ok(InitMethod::Nats {
            servers: servers.to_vec(),
            tls,
        })
    };
    assert_eq!(
        parse("nats://localhost"),
        nats(false, &[address("localhost", 4222)])
    );
    assert_eq!(
        parse("tls://a.b:1,10.0.0.2,[::1]:7"),
        nats(
            true,
            &[
                address("a.b", 1),
                address("10.0.0.2", 4222),
                address("::1", 7)
            ]
        )
    );
}

#[test]
fn says_what_is_wrong_and_what_is_allowed() {
    for (text, part) in [
        ("", "known methods: file:///PATH"),
        ("gloo", "known methods: file:///PATH"),
        ("http://a:1", "tls://HOST"),
        ("file://", "from the root"),
        ("file://meet", "from the root"),
        ("file:///folder/", "from the root"),
        ("file:///", "from the root"),
        ("tcp://a", "has no port"),
        ("tcp://a:0", "1..=65535"),
        ("tcp://a:70000", "1..=65535"),
        ("tcp://:80", "\"\" is not a host"),
        ("tcp://::1", "is not a host"),
        ("tcp://[::1", "closing \"]\" is missing"),
        ("nats://a:1,,b:2", "\"\" is not a host"),
        ("nats://a:1,nats://b:2", "is not a host"),
        ("tls://me:word@a:1", "distributed.credentials"),
        ("env://a:1", "nothing may follow"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn surroundings_say_where_rank_0_is_and_who_this_is() {
    let master = [("MASTER_ADDR", "node-0"), ("MASTER_PORT", "29500")];
    let with = |more: &[(&'static str, &'static str)]| env(&[&master[..], more].concat());
    let found = |rank, world_size, port| {
        Ok(ResolvedMethod {
            method: InitMethod::Tcp(address("node-0", port)),
            rank,
            world_size,
        })
    };
    assert_eq!(with(&[]), found(None, None, 29500));
    assert_eq!(
        with(&[("RANK", "3"), ("WORLD_SIZE", "4")]),
        found(Some(3), Some(4), 29500)
    );
    assert_eq!(
        with(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")]),
        found(Some(1), Some(2), 29500)
    );
    assert_eq!(
        with(&[("RANK", "0"), ("SLURM_PROCID", "1")]),
        found(Some(0), None, 29500)
    );
    assert_eq!(
        with(&[("RANK", ""), ("JOB_COMPLETION_INDEX", "5")]),
        found(Some(5), None, 29500)
    );
    assert_eq!(
        with(&[("TORCHELASTIC_USE_AGENT_STORE", "True")]),
        found(None, None, 29501)
    );
    assert_eq!(
        with(&[("TORCHELASTIC_USE_AGENT_STORE", "False")]),
        found(None, None, 29500)
    );
    let six = env(&[("MASTER_ADDR", "fe80::1"), ("MASTER_PORT", "1")]);
    assert_eq!(six.unwrap().method, InitMethod::Tcp(address("fe80::1", 1)));
}

#[test]
fn surroundings_that_do_not_fit_are_named() {
    let master = [("MASTER_ADDR", "node-0"), ("MASTER_PORT", "29500")];
    for (variables, part) in [
        (vec![], "MASTER_ADDR is not set"),
        (vec![master[0]], "MASTER_PORT is not set"),
        (vec![master[0], ("MASTER_PORT", "x")], "1..=65535"),
        ([&master[..], &[("RANK", "-1")]].concat(), "RANK is \"-1\""),
        (
            [&master[..], &[("RANK", "4"), ("WORLD_SIZE", "4")]].concat(),
            "counted from 0",
        ),
        (
            vec![
                master[0],
                ("MASTER_PORT", "65535"),
                ("TORCHELASTIC_USE_AGENT_STORE", "True"),
            ],
            "torchrun",
        ),
    ] {
        let error = env(&variables).unwrap_err().to_string();
        assert!(error.contains(part), "{variables:?}: {error}");
    }
}

#[test]
fn addresses_are_written_as_they_are_read() {
    for text in ["a:1", "10.0.0.1:4222", "[::1]:7"] {
        assert_eq!(Address::parse(text, None).unwrap().to_string(), text);
    }
    assert!(address("127.0.0.5", 1).is_loopback() && address("::1", 1).is_loopback());
    assert!(address("localhost", 1).is_loopback() && !address("node", 1).is_loopback());
}
