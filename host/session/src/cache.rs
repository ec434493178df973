//! Where compiled plugins are kept between runs.

use std::env;
use std::path::PathBuf;

use pbg_wasm::Cache;

use crate::front::Front;

/// Names the folder; empty for none.
const VARIABLE: &str = "PBG_HOST_CACHE";

/// The folder that the user chose, else the one for caches. Without one, plugins are compiled
/// each time.
pub(crate) fn open(front: &dyn Front) -> Option<Cache> {
    let folder = folder()?;
    Cache::open(&folder)
        .inspect_err(|error| front.detail(error))
        .ok()
}

fn folder() -> Option<PathBuf> {
    if let Some(chosen) = env::var_os(VARIABLE) {
        return Some(PathBuf::from(chosen)).filter(|path| !path.as_os_str().is_empty());
    }
    // A relative path is to be ignored, says the XDG Base Directory Specification.
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("pbg-host"))
}
