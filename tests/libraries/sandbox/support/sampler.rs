//! Relation samplers, built from a few lines of WebAssembly text.

use super::{encode, own_wit};

/// Functions of a sampler as WebAssembly text. By default, it draws relation 0 (3 edges), then relation 1 (2 edges), in
/// batches of 2.
pub(crate) struct Guest {
    /// Tables, `start`, more functions.
    pub(crate) extra: String,
    pub(crate) realloc: String,
    pub(crate) describe: String,
    pub(crate) configure: String,
    pub(crate) create: String,
    pub(crate) next: String,
    pub(crate) observe: String,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            extra: String::new(),
            realloc: "(local $at i32)
                (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
                (global.set $free (i32.add (local.get $at) (local.get 3)))
                (local.get $at)"
                .to_owned(),
            describe: "(i32.const 256)".to_owned(),
            configure: "(i32.const 640)".to_owned(),
            create: "(i32.store8 (i32.const 512) (i32.const 0))
                (i32.store (i32.const 516) (call $new (i32.const 1))) (i32.const 512)"
                .to_owned(),
            next: format!(
                "(global.set $turn (i32.add (global.get $turn) (i32.const 1)))
                (if (i32.eq (global.get $turn) (i32.const 1)) (then {} (return)))
                (if (i32.eq (global.get $turn) (i32.const 2)) (then {} (return)))
                (if (i32.eq (global.get $turn) (i32.const 3)) (then {} (return)))
                (i64.store (i32.const 512) (i64.const 0)) (i32.const 512)",
                draw(0, 2),
                draw(0, 1),
                draw(1, 2)
            ),
            observe: String::new(),
        }
    }
}

impl Guest {
    /// Returns the component.
    pub(crate) fn component(&self) -> Vec<u8> {
        let Self {
            extra,
            realloc,
            describe,
            configure,
            create,
            next,
            observe,
        } = self;
        let module = format!(
            r#"(module
  (import "[export]pbg:plugin/relation-sampler@0.1.0" "[resource-new]sampler" (func $new (param i32) (result i32)))
  (memory (export "memory") 8)
  (global $free (mut i32) (i32.const 131072))
  (global $turn (mut i32) (i32.const 0))
  (data (i32.const 0) "evil")
  (data (i32.const 8) "0.1.0")
  (data (i32.const 16) "A plugin of the test suite.")
  (data (i32.const 256) "\00\00\00\00\04\00\00\00\08\00\00\00\05\00\00\00\10\00\00\00\1b\00\00\00\00\00\00\00\00\00\00\00")
  (data (i32.const 1024) "not on tuesdays")
  {extra}
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {realloc})
  (func (export "pbg:plugin/metadata@0.1.0#describe") (result i32) {describe})
  (func (export "pbg:plugin/relation-sampler@0.1.0#configure") (param i32 i32) (result i32) {configure})
  (func (export "pbg:plugin/relation-sampler@0.1.0#[static]sampler.create") (param i32 i32 i32 i64) (result i32) {create})
  (func $next (export "pbg:plugin/relation-sampler@0.1.0#[method]sampler.next") (param i32) (result i32) {next})
  (func (export "pbg:plugin/relation-sampler@0.1.0#[method]sampler.observe") (param i32 i32 f32) {observe})
)"#
        );
        encode(&module, &own_wit(), "sampler")
    }
}

/// Returns the end of a body that answers a draw.
pub(crate) fn draw(relation: i32, edges: i32) -> String {
    format!(
        "(i32.store8 (i32.const 512) (i32.const 0)) (i32.store8 (i32.const 516) (i32.const 1))
         (i32.store (i32.const 520) (i32.const {relation})) (i32.store (i32.const 524) (i32.const {edges}))
         (i32.const 512)"
    )
}

/// Returns a body that refuses.
pub(crate) fn refuse() -> String {
    "(i32.store8 (i32.const 512) (i32.const 1)) (i32.store (i32.const 516) (i32.const 1024))
     (i32.store (i32.const 520) (i32.const 15)) (i32.const 512)"
        .to_owned()
}
