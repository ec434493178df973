//! Bucket orders in the text format of WebAssembly that misbehave in ways which the SDK does not let an author do by
//! accident.

use wit_component::{
    ComponentEncoder, DecodedWasm, StringEncoding, decode, embed_component_metadata,
};

/// Name of the plugins.
pub(crate) const NAME: &str = "evil";

/// Returns a component whose `plan` has this body. `$pass` is the address of the argument; the body ends by returning
/// the address of a `result<list<bucket>, string>`.
pub(crate) fn with_plan(body: &str) -> Vec<u8> {
    component(DESCRIBE, body)
}

/// Returns a component whose `describe` has this body.
pub(crate) fn with_describe(body: &str) -> Vec<u8> {
    component(body, "unreachable")
}

/// Body of `describe`: name, version and summary, and no parameters.
pub(super) const DESCRIBE: &str = "
    (i32.store (i32.const 64) (i32.const 192)) (i32.store (i32.const 68) (global.get $name))
    (i32.store (i32.const 72) (i32.const 40)) (i32.store (i32.const 76) (i32.const 5))
    (i32.store (i32.const 80) (i32.const 48)) (i32.store (i32.const 84) (i32.const 7))
    (i32.store (i32.const 88) (i32.const 0)) (i32.store (i32.const 92) (i32.const 0))
    (i32.const 64)";

/// Row-by-row plan, which is a valid answer.
pub(crate) const ROW_BY_ROW: &str = "
    (local $lhs i32) (local $rhs i32) (local $at i32)
    (local.set $at (i32.const 8192))
    (loop $rows
        (local.set $rhs (i32.const 0))
        (loop $columns
            (i32.store (local.get $at) (local.get $lhs))
            (i32.store offset=4 (local.get $at) (local.get $rhs))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (local.set $rhs (i32.add (local.get $rhs) (i32.const 1)))
            (br_if $columns (i32.lt_u (local.get $rhs) (i32.load offset=4 (local.get $pass)))))
        (local.set $lhs (i32.add (local.get $lhs) (i32.const 1)))
        (br_if $rows (i32.lt_u (local.get $lhs) (i32.load (local.get $pass)))))
    (i32.store (i32.const 112) (i32.const 0))
    (i32.store (i32.const 116) (i32.const 8192))
    (i32.store (i32.const 120) (i32.shr_u (i32.sub (local.get $at) (i32.const 8192)) (i32.const 3)))
    (i32.const 112)";

/// Returns a body that answers `length` buckets, all of them (0, 0).
pub(crate) fn zeros(length: &str) -> String {
    format!(
        "(i32.store (i32.const 112) (i32.const 0))
         (i32.store (i32.const 116) (i32.const 8192))
         (i32.store (i32.const 120) {length})
         (i32.const 112)"
    )
}

/// Number of buckets of the grid.
pub(crate) const GRID: &str =
    "(i32.mul (i32.load (local.get $pass)) (i32.load offset=4 (local.get $pass)))";

/// Returns a relation sampler that always draws one edge of the first relation, whatever is left.
pub(crate) fn greedy_sampler() -> Vec<u8> {
    let common = common(NAME, 2, DESCRIBE);
    encode(
        "proportional",
        &format!(
            r#"(module
            (import "[export]pbg:plugin/relation-sampler@0.1.0" "[resource-new]sampler" (func $new (param i32) (result i32)))
            {common}
            (func (export "pbg:plugin/relation-sampler@0.1.0#configure") (param i32 i32) (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.const 128))
            (func (export "pbg:plugin/relation-sampler@0.1.0#[static]sampler.create")
                (param i32 i32 i32 i64) (result i32)
                (i32.store (i32.const 128) (i32.const 0))
                (i32.store (i32.const 132) (call $new (i32.const 1))) (i32.const 128))
            (func (export "pbg:plugin/relation-sampler@0.1.0#[method]sampler.next") (param i32) (result i32)
                (i32.store (i32.const 160) (i32.const 0)) (i32.store (i32.const 164) (i32.const 1))
                (i32.store (i32.const 168) (i32.const 0)) (i32.store (i32.const 172) (i32.const 1))
                (i32.const 160))
            (func (export "pbg:plugin/relation-sampler@0.1.0#[method]sampler.observe") (param i32 i32 f32)))"#
        ),
    )
}

/// Returns a negative sampler that requires counts of the side, and whose `distribution` has this body.
pub(crate) fn negatives(body: &str) -> Vec<u8> {
    let common = common(NAME, 2, DESCRIBE);
    encode(
        "degree",
        &format!(
            r#"(module
            {common}
            (func (export "pbg:plugin/negative-distribution@0.1.0#configure") (param i32 i32) (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.const 128))
            (func (export "pbg:plugin/negative-distribution@0.1.0#require") (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.store (i32.const 132) (i32.const 1)) (i32.const 128))
            (func (export "pbg:plugin/negative-distribution@0.1.0#distribution")
                (param i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i64 i64 i32 i32 i32) (result i32) {body}))"#
        ),
    )
}

/// Returns a negative selector that requires one candidate per negative and no scores, and whose `select` has this body,
/// which finds the chunk at `$chunk` and returns the address of a `result<selection, string>`.
pub(crate) fn negative_selector(body: &str) -> Vec<u8> {
    selector_of(DESCRIBE, body)
}

/// Returns a negative selector that always fails and names a fallback, which has at most 16 letters.
pub(crate) fn failing_selector(fallback: &str) -> Vec<u8> {
    let mut letters = [0; 16];
    letters[..fallback.len()].copy_from_slice(fallback.as_bytes());
    let [low, high] = [0, 8].map(|at| u64::from_le_bytes(letters[at..at + 8].try_into().unwrap()));
    let length = fallback.len();
    let describe = format!(
        "(i64.store (i32.const 208) (i64.const {low})) (i64.store (i32.const 216) (i64.const {high}))
         (i32.store (i32.const 96) (i32.const 1)) (i32.store (i32.const 100) (i32.const 208))
         (i32.store (i32.const 104) (i32.const {length})) {DESCRIBE}"
    );
    selector_of(&describe, "unreachable")
}

fn selector_of(describe: &str, body: &str) -> Vec<u8> {
    let common = common(NAME, 2, describe);
    encode(
        "hard_negatives",
        &format!(
            r#"(module
            {common}
            (func (export "pbg:plugin/negative-selection@0.1.0#configure") (param i32 i32) (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.const 128))
            (func (export "pbg:plugin/negative-selection@0.1.0#require") (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.store (i32.const 132) (i32.const 1))
                (i32.store (i32.const 136) (i32.const 0)) (i32.const 128))
            (func (export "pbg:plugin/negative-selection@0.1.0#select") (param $chunk i32) (result i32) {body}))"#
        ),
    )
}

/// Address of the chunk's candidates.
pub(crate) const CANDIDATES: &str = "(i32.load offset=48 (local.get $chunk))";
/// Number of the chunk's candidates.
pub(crate) const POOL: &str = "(i32.load offset=52 (local.get $chunk))";

/// Returns a body of `select` that answers a list: of entities, or of weights if `kind` is 1.
pub(crate) fn selection(kind: u32, address: &str, length: &str) -> String {
    format!(
        "(global.set $free (i32.const 16384))
         (i32.store (i32.const 128) (i32.const 0)) (i32.store (i32.const 132) (i32.const {kind}))
         (i32.store (i32.const 136) {address}) (i32.store (i32.const 140) {length})
         (i32.const 128)"
    )
}

/// Returns a learning rate schedule whose `factor` has this body, which finds the position in `$epoch`, `$start` and
/// `$end` and returns the address of a `result<f64, string>`.
pub(crate) fn schedule(body: &str) -> Vec<u8> {
    let common = common(NAME, 2, DESCRIBE);
    encode(
        "step_decay",
        &format!(
            r#"(module
            {common}
            (func (export "pbg:plugin/learning-rate-schedule@0.1.0#configure") (param i32 i32) (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.const 128))
            (func (export "pbg:plugin/learning-rate-schedule@0.1.0#factor")
                (param $epoch f64) (param $start f64) (param $end f64) (result i32) {body}))"#
        ),
    )
}

/// Returns a body of `factor` that returns the value of an expression.
pub(crate) fn factor(expression: &str) -> String {
    format!(
        "(i32.store (i32.const 128) (i32.const 0)) (f64.store (i32.const 136) {expression}) (i32.const 128)"
    )
}

/// Returns what every module has: memory, a `cabi_realloc` that allocates from `$free` on, and a `describe` with this
/// body, which finds version, summary and name at 40, 48 and 192.
pub(super) fn common(name: &str, pages: u32, describe: &str) -> String {
    let length = name.len();
    format!(
        r#"
            (memory (export "memory") {pages})
            (global $free (mut i32) (i32.const 16384))
            (global $name i32 (i32.const {length}))
            (data (i32.const 192) "{name}")
            (data (i32.const 40) "6.6.6")
            (data (i32.const 48) "no good")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -16)))
                (global.set $free (i32.add (local.get $at) (local.get 3)))
                (local.get $at))
            (func (export "pbg:plugin/metadata@0.1.0#describe") (result i32) {describe})"#
    )
}

/// Returns an order that logs `lines` lines whenever it plans, and plans row by row.
pub(crate) fn talkative(lines: u32) -> Vec<u8> {
    let log = r#"(import "pbg:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;
    // The logged line is its summary.
    let talk = format!(
        "(local $said i32)
         (loop $on
            (call $log (i32.const 3) (i32.const 48) (i32.const 7))
            (local.set $said (i32.add (local.get $said) (i32.const 1)))
            (br_if $on (i32.lt_u (local.get $said) (i32.const {lines}))))"
    );
    let (locals, planning) = ROW_BY_ROW.split_once(")\n").unwrap();
    component_of(log, DESCRIBE, &format!("{locals}) {talk} {planning}"))
}

fn component(describe: &str, plan: &str) -> Vec<u8> {
    component_of("", describe, plan)
}

fn component_of(imports: &str, describe: &str, plan: &str) -> Vec<u8> {
    let common = common(NAME, 2, describe);
    let text = format!(
        r#"(module
            {imports}
            {common}
            (func (export "pbg:plugin/bucket-order@0.1.0#configure") (param i32 i32) (result i32)
                (i32.store (i32.const 128) (i32.const 0)) (i32.const 128))
            (func (export "pbg:plugin/bucket-order@0.1.0#plan") (param $pass i32) (result i32) {plan})
            (func (export "pbg:plugin/bucket-order@0.1.0#pick") (param i32) (result i32) unreachable))"#
    );
    encode("inside_out", &text)
}

/// Encodes a component of the world of the standard plugin `model`, so that these components follow the interfaces as
/// they change.
pub(super) fn encode(model: &str, text: &str) -> Vec<u8> {
    let mut module = wat::parse_str(text).unwrap();
    let standard = pbg_wasm::standard_plugins()
        .iter()
        .find(|p| p.name == model)
        .unwrap();
    let DecodedWasm::Component(resolve, world) = decode(standard.bytes).unwrap() else {
        panic!("a standard plugin is not a component");
    };
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default()
        .module(&module)
        .unwrap()
        .encode()
        .unwrap()
}
