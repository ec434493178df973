//! Ctrl-C on a graph of one partition: training ends after a batch, and the same command resumes there.

use std::fs;

use serde_json::Value;

use crate::support::graph::{self, CONFIG};
use crate::support::{Running, Workplace, with};

/// Repetitions of the small graph's edges in a bucket, at least.
const TIMES: usize = 500;

/// Seconds that an epoch takes on an idle machine. Two stops fall into it, each after the first progress event, which
/// comes after a fifth of a second.
const LONG: f64 = 1.2;

/// Measurements of an epoch; the fastest was disturbed least.
const MEASURED: usize = 3;

const TRAIN: [&str; 3] = ["train", "--progress", "json"];

/// Returns the configuration with one partition.
fn whole(config: &str) -> String {
    config.replace("num_partitions = 3", "num_partitions = 1")
}

fn static_relations() -> String {
    CONFIG
        .replace("dynamic_relations = true\n", "")
        .replace(r#"name = "any""#, r#"name = "*""#)
}

/// Imports a dataset whose edges are one bucket that takes long on this machine; returns the number of edges.
fn with_long_bucket(config: &str, keys: &[&str]) -> (Workplace, u64) {
    let place = Workplace::with_edges(&whole(config));
    import(&place, TIMES);
    let epochs = format!("num_epochs={MEASURED}");
    let measured = [keys, &[&epochs, "checkpoint_path=measured"]].concat();
    place.run(with(&TRAIN, &measured)).succeeds();
    let buckets = events_of(&place, "measured", "bucket_finished");
    let seconds = buckets.iter().map(|bucket| bucket["seconds"].as_f64());
    let fastest = seconds.map(Option::unwrap).fold(f64::INFINITY, f64::min);
    let times = (LONG / fastest * TIMES as f64).ceil() as usize;
    let edges = import(&place, times);
    (place, edges)
}

/// Imports the small graph's edges, repeated `times` times; returns the number of edges.
fn import(place: &Workplace, times: usize) -> u64 {
    let edges = graph::tsv().0.repeat(times);
    let count = edges.lines().count() as u64;
    place.write("train.tsv", edges);
    place
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    count
}

/// Returns the position within a bucket at which the run stopped; null if it was not within one.
fn left(place: &Workplace) -> Value {
    let manifest: Value = serde_json::from_str(&place.read("model/manifest.json")).unwrap();
    let within = manifest["run"]["state"]["within"].clone();
    assert_eq!(manifest["format_version"] == 4, !within.is_null());
    within
}

/// Returns the events of a kind in the metrics of the run.
fn events(place: &Workplace, kind: &str) -> Vec<Value> {
    events_of(place, "model", kind)
}

fn events_of(place: &Workplace, checkpoint: &str, kind: &str) -> Vec<Value> {
    let metrics = place.path(&format!("{checkpoint}/metrics.jsonl"));
    let metrics = fs::read_to_string(metrics).unwrap_or_default();
    let events = metrics
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| event["event"] == kind)
        .collect()
}

/// Waits until some of the bucket is trained.
fn wait_for_progress(place: &Workplace, run: &mut Running) {
    let is_within = || place.read("stdout.txt").contains(r#""event":"progress""#);
    assert!(run.wait_until(is_within), "{}", run.stderr());
}

/// Presses Ctrl-C in the middle of an epoch of `edges` edges; returns how many of them are trained.
fn stop_within(place: &Workplace, keys: &[&str], edges: u64) -> u64 {
    let mut run = place.start(with(&TRAIN, keys));
    wait_for_progress(place, &mut run);
    run.signal("INT");
    let stopped = run.finish();
    assert_eq!(stopped.code(), Some(130), "{}", stopped.stderr);
    for words in [
        "stopping at the next batch at which training can resume, then saving",
        "the same command resumes",
    ] {
        assert!(stopped.stderr.contains(words), "{}", stopped.stderr);
    }
    let trained = left(place)["sums"]["stats"]["count"].as_u64();
    let trained = trained.expect("it was left within the bucket");
    assert!(0 < trained && trained < edges, "{trained} of {edges}");
    trained
}

/// Stops twice in the first epoch and once in the second, and compares the result with that of an undisturbed run.
fn goes_on_to_the_same_bytes(config: &str, keys: &[&str]) {
    let (place, edges) = with_long_bucket(config, keys);
    let undisturbed = place.copied();
    let first = stop_within(&place, keys, edges);
    assert_eq!(events(&place, "bucket_finished").len(), 0);
    let second = stop_within(&place, keys, edges);
    assert!(second >= first, "{second} edges behind {first}");
    let to = |epochs| with(&TRAIN, &[keys, &[epochs]].concat());
    place.run(to("num_epochs=1")).succeeds();
    assert!(left(&place).is_null());
    stop_within(&place, keys, edges);
    let resumed = place.run(to("num_epochs=2")).succeeds();
    let started = resumed.stdout.lines().next().unwrap_or_default();
    let started: Value = serde_json::from_str(started).unwrap();
    assert!(started["resumed"]["edges"].as_u64() > Some(0), "{started}");
    undisturbed.run(to("num_epochs=2")).succeeds();
    assert_eq!(place.committed("model"), undisturbed.committed("model"));
    // The sums are those of whole epochs.
    for kind in ["bucket_finished", "epoch_finished"] {
        let [parts, once] = [&place, &undisturbed].map(|place| events(place, kind));
        assert_eq!((parts.len(), once.len()), (2, 2), "{kind}");
        for (part, once) in parts.iter().zip(&once) {
            assert_eq!(part["stats"]["count"], edges, "{part}");
            let loss = |event: &Value| event["stats"]["loss"].as_f64().unwrap();
            assert!(
                (loss(part) - loss(once)).abs() < 1e-9 * loss(once),
                "{part}"
            );
            assert_eq!(part["eval_before"], once["eval_before"]);
        }
    }
}

#[test]
fn an_epoch_goes_on_where_it_was_left() {
    goes_on_to_the_same_bytes(CONFIG, &[]);
}

#[test]
fn a_sampler_goes_on_with_what_it_had_heard() {
    let keys = ["relation_sampler=hard_first", "batch_size=60"];
    goes_on_to_the_same_bytes(&static_relations(), &keys);
}

#[test]
fn workers_that_share_batches_go_on_together() {
    let config = CONFIG.replace("workers = 1", "workers = 2") + "all_negs = true\n";
    goes_on_to_the_same_bytes(&config, &["batch_size=500"]);
}

#[test]
fn more_or_fewer_workers_train_what_is_left() {
    let (place, edges) = with_long_bucket(CONFIG, &["workers=3"]);
    stop_within(&place, &["workers=3"], edges);
    assert_eq!(left(&place)["shares"].as_array().map(Vec::len), Some(3));
    stop_within(&place, &["workers=1"], edges);
    assert_eq!(left(&place)["shares"].as_array().map(Vec::len), Some(3));
    let end = ["workers=2", "num_epochs=2"];
    place.run(with(&TRAIN, &end)).succeeds();
    let counts = events(&place, "bucket_finished");
    let counts: Vec<_> = counts
        .iter()
        .map(|event| &event["stats"]["count"])
        .collect();
    assert_eq!(counts, [edges, edges]);
}

/// The epoch begins again: it is unknown which of the edges were trained.
#[test]
fn with_other_edges_the_epoch_begins_again() {
    let (place, edges) = with_long_bucket(CONFIG, &[]);
    stop_within(&place, &[], edges);
    let now = import(&place, 7);
    place
        .run(TRAIN)
        .fails(5, &["other edges", "--allow-data-change"]);
    assert!(!left(&place).is_null());
    place
        .run(TRAIN.iter().chain(&["--allow-data-change"]))
        .succeeds();
    let finished = events(&place, "epoch_finished");
    let counts: Vec<_> = finished
        .iter()
        .map(|event| &event["stats"]["count"])
        .collect();
    assert_eq!(counts, [now, now]);
}

/// New relations have no edges in the bucket. The sampler receives them, and trains the rest.
#[test]
fn in_a_graph_that_has_grown_the_epoch_goes_on() {
    let keys = ["relation_sampler=round_robin", "batch_size=60"];
    let (place, edges) = with_long_bucket(&static_relations(), &keys);
    stop_within(&place, &keys, edges);
    let name = graph::name(0, 0);
    place.write("more.tsv", format!("{name}\tpasses\tsomewhere\n"));
    place.run(["import", "--edges", "more=more.tsv"]).succeeds();
    place.run(with(&TRAIN, &keys)).succeeds();
    let finished = events(&place, "bucket_finished");
    let counts: Vec<_> = finished
        .iter()
        .map(|event| &event["stats"]["count"])
        .collect();
    assert_eq!(counts, [edges, edges]);
}
