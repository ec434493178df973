//! Training on a GPU, on machines that may lack one: the request is checked, and the error names what is missing. Also
//! the program with libtorch, which does that training.

use std::fs;
use std::path::Path;
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

/// The program with libtorch is found next to this one, and to the user the two are one.
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
            .args(["check", "--set", setting]);
        finish(&mut command)
    };
    run("num_epochs=3").succeeds();
    for setting in ["execution.precision=bf16", ON_GPU] {
        run(setting).fails(
            8,
            &[
                setting.split('=').next().unwrap(),
                "pbg-host-torch",
                "cargo xtask build",
            ],
        );
    }
}

/// The program finds libtorch from the folder where it was built, but not from everywhere.
#[test]
fn a_copy_that_finds_no_libtorch_says_where_it_is() {
    let place = Workplace::with_dataset(CONFIG);
    // Deeper in the file system than the repository's own folder of programs.
    let folder = place.path("opt/pbg/bin");
    fs::create_dir_all(&folder).unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_pbg-host"));
    for name in ["pbg-host", "pbg-host-torch"] {
        fs::copy(built.with_file_name(name), folder.join(name)).unwrap();
    }
    let mut command = Command::new(folder.join("pbg-host"));
    command
        .current_dir(place.path(""))
        .args(["check", "--set", "execution.precision=bf16"])
        .env_remove("LD_LIBRARY_PATH");
    let words = ["execution.precision", "libtorch_cpu.so", "LD_LIBRARY_PATH"];
    finish(&mut command).fails(8, &words);
}
