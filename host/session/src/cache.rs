//! The folder in which what was compiled is kept between runs.

use std::env;
use std::path::PathBuf;

use pbg_wasm::CodeCache;

use crate::front::FrontEnd;

/// Environment variable with the folder; an empty value disables the cache.
const VARIABLE: &str = "PBG_HOST_CACHE";

/// Opens the cache in the folder that the user chose, or else in the user's folder for caches. Without one, plugins are
/// compiled each time.
pub(crate) fn open(front: &dyn FrontEnd) -> Option<CodeCache> {
    let folder = folder()?;
    CodeCache::open(&folder)
        .inspect_err(|error| front.detail(error))
        .ok()
}

/// Returns the user's folder for caches of this program.
pub(crate) fn folder() -> Option<PathBuf> {
    if let Some(chosen) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(chosen)).filter(|path| !path.as_os_str().is_empty());
    }
    // The XDG Base Directory Specification requires relative paths to be ignored.
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("pbg-host"))
}

/// Returns the folder in which Rust projects of plugins compile their dependencies, once for all of them.
#[must_use]
pub fn plugin_builds() -> Option<PathBuf> {
    Some(folder()?.join("plugin-builds"))
}
