//! `train --metrics-listen`: figures of a run over HTTP, in the format of OpenMetrics.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::support::Workplace;
use crate::support::graph::CONFIG;

const TRAIN: [&str; 7] = [
    "train",
    "--progress",
    "plain",
    "--set",
    "num_epochs=1000000",
    "--metrics-listen",
    "127.0.0.1:0",
];

/// Returns status line, fields and body of the answer to a request.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Returns the value of a metric.
fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("{name} is missing:\n{text}"));
    value.trim().parse().unwrap()
}

#[test]
fn figures_of_a_run_grow_while_it_trains() {
    let place = Workplace::with_dataset(CONFIG);
    let mut run = place.start(TRAIN);
    let mut address = String::new();
    assert!(run.wait_until(|| {
        let said = place.read("stderr.txt");
        let found = said.split("http://").nth(1);
        let found = found.and_then(|rest| rest.split_once("/metrics"));
        address = found.unwrap_or_default().0.to_owned();
        !address.is_empty()
    }));
    let trained = |text: &str| value(text, "pbg_host_edges_trained_total");
    let mut first = String::new();
    assert!(run.wait_until(|| {
        first = get(&address, "/metrics");
        trained(&first) > 0.0 && value(&first, "pbg_host_checkpoint_version") > 0.0
    }));
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    assert!(
        first.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{first}"
    );
    assert!(first.ends_with("# EOF\n"), "{first}");
    assert_eq!(value(&first, "pbg_host_epochs"), 1e6);
    assert!(value(&first, "pbg_host_partitions_loaded_total") > 0.0);
    let (buckets, timed) = (
        "pbg_host_buckets_trained_total",
        "pbg_host_bucket_training_seconds_count",
    );
    assert!(value(&first, buckets) <= value(&get(&address, "/metrics"), timed));
    assert!(run.wait_until(|| trained(&get(&address, "/metrics")) > trained(&first)));
    let other = get(&address, "/");
    assert!(
        other.starts_with("HTTP/1.1 404") && other.contains("/metrics"),
        "{other}"
    );
    run.signal("INT");
    assert_eq!(run.finish().code(), Some(130));
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn an_address_in_use_is_refused_before_training() {
    let place = Workplace::with_dataset(CONFIG);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let train = ["train", "--metrics-listen", &address];
    place.run(train).fails(8, &["cannot listen on", &address]);
    assert!(!place.path("model/manifest.json").exists());
}

#[test]
fn addresses_that_other_machines_reach_need_permission() {
    let place = Workplace::with_dataset(CONFIG);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let train = ["train", "--progress", "none", "--metrics-listen", address];
        let refused = place.run(train);
        refused.fails(
            2,
            &["--metrics-listen", "127.0.0.1", "distributed.insecure"],
        );
        assert!(!place.path("model/manifest.json").exists());
    }
    let allowed = [&TRAIN[..3], &["--metrics-listen", "0.0.0.0:0"]].concat();
    let allowed = [&allowed[..], &["--set", "distributed.insecure=true"]].concat();
    place.run(allowed).succeeds();
}
