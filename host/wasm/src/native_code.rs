//! Loading of native code. This is the only module that takes code from a file or a child process instead of from the
//! compiler.

#![allow(
    unsafe_code,
    reason = "compiled code has no form that could be checked: its writer is trusted or not"
)]

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::cache::VerifiedCode;
use crate::compiler::CompilerOutput;

/// Native code that this program compiled.
pub(crate) enum NativeCode {
    /// Compiled earlier, and read from the cache.
    Kept(VerifiedCode),
    /// Compiled just now, in a child process.
    Fresh(CompilerOutput),
}

/// Creates a component from code that this user's program compiled.
///
/// # Errors
/// When the code was compiled for another engine.
pub(crate) fn load_component(engine: &Engine, code: &NativeCode) -> wasmtime::Result<Component> {
    let bytes = match code {
        NativeCode::Kept(code) => code.bytes(),
        NativeCode::Fresh(code) => code.bytes(),
    };
    // SAFETY: `deserialize` must be given bytes that `Component::serialize` returned. A `VerifiedCode` is created only in
    // `cache.rs`, from a file whose HMAC-SHA256 under this user's secret key matches over its name and every byte. The
    // key is in a file that only this user can read, and `CodeCache::store` signs with it only what `serialize` returned.
    // Code of another version of the engine is signed too, and `deserialize` rejects it.
    // A `CompilerOutput` is created only in `compiler.rs`, from the answer of a child of this process. The child runs this
    // very program or, started from Python, the extension of the same build. Nobody else holds an end of the socket
    // between them, and the answer is what `precompile_component` returned, which is the same as `serialize` returns.
    // Functions of earlier components in it were answered by such a child, too, and were signed while they were stored.
    unsafe { Component::deserialize(engine, bytes) }
}
