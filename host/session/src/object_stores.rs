//! Registers what opens folders in object stores, with copies in the user's folder for caches.

use pbg_files::remote;
use pbg_objects::{CopiedFolders, CopyNotice, StoreSettings};

use crate::cache;

/// Lets paths name folders in object stores from now on, with the addresses and credentials of the environment. `notice`
/// is told what is copied where.
pub fn register(notice: CopyNotice) {
    let caches = cache::folder().unwrap_or_else(|| std::env::temp_dir().join("pbg-host"));
    let copies = caches.join("copies");
    let settings = StoreSettings::of_environment();
    remote::register_stores(CopiedFolders::new(copies, settings, notice));
}
