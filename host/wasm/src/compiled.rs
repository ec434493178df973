//! The one place where native code is taken from a file instead of from the compiler.

#![allow(
    unsafe_code,
    reason = "compiled code has no form that could be checked: its writer is trusted or not"
)]

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::cache::Authentic;
use crate::compiler::Compiled;

/// Code that this program compiled.
pub(crate) enum Native {
    /// Earlier, and kept since.
    Kept(Authentic),
    /// Just now, in a process of its own.
    Fresh(Compiled),
}

/// Makes a component of code that this user's program compiled.
///
/// # Errors
/// When it was compiled for another engine.
pub(crate) fn revive(engine: &Engine, code: &Native) -> wasmtime::Result<Component> {
    let bytes = match code {
        Native::Kept(code) => code.bytes(),
        Native::Fresh(code) => code.bytes(),
    };
    // SAFETY: `deserialize` must be given what `Component::serialize` returned. An `Authentic`
    // is made in `cache.rs` alone, from a file whose HMAC-SHA256 under this user's secret key
    // matches over its name and every byte; the key is in a file that only this user can read,
    // and what `Cache::store` signs with it is what `serialize` returned. Code of another
    // version of the engine is signed too, and `deserialize` refuses it.
    // A `Compiled` is made in `compiler.rs` alone, from what a child of this process answered: it
    // runs this very program, or from Python the extension of the same build, nobody else holds an end of the socket
    // between them, and what it answers with is what `precompile_component` returned, which is the same as `serialize`.
    // Functions of earlier components in it were answered by such a child, too, and came back signed.
    unsafe { Component::deserialize(engine, bytes) }
}
