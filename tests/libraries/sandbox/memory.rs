//! The host's memory while hostile plugins run.

use std::process::Command;

use crate::sandbox::support::bounds::ALONE;

/// Suites of cases, each of which runs in [`crate::sandbox::support::bounds::bounded`].
const SUITES: [&str; 8] = [
    "sandbox::composed::",
    "sandbox::hostile::",
    "sandbox::hostile_computed::",
    "sandbox::hostile_losses::",
    "sandbox::samplers::",
    "sandbox::misfits::",
    "sandbox::engine::",
    "sandbox::compiler::",
];

#[test]
fn the_host_stays_within_64_mib_of_before_in_every_hostile_case() {
    let itself = std::env::current_exe().expect("a test knows its program");
    // One test after the other, in a separate process, so that memory of other tests is not counted.
    let run = Command::new(itself)
        .args(["--test-threads=1", "--quiet"])
        .args(SUITES)
        .env(ALONE, "1")
        .output()
        .expect("the program starts again");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}");
    assert!(!said.contains("running 0 tests"), "no case was run: {said}");
}
