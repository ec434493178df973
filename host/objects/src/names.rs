//! Names of objects as names of files, and numbers in messages.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pbg_files::remote::RemoteFile;
use sha2::{Digest, Sha256};

/// Ending of the names of incomplete copies.
const PARTIAL: &str = ".part";
/// Largest length of a part of a name in bytes, which leaves room for the endings of incomplete files.
const MAX_PART: usize = 200;

/// Returns the listed objects that can be files of a copy. What some programs leave in place of an empty folder, an empty
/// object of the folder's name, is left out.
///
/// # Errors
/// When an object has the name of a folder.
pub(crate) fn usable(mut listed: Vec<RemoteFile>) -> io::Result<Vec<RemoteFile>> {
    listed.retain(|file| is_safe(&file.name));
    let mut folders = BTreeSet::new();
    for file in &listed {
        for (end, _) in file.name.match_indices('/') {
            folders.insert(file.name[..end].to_owned());
        }
    }
    let is_folder = |file: &RemoteFile| folders.contains(&file.name);
    listed.retain(|file| file.size > 0 || !is_folder(file));
    match listed.iter().find(|file| is_folder(file)) {
        Some(both) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("`{}` is both an object and a folder of others", both.name),
        )),
        None => Ok(listed),
    }
}

/// Returns whether an object's name names a file below the copy's folder that is not one of the copy's own.
fn is_safe(name: &str) -> bool {
    let is_good = |part: &str| {
        let is_name = !part.is_empty() && part != "." && part != "..";
        is_name && part.len() <= MAX_PART && !part.contains(['\0', '\\'])
    };
    name.split('/').all(is_good) && !name.starts_with('.') && !name.ends_with(PARTIAL)
}

/// Manifests name other files, which have to be there before.
pub(crate) fn is_manifest(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.starts_with("manifest.") && file.ends_with(".json")
}

/// Returns the name of an incomplete copy, which differs between the contents of an object.
pub(crate) fn partial(to: &Path, file: &RemoteFile) -> PathBuf {
    let content = format!("{} {} {}", file.tag.etag, file.size, file.modified);
    let digest: [u8; 32] = Sha256::digest(content).into();
    let [a, b, c, d, ..] = digest;
    let mut name = to.as_os_str().to_owned();
    let digest = u32::from_be_bytes([a, b, c, d]);
    name.push(format!(".{digest:08x}{PARTIAL}"));
    name.into()
}

/// Returns how many bytes of an object are in its incomplete copy.
pub(crate) fn partial_size(to: &Path, file: &RemoteFile) -> u64 {
    fs::metadata(partial(to, file)).map_or(0, |there| there.len().min(file.size))
}

/// Returns whether a file is an incomplete copy.
pub(crate) fn is_partial(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.ends_with(PARTIAL))
}

/// Returns a number of bytes with a unit.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Returns a number of things.
pub(crate) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[(&str, u64)]) -> io::Result<Vec<String>> {
        let files = files.iter().map(|(name, size)| RemoteFile {
            name: (*name).to_owned(),
            size: *size,
            tag: Default::default(),
            modified: 0,
        });
        let names = usable(files.collect())?.into_iter().map(|file| file.name);
        Ok(names.collect())
    }

    #[test]
    fn names_that_lead_out_of_the_copy_are_left_out() {
        let long = "x".repeat(300);
        let names = [
            "a",
            "../b",
            "c/../d",
            "/e",
            "f//g",
            "h/",
            ".copied.json",
            "i\\j",
            "k.part",
            &long,
        ];
        let files: Vec<(&str, u64)> = names.iter().map(|name| (*name, 1)).collect();
        assert_eq!(listed(&files).unwrap(), ["a"]);
    }

    #[test]
    fn markers_of_folders_are_left_out_and_collisions_refused() {
        let found = listed(&[("a", 0), ("a/b", 1), ("c", 0)]).unwrap();
        assert_eq!(found, ["a/b", "c"]);
        let refused = listed(&[("a", 1), ("a/b", 1)]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`a` is both an object and a folder of others"
        );
    }
}
