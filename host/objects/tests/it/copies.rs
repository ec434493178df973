//! Local copies of folders.

use std::fs;
use std::path::Path;

use pbg_files::remote::{ObjectStores, RemoteFolder};

use crate::object_store::TestStore;
use crate::{copies, open, settings};

fn put(remote: &dyn RemoteFolder, name: &str, content: &str) {
    remote.remove(name).unwrap();
    remote.create(name, content.as_bytes()).unwrap().unwrap();
}

/// Returns names and contents of the files below `folder`, without those of the copy itself.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let inner = files(&entry.path()).into_iter();
            found.extend(inner.map(|(inner, content)| (format!("{name}/{inner}"), content)));
        } else if !name.starts_with('.') {
            found.push((name, fs::read_to_string(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

fn named<const N: usize>(files: [(&str, &str); N]) -> Vec<(String, String)> {
    files
        .map(|(name, content)| (name.to_owned(), content.to_owned()))
        .into()
}

#[test]
fn a_copy_follows_its_folder() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let url = "s3://tests/copies/graphs/first";
    let remote = open(&store, url);
    let below = tempfile::tempdir().unwrap();
    let (copies, notices) = copies(below.path(), settings(&store));
    let copied = || copies.copy(url, &|_| true).unwrap().folder;

    put(&*remote, "manifest.json", "1");
    put(&*remote, "edges/0_0.bin", "edges");
    put(&*remote, "names", "a b");
    let folder = copied();
    let all = named([
        ("edges/0_0.bin", "edges"),
        ("manifest.json", "1"),
        ("names", "a b"),
    ]);
    assert_eq!(files(&folder), all);
    assert!(
        folder
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("first-")
    );
    // Nothing has changed, so nothing is copied.
    assert_eq!(
        (copied(), notices.lock().unwrap().len()),
        (folder.clone(), 1)
    );

    put(&*remote, "manifest.json", "2");
    put(&*remote, "names", "a c");
    remote.remove("edges/0_0.bin").unwrap();
    put(&*remote, "edges/1_1.bin", "other");
    copied();
    let all = named([
        ("edges/1_1.bin", "other"),
        ("manifest.json", "2"),
        ("names", "a c"),
    ]);
    assert_eq!(files(&folder), all);
    let told = notices.lock().unwrap()[1].clone();
    assert!(
        told.starts_with(&format!("copying 3 objects of {url} (")),
        "{told}"
    );

    // A file that was damaged or removed here is copied again.
    fs::write(folder.join("names"), "").unwrap();
    fs::remove_file(folder.join("edges/1_1.bin")).unwrap();
    copied();
    assert_eq!(files(&folder), all);
}

#[test]
fn a_folder_is_copied_without_those_below_it() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let url = "s3://tests/copies/models/second";
    let remote = open(&store, url);
    put(&*remote, "manifest.json", "1");
    put(&*remote, "epoch_1/manifest.json", "2");
    let below = tempfile::tempdir().unwrap();
    let (copies, _) = copies(below.path(), settings(&store));
    let folder = copies
        .copy(url, &|name| !name.contains('/'))
        .unwrap()
        .folder;
    assert_eq!(files(&folder), named([("manifest.json", "1")]));
    let inner = copies
        .copy(&format!("{url}/epoch_1"), &|name| !name.contains('/'))
        .unwrap()
        .folder;
    assert_eq!(files(&inner), named([("manifest.json", "2")]));
}

/// Names of objects are the store's, and may not lead out of the copy.
#[test]
fn names_stay_within_the_copy() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let url = "s3://tests/copies/hostile";
    let remote = open(&store, url);
    put(&*remote, "good", "1");
    put(&*remote, ".copied.json", "2");
    put(&*remote, "x.00000000.part", "3");
    let below = tempfile::tempdir().unwrap();
    let (copies, _) = copies(below.path(), settings(&store));
    let folder = copies.copy(url, &|_| true).unwrap().folder;
    assert_eq!(files(&folder), named([("good", "1")]));
}

/// A copy that somebody reads stays as it is, and a newer one is made beside it.
#[test]
fn a_copy_in_use_is_not_changed() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let url = "s3://tests/copies/used";
    let remote = open(&store, url);
    put(&*remote, "manifest.json", "1");
    let below = tempfile::tempdir().unwrap();
    let (copies, _) = copies(below.path(), settings(&store));
    let copied = || copies.copy(url, &|_| true).unwrap();
    let (first, same) = (copied(), copied());
    assert_eq!(first.folder, same.folder, "both may read it");
    put(&*remote, "manifest.json", "2");
    let second = copied();
    assert_eq!(files(&first.folder), named([("manifest.json", "1")]));
    assert_eq!(files(&second.folder), named([("manifest.json", "2")]));
    // When nobody reads them, the first is used again.
    let folder = first.folder.clone();
    drop((first, same, second));
    let third = copied();
    assert_eq!(third.folder, folder);
    assert_eq!(files(&third.folder), named([("manifest.json", "2")]));
}

#[test]
fn objects_and_folders_may_take_the_names_of_each_other() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let url = "s3://tests/copies/names";
    let remote = open(&store, url);
    let below = tempfile::tempdir().unwrap();
    let (copies, _) = copies(below.path(), settings(&store));
    let copied = || files(&copies.copy(url, &|_| true).unwrap().folder);
    put(&*remote, "a", "object");
    put(&*remote, "b/c", "below");
    assert_eq!(copied(), named([("a", "object"), ("b/c", "below")]));
    remote.remove("a").unwrap();
    remote.remove("b/c").unwrap();
    put(&*remote, "a/d", "below");
    put(&*remote, "b", "object");
    assert_eq!(copied(), named([("a/d", "below"), ("b", "object")]));
}

#[test]
fn one_object_is_copied_without_its_neighbours() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let url = "s3://tests/copies/single";
    let remote = open(&store, url);
    put(&*remote, "edges.tsv", "a b");
    put(&*remote, "more.tsv", "c d");
    let below = tempfile::tempdir().unwrap();
    let (copies, _) = copies(below.path(), settings(&store));
    let copy = copies.copy_object(url, "edges.tsv").unwrap();
    assert_eq!(files(&copy.folder), named([("edges.tsv", "a b")]));
    let missing = copies.copy_object(url, "none.tsv").unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}
