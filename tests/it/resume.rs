//! However a run ends, the same command goes on, and with one worker the result has the same bytes.

use std::time::Duration;

use crate::support::{Workplace, graph::CONFIG};

const TRAIN: [&str; 5] = ["train", "--set", "num_epochs=40", "--progress", "none"];

/// Bytes that an uninterrupted run leaves.
fn uninterrupted() -> Vec<(String, Vec<u8>)> {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    place.committed("model")
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert!(!uninterrupted().is_empty());
    assert_eq!(uninterrupted(), uninterrupted());
}

#[test]
fn ctrl_c_saves_and_the_same_command_resumes() {
    let place = Workplace::with_dataset(CONFIG);
    let mut interruptions = 0;
    for lines in [5, 100, 250, 400] {
        let mut run = place.start(TRAIN);
        let metrics = place.path("model/metrics.jsonl");
        let enough =
            || std::fs::read_to_string(&metrics).is_ok_and(|text| text.lines().count() > lines);
        if !run.wait_until(enough) {
            break;
        }
        run.signal("INT");
        let finished = run.finish();
        if !finished.stderr.contains("Ctrl-C") {
            // It reached its end before the signal arrived.
            finished.succeeds();
            break;
        }
        assert!(
            finished
                .stderr
                .contains("finishing the current bucket, then saving"),
            "{}",
            finished.stderr
        );
        assert!(
            finished.stderr.contains("same command"),
            "{}",
            finished.stderr
        );
        assert_eq!(finished.code(), Some(130));
        interruptions += 1;
    }
    assert!(interruptions > 0);
    place.run(TRAIN).succeeds();
    assert_eq!(place.committed("model"), uninterrupted());
}

#[test]
fn the_second_ctrl_c_ends_at_once() {
    // One bucket of a large batch of very many negatives: it lasts longer than the test.
    let place = Workplace::with_dataset(CONFIG);
    let slow = [
        "num_epochs=1",
        "entities.place.num_partitions=4",
        "num_uniform_negs=20000",
        "dimension=2000",
    ];
    let args = ["train", "--progress", "json"]
        .into_iter()
        .chain(slow.iter().flat_map(|s| ["--set", s]));
    let mut run = place.start(args);
    assert!(run.wait_until(|| place.path("model/metrics.jsonl").exists()));
    run.signal("INT");
    run.wait_until(|| run_said(&place, "Ctrl-C"));
    let pressed = std::time::Instant::now();
    run.signal("INT");
    let finished = run.finish();
    assert_eq!(finished.code(), Some(130));
    assert!(pressed.elapsed() < Duration::from_secs(2));
}

fn run_said(place: &Workplace, word: &str) -> bool {
    place.read("stderr.txt").contains(word)
}

#[test]
fn kill_at_random_moments_never_loses_the_checkpoint() {
    let place = Workplace::with_dataset(CONFIG);
    // Saves after every bucket, so that many of the moments are within a commit.
    let args: Vec<&str> = TRAIN
        .into_iter()
        .chain(["--set", "checkpoint_interval=0"])
        .collect();
    let mut pause = Duration::from_millis(150);
    let mut kills = 0;
    loop {
        let mut run = place.start(&args);
        let start = std::time::Instant::now();
        if !run.wait_until(|| start.elapsed() >= pause) {
            run.finish().succeeds();
            break;
        }
        run.kill();
        kills += 1;
        assert!(kills < 200, "no progress");
        // Any spread will do, and a fixed one can be repeated.
        pause = Duration::from_millis(150 + (kills * 7919) % 400 + kills * 10);
    }
    assert!(kills > 3, "only {kills} kills");
    assert_eq!(place.committed("model"), uninterrupted());
}

#[test]
fn a_finished_run_is_not_trained_again() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    let before = place.committed("model");
    place.run(TRAIN).succeeds();
    assert_eq!(place.committed("model"), before);
}
