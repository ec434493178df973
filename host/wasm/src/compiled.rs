//! Loading of native code. This is the only module that takes code from a file or a child process instead of from the
//! compiler.

#![allow(
    unsafe_code,
    reason = "compiled code has no form that could be checked: its writer is trusted or not"
)]

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::cache::Authentic;
use crate::compiler::Compiled;

/// Native code that this program compiled.
pub(crate) enum Native {
    /// Compiled earlier, and read from the cache.
    Kept(Authentic),
    /// Compiled just now, in a child process.
    Fresh(Compiled),
}

/// Creates a component from code that this user's program compiled.
///
/// # Errors
/// When the code was compiled for another engine.
pub(crate) fn revive(engine: &Engine, code: &Native) -> wasmtime::Result<Component> {
    let bytes = match code {
        Native::Kept(code) => code.bytes(),
        Native::Fresh(code) => code.bytes(),
    };
    // SAFETY: `deserialize` must be given bytes that `Component::serialize` returned. An `Authentic` is created only in
    // `cache.rs`, from a file whose HMAC-SHA256 under this user's secret key matches over its name and every byte. The
    // key is in a file that only this user can read, and `Cache::store` signs with it only what `serialize` returned.
    // Code of another version of the engine is signed too, and `deserialize` rejects it.
    // A `Compiled` is created only in `compiler.rs`, from the answer of a child of this process. The child runs this
    // very program or, started from Python, the extension of the same build. Nobody else holds an end of the socket
    // between them, and the answer is what `precompile_component` returned, which is the same as `serialize` returns.
    // Functions of earlier components in it were answered by such a child, too, and were signed while they were stored.
    unsafe { Component::deserialize(engine, bytes) }
}
