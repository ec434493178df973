//! Read access to files in the folders that the user granted to this plugin.
//!
//! `[[plugins.grants]] plugin = "NAME", read = ["FOLDER"]` in a configuration grants folders to the
//! plugin of that name. Paths are relative to a granted folder and never lead out of it. In native
//! tests, the files are those that the test [provides](provide).
//!
//! ```
//! use pbg_plugin_sdk::files;
//! # #[cfg(not(target_family = "wasm"))]
//! files::provide("order.csv", "0,0\n0,1\n");
//! assert_eq!(files::read("order.csv").unwrap(), b"0,0\n0,1\n");
//! assert!(files::read("other.csv").is_err());
//! ```

use crate::Result;

/// Entry of a folder.
///
/// ```
/// let entry = pbg_plugin_sdk::files::Entry { name: "order.csv".to_owned(), folder: false, bytes: 8 };
/// assert!(!entry.folder);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name within the folder.
    pub name: String,
    /// Whether the entry is a folder; every other entry is a file.
    pub folder: bool,
    /// Size of a file in bytes; 0 for a folder.
    pub bytes: u64,
}

/// Reads a file.
///
/// # Errors
/// If the file cannot be read: a sentence for the user that names the path and the problem.
///
/// ```
/// # use pbg_plugin_sdk::files;
/// assert!(files::read("nowhere.csv").unwrap_err().contains("nowhere.csv"));
/// ```
pub fn read(path: &str) -> Result<Vec<u8>> {
    served::read(path)
}

/// Reads a text file in UTF-8.
///
/// # Errors
/// As [`read`], and if the content is not UTF-8.
///
/// ```
/// # use pbg_plugin_sdk::files;
/// # #[cfg(not(target_family = "wasm"))]
/// files::provide("names.txt", "größer");
/// assert_eq!(files::read_text("names.txt").unwrap(), "größer");
/// ```
pub fn read_text(path: &str) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|_| format!("{path}: not UTF-8 text"))
}

/// Returns the entries of a folder, sorted by name; `.` is the granted folder itself.
///
/// # Errors
/// As [`read`].
///
/// ```
/// # use pbg_plugin_sdk::files;
/// # #[cfg(not(target_family = "wasm"))]
/// files::provide("orders/first.csv", "0,0\n");
/// let names: Vec<String> = files::list("orders").unwrap().into_iter().map(|entry| entry.name).collect();
/// assert_eq!(names, ["first.csv"]);
/// ```
pub fn list(path: &str) -> Result<Vec<Entry>> {
    served::list(path)
}

#[cfg(target_family = "wasm")]
mod served {
    use super::Entry;
    use crate::Result;
    use crate::glue::files;

    pub(super) fn read(path: &str) -> Result<Vec<u8>> {
        files::read(path)
    }

    pub(super) fn list(path: &str) -> Result<Vec<Entry>> {
        let entries = files::list(path)?.into_iter();
        Ok(entries
            .map(|entry| Entry {
                name: entry.name,
                folder: entry.folder,
                bytes: entry.bytes,
            })
            .collect())
    }
}

#[cfg(not(target_family = "wasm"))]
pub use served::provide;

#[cfg(not(target_family = "wasm"))]
mod served {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};

    use super::Entry;
    use crate::Result;

    thread_local! {
        static FILES: RefCell<BTreeMap<String, Vec<u8>>> = const { RefCell::new(BTreeMap::new()) };
    }

    /// Provides a file that plugins in this thread can read; only outside the sandbox.
    ///
    /// ```
    /// # use pbg_plugin_sdk::files;
    /// files::provide("a/b.bin", [1, 2, 3]);
    /// assert_eq!(files::read("a/b.bin").unwrap(), [1, 2, 3]);
    /// ```
    pub fn provide(path: &str, content: impl AsRef<[u8]>) {
        FILES.with_borrow_mut(|files| {
            files.insert(path.to_owned(), content.as_ref().to_vec());
        });
    }

    pub(super) fn read(path: &str) -> Result<Vec<u8>> {
        FILES.with_borrow(|files| files.get(path).cloned().ok_or_else(|| absent(path)))
    }

    pub(super) fn list(path: &str) -> Result<Vec<Entry>> {
        let prefix = match path {
            "." => String::new(),
            path => format!("{path}/"),
        };
        let (mut entries, mut folders) = (Vec::new(), BTreeSet::new());
        FILES.with_borrow(|files| {
            for (path, content) in files {
                match path.strip_prefix(&prefix).map(|rest| rest.split_once('/')) {
                    Some(Some((folder, _))) => drop(folders.insert(folder.to_owned())),
                    Some(None) => entries.push(Entry {
                        name: path[prefix.len()..].to_owned(),
                        folder: false,
                        bytes: content.len() as u64,
                    }),
                    None => {}
                }
            }
        });
        entries.extend(folders.into_iter().map(|name| Entry {
            name,
            folder: true,
            bytes: 0,
        }));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        if entries.is_empty() {
            return Err(absent(path));
        }
        Ok(entries)
    }

    fn absent(path: &str) -> String {
        format!("{path}: no such file in the granted folders")
    }
}
