//! Hostile plugins: they can make a run useless, and do nothing worse.

use std::process::Command;

use crate::support::plugin::{GRID, ROW_BY_ROW, with_describe, with_plan, zeros};
use crate::support::{Workplace, finish, graph::CONFIG};

/// CPU seconds within which a fault must be over, including the start of the program. The system kills a program that
/// takes longer, which gives another exit code; the load of the machine does not matter.
const FAULT: u32 = 8;

/// Asserts that a run with `component` ends in time, names it and `reason`, and leaves the checkpoint intact.
fn check(component: &[u8], reason: &str) {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(["train", "--set", "num_epochs=1", "--progress", "none"])
        .succeeds();
    let before = place.committed("model");
    place.write("evil.wasm", component);

    let script = format!(
        "ulimit -t {FAULT}; exec {} train --plugin evil.wasm --allow-plugin-change",
        env!("CARGO_BIN_EXE_pbg-host")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(place.path(""));
    finish(&mut command).fails(6, &["evil", reason]);

    assert_eq!(place.committed("model"), before);
    place.run(["train", "--progress", "none"]).succeeds();
}

#[test]
fn a_good_component_from_a_file_trains() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("good.wasm", with_plan(ROW_BY_ROW));
    let run = place.run(["train", "--plugin", "good.wasm"]).succeeds();
    assert!(run.stderr.contains("evil 6.6.6"), "{}", run.stderr);
}

#[test]
fn an_endless_loop() {
    check(&with_plan("(loop $l (br $l)) unreachable"), "plan");
}

#[test]
fn a_trap() {
    check(&with_plan("unreachable"), "plan");
}

#[test]
fn memory_without_end() {
    check(
        &with_plan(
            "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 256)) (i32.const -1)))) unreachable",
        ),
        "plan",
    );
}

#[test]
fn endless_recursion() {
    check(&with_plan("(call 3 (local.get $pass))"), "plan");
}

#[test]
fn a_plan_that_repeats_a_bucket() {
    check(&with_plan(&zeros(GRID)), "twice");
}

#[test]
fn a_plan_that_is_too_short() {
    check(&with_plan(&zeros("(i32.const 1)")), "buckets");
}

#[test]
fn a_plan_larger_than_memory() {
    check(&with_plan(&zeros("(i32.const -1)")), "plan");
}

#[test]
fn a_description_that_never_comes() {
    check(&with_describe("(loop $l (br $l)) unreachable"), "describe");
}

#[test]
fn files_that_are_no_plugins() {
    let place = Workplace::with_dataset(CONFIG);
    let check = |name: &str, words: &[&str]| {
        place.run(["train", "--plugin", name]).fails(6, words);
        place.run(["plugin", "inspect", name]).fails(6, words);
    };
    check("insideout", &["insideout", "inside_out"]);
    place.write("empty.wasm", "");
    check("empty.wasm", &["empty.wasm"]);
    place.write("text.wasm", "not a component");
    check("text.wasm", &["text.wasm"]);
    let mut cut = with_plan(ROW_BY_ROW);
    cut.truncate(cut.len() / 2);
    place.write("cut.wasm", &cut);
    check("cut.wasm", &["cut.wasm"]);
    place.write("core.wasm", wat::parse_str("(module)").unwrap());
    check("core.wasm", &["core.wasm"]);
}

#[test]
fn plugin_list_and_inspect_show_the_standard_ones() {
    let place = Workplace::empty();
    let list = place.run(["plugin", "list"]).succeeds().stdout;
    for name in ["affinity", "inside_out", "outside_in", "random"] {
        assert!(list.contains(name), "{list}");
        let shown = place.run(["plugin", "inspect", name]).succeeds().stdout;
        assert!(
            shown.contains("bucket order") && shown.contains("0.1.0"),
            "{shown}"
        );
    }
    for name in ["hard_first", "proportional", "round_robin", "uniform"] {
        assert!(list.contains(name), "{list}");
        let shown = place.run(["plugin", "inspect", name]).succeeds().stdout;
        assert!(shown.contains("relation sampler"), "{shown}");
    }
    let json = place.run(["plugin", "list", "--json"]).succeeds().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json.as_array().unwrap().len() >= 4);
}
