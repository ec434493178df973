//! Invalid graphs of losses, from a component that does not use the SDK.

use pbg_core::loss::ScheduleProgress;
use pbg_wasm::{Limits, LoadError, LoadedLoss, PluginSource, Sandbox};
use serde_json::Value;

use crate::sandbox::support::bounds::bounded;
use crate::sandbox::support::{LOOP, encode, own_wit, sandbox};

/// A node in the memory layout of the interface: its case, and three words.
type Words = (u8, [u32; 3]);

const POSITIVE: Words = (0, [0; 3]);
const NEGATIVE: Words = (1, [0; 3]);
/// The sum of node 1 over the negatives, as node 2.
const SUM: Words = (9, [0, 1, 0]);

const fn constant(bits: u32) -> Words {
    (3, [bits, 0, 0])
}

const fn negated(operand: u32) -> Words {
    (5, [0, operand, 0])
}

/// Returns a traced loss whose `build` has this body, in a memory of `pages` pages.
fn with_build(build: &str, pages: u32) -> Vec<u8> {
    traced("(i32.const 640)", build, "(unreachable)", pages)
}

/// Returns a traced loss whose functions have these bodies.
fn traced(configure: &str, build: &str, update: &str, pages: u32) -> Vec<u8> {
    let module = format!(
        r#"(module
  (memory (export "memory") {pages})
  (global $free (mut i32) (i32.const 1024))
  (data (i32.const 0) "evil")
  (data (i32.const 8) "0.1.0")
  (data (i32.const 16) "A plugin of the test suite.")
  (data (i32.const 256) "\00\00\00\00\04\00\00\00\08\00\00\00\05\00\00\00\10\00\00\00\1b\00\00\00\00\00\00\00\00\00\00\00")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $at) (local.get 3)))
    (local.get $at))
  (func (export "pbg:plugin/metadata@0.1.0#describe") (result i32) (i32.const 256))
  (func (export "pbg:plugin/loss-traced@0.1.0#configure") (param i32 i32) (result i32) {configure})
  (func (export "pbg:plugin/loss-traced@0.1.0#build") (result i32) {build})
  (func (export "pbg:plugin/loss-traced@0.1.0#update") (param i64 i64 f32 i32 i32) (result i32) {update})
)"#
    );
    encode(&module, &own_wit(), "traced-loss")
}

/// Returns a body that answers a graph of `length` nodes: `nodes`, then zeros.
fn graph(nodes: &[Words], length: u32, output: u32) -> String {
    let mut body = String::new();
    for (i, (case, words)) in nodes.iter().enumerate() {
        let at = 4096 + 16 * i;
        body += &format!("(i32.store8 (i32.const {at}) (i32.const {case}))");
        for (j, word) in words.iter().enumerate() {
            body += &format!(
                "(i32.store (i32.const {}) (i32.const {word}))",
                at + 4 * j + 4
            );
        }
    }
    body + &format!(
        "(i32.store (i32.const 512) (i32.const 0)) (i32.store (i32.const 516) (i32.const 4096))
         (i32.store (i32.const 520) (i32.const {length})) (i32.store (i32.const 524) (i32.const {output}))
         (i32.store (i32.const 528) (i32.const 0)) (i32.store (i32.const 532) (i32.const 0))
         (i32.store (i32.const 536) (i32.const 0)) (i32.const 512)"
    )
}

fn load(sandbox: &Sandbox, bytes: Vec<u8>) -> Result<LoadedLoss, LoadError> {
    let source = PluginSource::Bytes {
        label: "evil.wasm".to_owned(),
        bytes,
    };
    sandbox.open(source)?.into_loss(&Value::Null)
}

#[track_caller]
fn assert_refused(bytes: Vec<u8>, reason: &str) {
    let error = bounded(|| load(&sandbox(), bytes).err());
    let error = error.expect("no loss").to_string();
    assert!(error.starts_with("plugin evil: build: "), "{error}");
    assert!(error.contains(reason), "\"{reason}\" is not in: {error}");
}

#[test]
fn a_good_graph_is_taken() {
    let nodes = [POSITIVE, NEGATIVE, SUM];
    let loss = load(&sandbox(), with_build(&graph(&nodes, 3, 2), 8));
    assert!(matches!(loss, Ok(LoadedLoss::Traced(_))));
}

#[test]
fn nodes_use_earlier_ones_alone() {
    for (nodes, reason) in [
        (
            [POSITIVE, negated(2), POSITIVE],
            "operand 2 does not come before it",
        ),
        (
            [POSITIVE, negated(1), POSITIVE],
            "operand 1 does not come before it",
        ),
        ([POSITIVE, negated(7), POSITIVE], "there is no node 7"),
    ] {
        assert_refused(with_build(&graph(&nodes, 3, 0), 8), reason);
    }
}

#[test]
fn the_output_is_a_loss_per_positive() {
    let nodes = [POSITIVE, NEGATIVE, SUM];
    assert_refused(
        with_build(&graph(&nodes, 3, 1), 8),
        "a loss must have one value per positive",
    );
    assert_refused(with_build(&graph(&nodes, 3, 9), 8), "the output is node 9");
    assert_refused(with_build(&graph(&[], 0, 0), 8), "no nodes");
}

#[test]
fn constants_are_finite() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let nodes = [POSITIVE, constant(value.to_bits())];
        assert_refused(with_build(&graph(&nodes, 2, 0), 8), "not finite");
    }
}

#[test]
fn graphs_have_a_size() {
    assert_refused(
        with_build(&graph(&[], 20_000, 0), 8),
        "has 20000 nodes, more than the 1024",
    );
    let million = with_build(&graph(&[], 1_000_000, 0), 300);
    assert_refused(million, "more data than any valid answer");
    let limits = Limits {
        graph_nodes: 2,
        ..Limits::default()
    };
    let small = Sandbox::new(limits).expect("the sandbox starts");
    let nodes = [POSITIVE, NEGATIVE, SUM];
    let error = load(&small, with_build(&graph(&nodes, 3, 2), 8)).err();
    let error = error.expect("three nodes").to_string();
    assert!(error.contains("more than the 2"), "{error}");
}

#[test]
fn what_is_no_graph_is_refused() {
    assert_refused(
        with_build(&graph(&[(77, [0; 3])], 1, 0), 8),
        "broke the rules",
    );
    assert_refused(
        with_build(&graph(&[], 0x0fff_ffff, 0), 8),
        "broke the rules",
    );
    assert_refused(with_build(LOOP, 8), "took longer than");
    assert_refused(with_build("(unreachable)", 8), "unreachable");
}

#[test]
fn a_configuration_that_never_ends_is_stopped() {
    let bytes = traced(LOOP, "(unreachable)", "(unreachable)", 8);
    let error = bounded(|| load(&sandbox(), bytes).err()).expect("no loss");
    let error = error.to_string();
    assert!(
        error.contains("plugin evil: configure: took longer than"),
        "{error}"
    );
}

/// Returns a loss whose graph has one parameter, which `update` changes after every batch.
fn changing(update: &str) -> Vec<u8> {
    let build = graph(&[POSITIVE], 1, 0)
        .replace(
            "(i32.store (i32.const 528) (i32.const 0))",
            "(i32.store (i32.const 528) (i32.const 576))",
        )
        .replace(
            "(i32.store (i32.const 532) (i32.const 0))",
            "(i32.store (i32.const 532) (i32.const 1))",
        )
        .replace(
            "(i32.store (i32.const 536) (i32.const 0))",
            "(i32.store (i32.const 536) (i32.const 1))",
        );
    let parameter =
        "(i32.store (i32.const 576) (i32.const 0)) (i32.store (i32.const 580) (i32.const 4))
        (f32.store (i32.const 584) (f32.const 0.5))";
    traced(
        "(i32.const 640)",
        &format!("{parameter} {build}"),
        update,
        8,
    )
}

/// Returns the end of a body that answers `length` values from `pointer` on.
fn values(pointer: u32, length: u32) -> String {
    format!(
        "(i32.store (i32.const 512) (i32.const 0)) (i32.store (i32.const 516) (i32.const {pointer}))
         (i32.store (i32.const 520) (i32.const {length})) (i32.const 512)"
    )
}

#[test]
fn updates_are_checked_before_they_are_used() {
    let infinite = "(f32.store (i32.const 4096) (f32.const inf))";
    for (update, reason) in [
        (LOOP.to_owned(), "took longer than"),
        ("(unreachable)".to_owned(), "unreachable"),
        (
            "(loop $more (drop (memory.grow (i32.const 99))) (br $more)) (unreachable)".to_owned(),
            "bytes of memory, its limit is",
        ),
        (values(4096, 0), "returned 0 values for the 1 parameters"),
        (values(4096, 2), "returned 2 values for the 1 parameters"),
        (values(4096, 100_000), "more data than any valid answer"),
        (values(0xffff_fff0, 1), "broke the rules"),
        (values(4097, 1), "not aligned"),
        (
            format!("{infinite} {}", values(4096, 1)),
            "returned inf for the parameter `",
        ),
    ] {
        let loss = load(&sandbox(), changing(&update)).expect("its graph is fine");
        let LoadedLoss::Traced(loss) = loss else {
            panic!("it is a traced loss");
        };
        let mut schedule = loss.schedule.expect("it changes");
        let progress = ScheduleProgress {
            step: 1,
            edges: 10,
            mean_loss: 0.5,
        };
        let error = bounded(|| schedule.update(&progress, &[0.5])).expect_err("no new value");
        let error = error.to_string();
        assert!(error.starts_with("plugin evil 0.1.0: update: "), "{error}");
        assert!(error.contains(reason), "\"{reason}\" is not in: {error}");
    }
}
