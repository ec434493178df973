//! Tools that tests need and that a machine may lack. Each package of tests includes this file.

use std::env;
use std::io::Write as _;

/// Tools that `PBG_REQUIRE` may name.
const TOOLS: [&str; 8] = [
    "nats",
    "seaweedfs",
    "clang",
    "chromium",
    "python",
    "node",
    "wasm",
    "valgrind",
];

/// Reports that a test is skipped because `tool` is missing, and why.
///
/// # Panics
/// Panics if `PBG_REQUIRE`, a list of tools separated by commas, names this tool: the test has then failed.
pub(crate) fn without(tool: &str, why: &str) {
    let required = env::var("PBG_REQUIRE").unwrap_or_default();
    assert!(
        !is_required(&required, tool),
        "PBG_REQUIRE names {tool}: {why}"
    );
    // Written directly to the terminal, since the test runner hides the output of tests that pass.
    let said = writeln!(std::io::stderr(), "skipped for want of {tool}: {why}");
    said.expect("a terminal");
}

fn is_required(required: &str, tool: &str) -> bool {
    let names = required.split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    for name in names.iter().chain([&tool]) {
        assert!(
            TOOLS.contains(name),
            "there is no tool {name:?}: PBG_REQUIRE names some of {TOOLS:?}"
        );
    }
    names.contains(&tool)
}

#[test]
fn what_is_required_is_named() {
    assert!(is_required("nats, clang", "clang"));
    assert!(!is_required("nats,clang", "node"));
    assert!(!is_required("", "node"));
    std::panic::catch_unwind(|| is_required("nuts", "nats")).expect_err("there is no such tool");
}
