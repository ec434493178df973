//! Runs of many seeds hold what `check` demands, and the same seed gives the same run.
//!
//! `PBG_TEST_SEEDS=N` simulates N seeds instead of the 300 of the test command.

use std::env;
use std::process::{Command, Output};
use std::thread;

/// Simulates `count` seeds from `first`.
fn simulate(first: u64, count: u64, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask-sim"));
    let (first, count) = (first.to_string(), count.to_string());
    command.args(["--seed", &first, "--count", &count]);
    command.args(options).output().unwrap()
}

fn succeeds(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    println!("{text}");
}

#[test]
fn nothing_that_must_hold_is_violated() {
    let seeds = env::var("PBG_TEST_SEEDS").ok();
    let seeds = seeds.map_or(300, |n| n.parse().expect("PBG_TEST_SEEDS is a number"));
    // Threads of killed processes stay until the program ends.
    let starts: Vec<u64> = (0..seeds).step_by(50).collect();
    let simulate_some = |starts: &[u64]| {
        for &start in starts {
            succeeds(&simulate(start, 50.min(seeds - start), &[]));
        }
    };
    thread::scope(|scope| {
        let (first, second) = starts.split_at(starts.len() / 2);
        scope.spawn(|| simulate_some(first));
        simulate_some(second);
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    succeeds(&simulate(1_000_000, 10, &["--twice"]));
}
