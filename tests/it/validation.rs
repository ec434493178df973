//! Validation between epochs: training ends when the MRR stops improving, and learning rates decay.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::CONFIG;

/// Returns the events of a kind.
fn of_kind(events: &str, kind: &str) -> Vec<Value> {
    let events = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| event["event"] == kind)
        .collect()
}

/// Sets more keys in the command `base`.
fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let set = more.iter().flat_map(|key| ["--set", key]);
    base.iter().copied().chain(set).collect()
}

#[test]
fn training_ends_when_validation_gets_no_better_and_the_best_is_kept() {
    let place = Workplace::with_dataset(CONFIG);
    let keys = ["num_epochs=300", "validation.edges=test"];
    let train = with(&["train", "--progress", "json"], &keys);
    let events = place
        .run(with(&train, &["validation.early_stop=3"]))
        .succeeds()
        .stdout;

    let ranks = of_kind(&events, "validated");
    let mrr = |event: &Value| event["ranks"]["mrr"].as_f64().unwrap();
    let best = ranks.iter().map(mrr).fold(0.0, f64::max);
    let first_best = ranks.iter().position(|event| mrr(event) == best).unwrap();
    assert_eq!(ranks.len(), first_best + 1 + 3);
    assert!(ranks.len() < 300);
    let end = &of_kind(&events, "stopped_early")[0];
    assert_eq!(end["best_mrr"], best);
    assert_eq!(end["best_epoch"], first_best as u64 + 1);
    assert_eq!(end["epochs"], ranks.len() as u64);

    // The kept model is the best one by the ranks of `eval`.
    let eval = with(
        &[
            "eval",
            "--json",
            "--edges",
            "test",
            "--filter",
            "train,test",
        ],
        &["checkpoint_path=model/best"],
    );
    let eval: Value = serde_json::from_str(&place.run(eval).succeeds().stdout).unwrap();
    assert_eq!(eval["filtered"]["mrr"].as_f64().unwrap(), best);

    // One option selects it, and commands that use the last model say so.
    let eval = [
        "eval",
        "--json",
        "--edges",
        "test",
        "--filter",
        "train,test",
    ];
    let of_best = place.run(eval.iter().chain(&["--best"])).succeeds();
    assert!(!of_best.stderr.contains("--best"), "{}", of_best.stderr);
    let of_best: Value = serde_json::from_str(&of_best.stdout).unwrap();
    assert_eq!(of_best["filtered"]["mrr"].as_f64().unwrap(), best);
    for model in [&["pbg.toml"][..], &["model"], &["--checkpoint", "model"]] {
        let of_last = place.run(eval.iter().chain(model)).succeeds();
        let said = &of_last.stderr;
        assert!(
            said.contains("this is the last model of ") && said.contains("`--best` uses that one"),
            "{model:?}: {said}"
        );
        let of_last: Value = serde_json::from_str(&of_last.stdout).unwrap();
        assert!(
            of_last["filtered"]["mrr"].as_f64().unwrap() < best,
            "{of_last}"
        );
        let of_best = place.run(eval.iter().chain(model).chain(&["--best"]));
        assert!(!of_best.succeeds().stderr.contains("`--best`"));
    }
    let twice = place.run(eval.iter().chain(&["model/best", "--best"]));
    twice.fails(5, &["model/best", "has kept no best model", "early_stop"]);

    // The same command trains nothing more; a command with more patience does.
    let again = place.run(with(&train, &["validation.early_stop=3"]));
    let again = again.succeeds().stdout;
    assert!(of_kind(&again, "epoch_finished").is_empty(), "{again}");
    let patient = place.run(with(&train, &["validation.early_stop=4"]));
    assert!(!of_kind(&patient.succeeds().stdout, "epoch_finished").is_empty());
}

#[test]
fn a_best_checkpoint_is_there_at_every_moment() {
    let place = Workplace::with_dataset(CONFIG);
    let keys = [
        "num_epochs=40",
        "validation.edges=test",
        "validation.early_stop=40",
        "validation.limit=10",
    ];
    let train = with(&["train", "--progress", "none"], &keys);
    let best = with(
        &["eval", "--edges", "test", "--json"],
        &["checkpoint_path=model/best"],
    );
    let manifest = || fs::read_to_string(place.path("model/best/manifest.json"));
    for round in 0..6_u64 {
        let mut run = place.start(&train);
        let before = manifest().ok();
        if !run.wait_until(|| manifest().is_ok_and(|now| before.as_ref() != Some(&now))) {
            break;
        }
        let (pause, start) = (Duration::from_millis(round * 5 % 13), Instant::now());
        while start.elapsed() < pause {
            // The manifest exists at every moment.
            manifest().unwrap();
        }
        run.kill();
        place.run(&best).succeeds();
    }
    // The resumed run removes leftovers, and keeps only one best version.
    place.run(&train).succeeds();
    let named: Value = serde_json::from_str(&manifest().unwrap()).unwrap();
    let mut expected: Vec<String> = named["files"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    expected.push("manifest.json".to_owned());
    let found = fs::read_dir(place.path("model/best")).unwrap();
    let mut found: Vec<String> = found
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_run_that_was_interrupted_lowers_learning_rates_alike() {
    let keys = [
        "checkpoint_interval=0",
        "lr=0.5",
        "validation.edges=test",
        "validation.limit=20",
        "validation.lr_patience=1",
    ];
    let train = with(&["train", "--progress", "none"], &keys);
    let decay = with(&train, &["validation.lr_decay=0.5"]);
    let factor = |place: &Workplace| {
        let ranks = of_kind(&place.read("model/metrics.jsonl"), "validated");
        ranks.last().unwrap()["lr_factor"].as_f64().unwrap()
    };

    let parts = Workplace::with_dataset(CONFIG);
    parts.run(with(&decay, &["num_epochs=4"])).succeeds();
    let lines = || parts.read("model/metrics.jsonl").lines().count();
    let before = lines();
    // The run has no end: it is killed in time.
    let mut run = parts.start(with(&decay, &["num_epochs=1000000"]));
    assert!(run.wait_until(|| lines() > before + 15), "{}", run.stderr());
    run.kill();
    let trained = of_kind(&parts.read("model/metrics.jsonl"), "epoch_finished").len();
    let epochs = format!("num_epochs={}", (trained + 1).max(12));
    let epochs = [epochs.as_str()];
    parts.run(with(&decay, &epochs)).succeeds();
    let whole = Workplace::with_dataset(CONFIG);
    whole.run(with(&decay, &epochs)).succeeds();
    assert!(factor(&whole) < 1.0);
    assert_eq!(parts.committed("model"), whole.committed("model"));
    assert_eq!(factor(&parts), factor(&whole));

    let undecayed = Workplace::with_dataset(CONFIG);
    undecayed.run(with(&train, &epochs)).succeeds();
    assert_ne!(undecayed.committed("model"), whole.committed("model"));
    // Rankings without consequences change nothing.
    let unwatched = Workplace::with_dataset(CONFIG);
    let plain = with(&["train", "--progress", "none"], &keys[..2]);
    unwatched.run(with(&plain, &epochs)).succeeds();
    assert_eq!(undecayed.committed("model"), unwatched.committed("model"));
}

#[test]
fn what_validation_lacks_is_told_before_training() {
    let place = Workplace::with_dataset(CONFIG);
    let train = ["train", "--progress", "none"];
    let nowhere = with(&train, &["validation.edges=nosuch"]);
    place.run(nowhere).fails(4, &["nosuch"]);
    let unfiltered = ["validation.edges=test", "validation.filter=[\"nosuch\"]"];
    place.run(with(&train, &unfiltered)).fails(4, &["nosuch"]);
    let unwatched = with(&train, &["validation.early_stop=3"]);
    place.run(unwatched).fails(3, &["validation.edges"]);
    let late = [
        "validation.edges=test",
        "validation.early_stop=2",
        "validation.lr_decay=0.5",
    ];
    place.run(with(&train, &late)).fails(3, &["lr_patience"]);
    assert!(!place.path("model/metrics.jsonl").exists());
}
