//! Tests of folders in an object store over a real store on this machine.
//!
//! The store is the program that `PBG_TEST_OBJECT_STORE` names, or the one that the set-up of the tests has installed.
//! Without either, these tests print that and check nothing; with `PBG_REQUIRE=seaweedfs` they fail.

#![expect(
    clippy::disallowed_methods,
    reason = "tests wait for programs and threads"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod copies;
mod folders;
#[path = "../../../../tests/object_store.rs"]
mod object_store;
mod refusals;
#[path = "../../../../tests/tools.rs"]
mod tools;

use std::path::Path;
use std::sync::{Arc, Mutex};

use object_store::TestStore;
use pbg_files::remote::{ObjectStores, Patience, RemoteFolder};
use pbg_objects::{CopiedFolders, StoreSettings};

/// Messages to the user.
type Notices = Arc<Mutex<Vec<String>>>;

/// Copies below `folder` from the store of `settings`, and what the user is told.
fn copies(folder: &Path, settings: StoreSettings) -> (CopiedFolders, Notices) {
    let notices = Notices::default();
    let told = Arc::clone(&notices);
    let notice = move |text: &str| told.lock().unwrap().push(text.to_owned());
    let copies = CopiedFolders::new(folder.to_owned(), settings, Box::new(notice));
    (copies, notices)
}

/// Returns the settings with which `store` is found.
fn settings(store: &TestStore) -> StoreSettings {
    let variables = store.environment().into_iter();
    variables
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Opens a folder of `store`.
fn open(store: &TestStore, url: &str) -> Arc<dyn RemoteFolder> {
    let unused = Path::new("unused");
    copies(unused, settings(store))
        .0
        .open(url, Patience::Long)
        .unwrap()
}
