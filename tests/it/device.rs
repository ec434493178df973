//! Training on a GPU, where there may be none: what is asked for is checked, what is missing is named.

use crate::support::Workplace;
use crate::support::graph::CONFIG;

const ON_GPU: &str = "execution.device=cuda:0";

#[test]
fn training_on_a_gpu_trains_or_says_what_is_missing() {
    let place = Workplace::with_dataset(CONFIG);
    let run = place.run(["train", "--progress", "none", "--set", ON_GPU]);
    if run.code() == Some(0) {
        // There is a GPU.
        place.run(["eval", "--edges", "test"]).succeeds();
        return;
    }
    run.fails(8, &["execution.device", "cuda:0", "nothing was trained"]);
    assert!(!place.path("model/manifest.json").exists());
}

#[test]
fn check_prints_what_a_gpu_would_do_and_hold() {
    let place = Workplace::with_dataset(CONFIG);
    let report = place.run(["check", "--set", ON_GPU]);
    for part in ["training on 1 worker and cuda:0", "memory of cuda:0"] {
        assert!(report.stdout.contains(part), "{part}:\n{}", report.stdout);
    }
    if report.code() != Some(0) {
        report.fails(8, &["cuda:0"]);
    }
    let plain = place.run(["check"]).succeeds();
    assert!(!plain.stdout.contains("cuda"), "{}", plain.stdout);
}

#[test]
fn devices_that_there_cannot_be_are_configuration_errors() {
    let place = Workplace::with_dataset(CONFIG);
    for (device, words) in [
        ("gpu", "did you mean `cuda:0`?"),
        ("CUDA:1", "did you mean `cuda:1`?"),
        (
            "cuda:one",
            "must be `cpu`, or `cuda:` and the number of a GPU",
        ),
        ("cuda:+1", "execution.device"),
    ] {
        let set = format!("execution.device={device}");
        place
            .run(["train", "--set", &set])
            .fails(3, &["execution.device", words]);
    }
}
