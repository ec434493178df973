//! Training on a GPU, on machines that may lack one: the request is checked, and the error names what is missing. Also
//! libtorch, which does that training.

use std::fs;
use std::process::Command;

use crate::support::graph::CONFIG;
use crate::support::{Workplace, finish};

const ON_GPU: &str = "execution.device=cuda:0";

#[test]
fn training_on_a_gpu_trains_or_says_what_is_missing() {
    let place = Workplace::with_dataset(CONFIG);
    let run = place.run(["train", "--progress", "none", "--set", ON_GPU]);
    if run.code() == Some(0) {
        // This machine has a GPU.
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
            "must be `cpu`, or `cuda:` followed by the number of a GPU",
        ),
        ("cuda:+1", "execution.device"),
    ] {
        let set = format!("execution.device={device}");
        place
            .run(["train", "--set", &set])
            .fails(3, &["execution.device", words]);
    }
}

#[test]
fn only_what_needs_libtorch_has_it() {
    let place = Workplace::with_dataset(CONFIG);
    let plain = place.run(["check"]).succeeds().stdout;
    assert!(!plain.contains("libtorch"), "{plain}");
    let on_gpu = ["check", "--set", ON_GPU];
    let asked = place.run(on_gpu).stdout;
    assert!(asked.contains("program and libtorch"), "{asked}");
    // A warning about the configuration is printed once.
    let odd = ["--set", "entities.unused.num_partitions=1"];
    let warned = place.run([&on_gpu[..], &odd].concat()).stderr;
    let times = warned.matches("no relation has this type").count();
    assert_eq!(times, 1, "{warned}");
}

#[test]
fn a_program_that_is_alone_says_what_is_missing() {
    let place = Workplace::with_dataset(CONFIG);
    let alone = place.path("pbg-host");
    fs::copy(env!("CARGO_BIN_EXE_pbg-host"), &alone).unwrap();
    let run = |setting: &str| {
        let mut command = Command::new(&alone);
        command
            .current_dir(place.path(""))
            .env_remove("PBG_HOST_LIBTORCH")
            .env_remove("PBG_HOST_TORCH_BRIDGES")
            .args(["check", "--set", setting]);
        finish(&mut command)
    };
    run("num_epochs=3").succeeds();
    for setting in ["execution.precision=bf16", ON_GPU] {
        run(setting).fails(
            8,
            &[
                setting.split('=').next().unwrap(),
                "needs libtorch",
                "PBG_HOST_LIBTORCH",
                "cargo xtask build",
            ],
        );
    }
}

/// A libtorch that is named is used if there is a bridge for its version.
#[test]
fn a_libtorch_of_another_version_is_refused_with_those_that_can_be_used() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("torch/version.py", "__version__ = '2.1.0'\n");
    place.write("torch/lib/libtorch_cpu.so", "");
    place.write("bridges/torch-2.9.so", "");
    place.write("bridges/torch-2.15.so", "");
    let mut command = place.command(["check", "--set", "execution.precision=bf16"]);
    command
        .env("PBG_HOST_LIBTORCH", place.path("torch/lib"))
        .env("PBG_HOST_TORCH_BRIDGES", place.path("bridges"));
    let words = ["execution.precision", "PyTorch 2.1;", "PyTorch 2.9 to 2.15"];
    finish(&mut command).fails(8, &words);
}
