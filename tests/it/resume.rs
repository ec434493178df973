//! However a run ends, the same command resumes it, and with one worker the result has the same bytes.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::support::faults::{Fault, inject};
use crate::support::graph::{self, CONFIG};
use crate::support::{Running, Workplace, finish};

/// Saves after every bucket, so that there are many places to resume from.
const TRAIN: [&str; 7] = [
    "train",
    "--set",
    "num_epochs=6",
    "--set",
    "checkpoint_interval=0",
    "--progress",
    "none",
];

/// [`TRAIN`] without an end, so that every interruption comes in time.
const ENDLESS: [&str; 7] = {
    let mut arguments = TRAIN;
    arguments[2] = "num_epochs=1000000";
    arguments
};

/// Lets an endless run finish its current epoch, and compares it with an undisturbed run.
fn goes_on_to_the_same_bytes(place: &Workplace) {
    goes_on_as(place, &Workplace::with_dataset(CONFIG));
}

/// Does the same, compared with a run in `whole`, which has the same edges.
fn goes_on_as(place: &Workplace, whole: &Workplace) {
    // Epochs that were reported and then lost also have lines, so there are at least as many lines as trained epochs.
    let metrics = place.read("model/metrics.jsonl");
    let finished = |line: &&str| line.contains("\"epoch_finished\"");
    let epochs = metrics.lines().filter(finished).count() + 1;
    let epochs = format!("num_epochs={epochs}");
    let last = ["train", "--set", "checkpoint_interval=0", "--set", &epochs];
    let resumed = place.run(last).succeeds();
    assert!(resumed.stderr.contains("resuming"), "{}", resumed.stderr);
    whole.run(last).succeeds();
    assert_eq!(place.committed("model"), whole.committed("model"));
}

/// Returns the tensors of an undisturbed run.
fn uninterrupted() -> &'static Vec<(String, Vec<u8>)> {
    static BYTES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let place = Workplace::with_dataset(CONFIG);
        place.run(TRAIN).succeeds();
        place.committed("model")
    })
}

/// Returns the committed version of the checkpoint; 0 before the first.
fn version(place: &Workplace) -> u64 {
    let manifest = fs::read_to_string(place.path("model/manifest.json")).unwrap_or_default();
    let manifest: Value = serde_json::from_str(&manifest).unwrap_or_default();
    manifest["version"].as_u64().unwrap_or(0)
}

/// Waits until `more` versions were committed; returns whether the program still runs.
fn wait_for_versions(place: &Workplace, run: &mut Running, more: u64) -> bool {
    let before = version(place);
    run.wait_until(|| version(place) >= before + more)
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    assert_eq!(&place.committed("model"), uninterrupted());
    let other = Workplace::with_dataset(&CONFIG.replace("seed = 7", "seed = 8"));
    other.run(TRAIN).succeeds();
    assert_ne!(&other.committed("model"), uninterrupted());
}

#[test]
fn workers_that_share_batches_give_the_same_bytes_interrupted_or_not() {
    let config = CONFIG.replace("workers = 1", "workers = 3") + "all_negs = true\n";
    let [whole, stopped] = [(); 2].map(|()| Workplace::with_dataset(&config));
    whole.run(TRAIN).succeeds();
    let mut run = stopped.start(TRAIN);
    assert!(wait_for_versions(&stopped, &mut run, 3), "{}", run.stderr());
    run.kill();
    stopped.run(TRAIN).succeeds();
    assert_eq!(stopped.committed("model"), whole.committed("model"));
}

#[test]
fn how_often_it_saves_leaves_no_trace() {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(TRAIN.iter().chain(&["--set", "checkpoint_interval=600"]))
        .succeeds();
    assert_eq!(&place.committed("model"), uninterrupted());
}

#[test]
fn ctrl_c_saves_and_the_same_command_resumes() {
    let place = Workplace::with_dataset(CONFIG);
    for more in [1, 13, 20] {
        let mut run = place.start(ENDLESS);
        assert!(
            wait_for_versions(&place, &mut run, more),
            "{}",
            run.stderr()
        );
        run.signal("INT");
        let finished = run.finish();
        for words in [
            "finishing the current bucket, then saving",
            "the same command resumes",
        ] {
            assert!(
                finished.stderr.contains(words),
                "{words}:\n{}",
                finished.stderr
            );
        }
        assert_eq!(finished.code(), Some(130), "{}", finished.stderr);
    }
    goes_on_to_the_same_bytes(&place);
}

#[test]
fn a_request_to_terminate_saves_too() {
    let place = Workplace::with_dataset(CONFIG);
    let mut run = place.start(ENDLESS);
    assert!(wait_for_versions(&place, &mut run, 1));
    run.signal("TERM");
    assert_eq!(run.finish().code(), Some(130));
    goes_on_to_the_same_bytes(&place);
}

/// Imports a dataset of `num_partitions` partitions with many edges in each bucket.
fn with_long_buckets(num_partitions: u32) -> Workplace {
    let partitions = format!("num_partitions = {num_partitions}");
    let place = Workplace::with_edges(&CONFIG.replace("num_partitions = 3", &partitions));
    place.write("train.tsv", graph::tsv().0.repeat(300));
    place
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    place
}

/// Starts a run with long buckets that saves only when asked; returns the folder with its `stderr.txt`.
fn of_long_buckets(num_partitions: u32, more: &[&str]) -> (Workplace, Running) {
    let place = with_long_buckets(num_partitions);
    let train = ["train", "--progress", "plain"];
    let rare = ["--set", "checkpoint_interval=1000000"];
    let run = place.start(train.iter().chain(&rare).chain(more));
    (place, run)
}

/// Presses Ctrl-C twice, the second time after the first was handled.
fn press_twice(place: &Workplace, run: &mut Running) {
    run.signal("INT");
    assert!(run.wait_until(|| {
        place
            .read("stderr.txt")
            .contains("press Ctrl-C again to wait")
    }));
    run.signal("INT");
}

#[test]
fn the_second_ctrl_c_waits_for_a_long_bucket_no_longer_than_it_says_and_the_third_not_at_all() {
    // One bucket with very many negatives: it lasts longer than the test. Because `bf16` rounds after a bucket,
    // training cannot stop within it.
    let slow = [
        "--set",
        "num_uniform_negs=5000",
        "--set",
        "dimension=500",
        "--set",
        "storage=bf16",
    ];
    for pressed in [2, 3] {
        let (place, mut run) = of_long_buckets(1, &slow);
        assert!(run.wait_until(|| place.read("stderr.txt").contains("training ")));
        press_twice(&place, &mut run);
        assert!(run.wait_until(|| place.read("stderr.txt").contains("at most 2 seconds")));
        if pressed == 3 {
            run.signal("INT");
        }
        let finished = run.finish();
        assert_eq!(finished.code(), Some(130));
        let stderr = finished.stderr;
        assert!(!stderr.contains("everything trained so far"), "{stderr}");
        assert!(stderr.contains("stopped within a bucket"), "{stderr}");
        // The current bucket did not finish.
        let metrics = place.read("model/metrics.jsonl");
        assert!(!metrics.contains("\"bucket_finished\""), "{metrics}");
    }
}

#[test]
fn two_ctrl_c_lose_no_bucket_that_ends_soon() {
    // Buckets that last longer than it takes to press twice, and much shorter than the announced wait, on a busy machine
    // too.
    let long = ["--set", "dimension=100", "--set", "num_uniform_negs=200"];
    let endless = ["--set", "num_epochs=1000000"];
    let (place, mut run) = of_long_buckets(4, &[&long[..], &endless].concat());
    assert!(run.wait_until(|| events(&place, "bucket_finished").len() > 2));
    press_twice(&place, &mut run);
    let finished = run.finish();
    assert_eq!(finished.code(), Some(130));
    let stderr = finished.stderr;
    assert!(stderr.contains("the same command resumes"), "{stderr}");
    let finished = events(&place, "bucket_finished");
    let trained = finished.len() as u64;
    // One more epoch than was begun, so that something is left even if its last bucket was trained.
    let epochs = finished[finished.len() - 1]["epoch"].as_u64().unwrap() + 2;
    let epochs = format!("num_epochs={epochs}");
    let train = ["train", "--set", &epochs, "--progress", "json"];
    let resumed = place.run([&train[..], &long].concat());
    let first = resumed.stdout.lines().next().unwrap_or_default().to_owned();
    let first: Value = serde_json::from_str(&first).unwrap();
    let (epoch, done) = (&first["resumed"]["epoch"], &first["resumed"]["done"]);
    let buckets = 16 * epoch.as_u64().unwrap() + done.as_u64().unwrap();
    assert_eq!(buckets, trained, "{first}");
}

#[test]
fn kill_at_any_moment_never_loses_the_checkpoint() {
    let place = Workplace::with_dataset(CONFIG);
    for round in 0..12_u64 {
        let mut run = place.start(ENDLESS);
        // Every run makes progress, and the moments spread over the work of a bucket and its commit.
        assert!(wait_for_versions(&place, &mut run, 1), "{}", run.stderr());
        std::thread::sleep(Duration::from_millis(round * 37 % 101));
        run.kill();
        place.run(["check"]).succeeds();
    }
    goes_on_to_the_same_bytes(&place);
}

/// Returns the events of a kind in the metrics of the run.
fn events(place: &Workplace, kind: &str) -> Vec<Value> {
    let metrics = fs::read_to_string(place.path("model/metrics.jsonl")).unwrap_or_default();
    let complete = metrics.rfind('\n').map_or("", |end| &metrics[..end]);
    let events = complete
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    events
        .filter(|event: &Value| event["event"] == kind)
        .collect()
}

#[test]
fn without_an_interval_it_saves_within_an_epoch() {
    // A bucket takes long enough for a commit.
    let start = with_long_buckets(3);
    for hard in [true, false] {
        let place = start.copied();
        // The run has no end, so it is certainly interrupted.
        let train = ["train", "--set", "num_epochs=1000000", "--progress", "none"];
        let mut run = place.start(train);
        let number = |kind| events(&place, kind).len();
        // It saves at the end of every epoch anyway.
        let saved_within = || number("committed") > number("epoch_finished") + 1;
        assert!(run.wait_until(saved_within), "{}", run.stderr());
        if hard {
            run.kill();
        } else {
            // The second signal ends the run at once, if it still runs.
            run.signal("INT");
            run.signal("INT");
            assert_eq!(run.finish().code(), Some(130));
        }
        goes_on_as(&place, &start.copied());
    }
}

#[test]
fn commits_are_in_the_metrics_and_in_the_accounts_of_time() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    let commits = events(&place, "committed");
    // One commit after each of nine buckets in six epochs.
    let versions: Vec<u64> = commits
        .iter()
        .map(|c| c["version"].as_u64().unwrap())
        .collect();
    assert_eq!(versions, (1..=54).collect::<Vec<_>>());
    assert_eq!(version(&place), 54);
    let stood: f64 = commits.iter().map(|c| c["seconds"].as_f64().unwrap()).sum();
    assert!(
        stood > 0.0
            && commits
                .iter()
                .all(|c| c["writing_seconds"].as_f64().unwrap() > 0.0)
    );
    let counted: f64 = events(&place, "epoch_finished")
        .iter()
        .map(|epoch| {
            let waited = epoch["io"]["commit_seconds"].as_f64().unwrap();
            assert!(waited > 0.0 && waited <= epoch["seconds"].as_f64().unwrap());
            waited
        })
        .sum();
    // Except for the commit after the last epoch.
    assert!(counted <= stood + 1e-6, "{counted} of {stood}");
    place
        .run(["report", "model", "--html", "run.html"])
        .succeeds();
    assert!(place.read("run.html").contains("commits"));
}

#[test]
fn kill_before_the_first_commit_leaves_nothing_in_the_way() {
    let place = Workplace::with_dataset(CONFIG);
    for operation in 1..4 {
        let mut command = place.command(TRAIN);
        let folder = place.path("model");
        inject(
            &mut command,
            &folder,
            &place.path("log"),
            Fault::Kill,
            operation,
        );
        assert_eq!(finish(&mut command).signal(), Some(9));
        assert_eq!(version(&place), 0);
    }
    place.run(TRAIN).succeeds();
    assert_eq!(&place.committed("model"), uninterrupted());
}

#[test]
fn a_finished_run_trains_on_when_it_gets_more_epochs() {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(TRAIN.iter().chain(&["--set", "num_epochs=2"]))
        .succeeds();
    let two = place.committed("model");
    place
        .run(TRAIN.iter().chain(&["--set", "num_epochs=2"]))
        .succeeds();
    assert_eq!(place.committed("model"), two, "nothing is trained again");
    place.run(TRAIN).succeeds();
    assert_eq!(&place.committed("model"), uninterrupted());
}

#[test]
fn an_epoch_that_was_to_be_kept_is_kept_by_the_next_run() {
    let place = Workplace::with_dataset(CONFIG);
    let keeping = ["--set", "checkpoint_preservation_interval=2"];
    let epochs = |n: &'static str| TRAIN.into_iter().chain(keeping).chain(["--set", n]);
    place.run(epochs("num_epochs=2")).succeeds();
    let kept = place.committed("model/epoch_2");
    // As after a power cut between the commit and the copy.
    fs::remove_dir_all(place.path("model/epoch_2")).unwrap();
    place.run(epochs("num_epochs=3")).succeeds();
    assert_eq!(place.committed("model/epoch_2"), kept);
}
