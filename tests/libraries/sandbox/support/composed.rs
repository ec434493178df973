//! Components that consist of components, as a compiler for an interpreted language produces them.

use pbg_library_tests::bombs::{COMPONENT, section};

/// Returns the plugin within another component, with a part between it and the host, which copies the plugin's log
/// lines into its own memory and logs them.
///
/// `memory` is that of the part, and `extra` runs before it passes a line on.
pub(crate) fn behind_a_part(plugin: &[u8], memory: &str, extra: &str) -> Vec<u8> {
    let level = r#"(enum "debug" "info" "warn" "error")"#;
    let text = format!(
        r#"(component
  (import "pbg:plugin/types@0.1.0" (instance $types
    (type $value (variant (case "boolean" bool) (case "integer" s64) (case "number" float64) (case "text" string)))
    (export "value" (type $named_value (eq $value)))
    (type $parameter (record (field "name" string) (field "value" $named_value)))
    (export "parameter-value" (type (eq $parameter)))
    (type $bucket (record (field "lhs" u32) (field "rhs" u32)))
    (export "bucket" (type (eq $bucket)))
    (type $position (record (field "epoch" u32) (field "edge-set" u32) (field "edge-chunk" u32)))
    (export "position" (type (eq $position)))))
  (import "pbg:plugin/log@0.1.0" (instance $log
    (type $level {level})
    (export "level" (type $named_level (eq $level)))
    (export "write" (func (param "level" $named_level) (param "message" string)))))
  (component $part
    (import "log" (instance $log
      (type $level {level})
      (export "level" (type $named_level (eq $level)))
      (export "write" (func (param "level" $named_level) (param "message" string)))))
    (alias export $log "level" (type $level))
    (core module $shared
      {memory}
      (global $next (mut i32) (i32.const 1024))
      (func (export "realloc") (param i32 i32 i32 i32) (result i32)
        (local $at i32)
        (local.set $at (global.get $next))
        (global.set $next (i32.add (local.get $at) (local.get 3)))
        (local.get $at)))
    (core instance $shared (instantiate $shared))
    (core func $to_host (canon lower (func $log "write") (memory $shared "memory")))
    (core module $pass
      (import "shared" "memory" (memory 1))
      (import "log" "write" (func $write (param i32 i32 i32)))
      (func (export "write") (param i32 i32 i32)
        {extra}
        (call $write (local.get 0) (local.get 1) (local.get 2))))
    (core instance $pass (instantiate $pass
      (with "shared" (instance $shared))
      (with "log" (instance (export "write" (func $to_host))))))
    (func $write (param "level" $level) (param "message" string)
      (canon lift (core func $pass "write") (memory $shared "memory") (realloc (func $shared "realloc"))))
    (instance $own (export "level" (type $level)) (export "write" (func $write)))
    (export "log" (instance $own)))
  (component) ;; without a name, of which its bytes would tell: the plugin's place
  (instance $part (instantiate $part (with "log" (instance $log))))
  (instance $plugin (instantiate 1
    (with "pbg:plugin/types@0.1.0" (instance $types))
    (with "pbg:plugin/log@0.1.0" (instance $part "log"))))
  (export "pbg:plugin/metadata@0.1.0" (instance $plugin "pbg:plugin/metadata@0.1.0"))
  (export "pbg:plugin/bucket-order@0.1.0" (instance $plugin "pbg:plugin/bucket-order@0.1.0")))"#
    );
    let bytes = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"));
    put_in_place(&bytes, plugin)
}

/// Returns `outer` with `plugin` in place of its empty inner component.
fn put_in_place(outer: &[u8], plugin: &[u8]) -> Vec<u8> {
    let (mut empty, mut full) = (Vec::new(), Vec::new());
    section(&mut empty, COMPONENT, b"\0asm\x0d\0\x01\0");
    section(&mut full, COMPONENT, plugin);
    let at = outer
        .windows(empty.len())
        .position(|bytes| bytes == empty)
        .expect("one component is empty");
    [&outer[..at], &full, &outer[at + empty.len()..]].concat()
}
