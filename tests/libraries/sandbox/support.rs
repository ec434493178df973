//! Components for tests, built from a few lines of WebAssembly text.

pub(crate) mod bounds;
pub(crate) mod composed;
pub(crate) mod sampler;

use std::path::Path;
use std::sync::{Arc, Mutex};

use pbg_core::strategy::Pass;
use pbg_wasm::{Limits, LoadError, LoadedOrder, LogSink, PluginSource, Sandbox};
use serde_json::Value;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// Body that never ends.
pub(crate) const LOOP: &str = "(loop $again (br $again)) (unreachable)";

/// Functions of an order as WebAssembly text. By default, all of them are well-behaved.
pub(crate) struct Guest {
    /// Data, globals, tables, `start`, more functions.
    pub(crate) extra: String,
    pub(crate) memory: &'static str,
    pub(crate) realloc: String,
    pub(crate) describe: String,
    pub(crate) configure: String,
    /// Body of `plan`, with a local `$n` of type i64; the plan goes to the record at 512, its buckets to 4096 and
    /// beyond.
    pub(crate) plan: String,
    pub(crate) pick: String,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            extra: String::new(),
            memory: "(memory (export \"memory\") 8)",
            realloc: BUMP.to_owned(),
            describe: "(i32.const 256)".to_owned(),
            configure: "(i32.const 640)".to_owned(),
            plan: answer(&[(0, 0), (0, 1), (1, 0), (1, 1)]),
            pick: "(i32.store8 (i32.const 640) (i32.const 0)) (i32.store (i32.const 644) (i32.const 0)) (i32.const 640)".to_owned(),
        }
    }
}

/// `cabi_realloc`: allocates memory from 128 KiB on, and starts over at each call into the guest.
const BUMP: &str = "(local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at)";

impl Guest {
    /// Creates an order that answers `plan` with `buckets`.
    pub(crate) fn planning(buckets: &[(u32, u32)]) -> Self {
        Self {
            plan: answer(buckets),
            ..Self::default()
        }
    }

    /// Returns the core module, as text.
    pub(crate) fn text(&self) -> String {
        let Self {
            extra,
            memory,
            realloc,
            describe,
            configure,
            plan,
            pick,
        } = self;
        format!(
            r#"(module
  (import "pbg:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))
  {memory}
  (global $next (mut i32) (i32.const 131072))
  (data (i32.const 0) "evil")
  (data (i32.const 8) "0.1.0")
  (data (i32.const 16) "A plugin of the test suite.")
  ;; description: name, version, summary, no parameters
  (data (i32.const 256) "\00\00\00\00\04\00\00\00\08\00\00\00\05\00\00\00\10\00\00\00\1b\00\00\00\00\00\00\00\00\00\00\00")
  {extra}
  (func $realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {realloc})
  (func $describe (export "pbg:plugin/metadata@0.1.0#describe") (result i32) {describe})
  (func $configure (export "pbg:plugin/bucket-order@0.1.0#configure") (param i32 i32) (result i32) {configure})
  (func $plan (export "pbg:plugin/bucket-order@0.1.0#plan") (param i32) (result i32)
    (local $n i64) (global.set $next (i32.const 131072)) {plan})
  (func $pick (export "pbg:plugin/bucket-order@0.1.0#pick") (param i32) (result i32)
    (global.set $next (i32.const 131072)) {pick})
)"#
        )
    }

    /// Returns the component.
    pub(crate) fn component(&self) -> Vec<u8> {
        encode(&self.text(), &own_wit(), "order")
    }
}

/// Returns a body for `plan` that answers `buckets`.
pub(crate) fn answer(buckets: &[(u32, u32)]) -> String {
    let mut body = String::new();
    for (i, (lhs, rhs)) in buckets.iter().enumerate() {
        let at = 4096 + 8 * i;
        body += &format!("(i32.store (i32.const {at}) (i32.const {lhs}))");
        body += &format!("(i32.store (i32.const {}) (i32.const {rhs}))", at + 4);
    }
    body + &list(4096, buckets.len() as u64)
}

/// Returns the end of a body that answers a list of `length` buckets at `pointer`.
pub(crate) fn list(pointer: u64, length: u64) -> String {
    format!(
        "(i32.store8 (i32.const 512) (i32.const 0)) (i32.store (i32.const 516) (i32.const {pointer}))
         (i32.store (i32.const 520) (i32.const {length})) (i32.const 512)"
    )
}

/// Returns this repository's interfaces.
pub(crate) fn own_wit() -> Resolve {
    let mut resolve = Resolve::default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    resolve.push_dir(folder).expect("the interfaces are valid");
    resolve
}

/// Parses interfaces.
pub(crate) fn wit(text: &str) -> Resolve {
    let mut resolve = Resolve::default();
    resolve
        .push_str("test.wit", text)
        .expect("the test's interfaces are valid");
    resolve
}

/// Encodes a core module as a component of `world`.
pub(crate) fn encode(module: &str, resolve: &Resolve, world: &str) -> Vec<u8> {
    let mut bytes = wat::parse_str(module).unwrap_or_else(|error| panic!("{error}\n{module}"));
    let (world, _) = resolve
        .worlds
        .iter()
        .find(|(_, candidate)| candidate.name == world)
        .expect("the world exists");
    wit_component::embed_component_metadata(&mut bytes, resolve, world, StringEncoding::UTF8)
        .expect("the module takes its type");
    ComponentEncoder::default()
        .module(&bytes)
        .and_then(|mut encoder| encoder.encode())
        .unwrap_or_else(|error| panic!("{error:?}"))
}

/// Deadline of calls in [`sandbox`]: a tenth of the users' default, so that endless calls are stopped sooner.
pub(crate) const DEADLINE_MS: u64 = 100;

pub(crate) fn sandbox() -> Sandbox {
    let limits = Limits {
        deadline_ms: DEADLINE_MS,
        ..Limits::default()
    };
    Sandbox::new(limits).expect("the sandbox starts")
}

/// Returns a log sink, and the lines that it has received.
pub(crate) fn recorder() -> (LogSink, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let sink: LogSink = Arc::new(move |_, plugin, line| {
        let mut lines = kept.lock().expect("no test panics in here");
        lines.push(format!("{plugin}: {line}"));
    });
    (sink, lines)
}

pub(crate) fn load(sandbox: &Sandbox, bytes: Vec<u8>) -> Result<LoadedOrder, LoadError> {
    let source = PluginSource::Bytes {
        label: "evil.wasm".to_owned(),
        bytes,
    };
    sandbox.load_order(source, &Value::Null)
}

/// Returns an ordinary pass without any special properties.
pub(crate) fn pass(lhs: u32, rhs: u32) -> Pass {
    let (rows, columns) = (lhs as usize, rhs as usize);
    Pass {
        lhs_partitions: lhs,
        rhs_partitions: rhs,
        shared: lhs == rhs,
        edges: (0..rows * columns).map(|i| 10 + i as u64).collect(),
        lhs_bytes: vec![1 << 20; rows],
        rhs_bytes: vec![1 << 20; columns],
        buffer_partitions: 2,
        resident: Vec::new(),
        epoch: 0,
        edge_set: 0,
        edge_chunk: 0,
        seed: 7,
    }
}
