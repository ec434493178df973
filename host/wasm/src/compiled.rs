//! The one place where native code is taken from a file instead of from the compiler.

#![allow(
    unsafe_code,
    reason = "compiled code has no form that could be checked: whoever wrote it is trusted or not"
)]

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::cache::Authentic;

/// Makes a component of code that this user's program compiled earlier.
///
/// # Errors
/// When it was compiled for another engine.
pub(crate) fn revive(engine: &Engine, code: &Authentic) -> wasmtime::Result<Component> {
    // SAFETY: `deserialize` must be given what `Component::serialize` returned. An `Authentic`
    // is made in `cache.rs` alone, from a file whose HMAC-SHA256 under this user's secret key
    // matches over its name and every byte; the key is in a file that only this user can read,
    // and what `Cache::store` signs with it is what `serialize` returned. Code of another
    // version of the engine is signed too, and `deserialize` refuses it.
    unsafe { Component::deserialize(engine, code.bytes()) }
}
