//! Objects of a folder: transfers of all sizes, listings, and writes under a condition.

use std::fs;
use std::io::ErrorKind;
use std::thread;

use pbg_files::remote::{ContentTag, RemoteFile};
use pbg_objects::PART;

use crate::object_store::TestStore;
use crate::open;

/// Returns `size` bytes that do not repeat soon.
fn bytes(size: u64) -> Vec<u8> {
    (0..size)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8)
        .collect()
}

#[test]
fn what_was_sent_comes_back() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let remote = open(&store, "s3://tests/transfers/a/b");
    let folder = tempfile::tempdir().unwrap();
    for size in [0, 1, PART - 1, PART, PART + 1, 3 * PART + 12_345] {
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, bytes(size)).unwrap();
        let name = format!("part_{size}.bin");
        remote.upload(&from, &name).unwrap();
        let listed = remote.look_up(&name).unwrap();
        assert_eq!((listed.size, &listed.name), (size, &name));
        remote.download(&listed, &to).unwrap();
        assert!(fs::read(&to).unwrap() == bytes(size), "{size} bytes");
    }
    let names: Vec<String> = remote
        .list()
        .unwrap()
        .into_iter()
        .map(|file| file.name)
        .collect();
    assert!(names.is_sorted() && names.len() == 6, "{names:?}");
    // The folder above has the same objects, and a folder whose name is a beginning of this one's has none.
    assert_eq!(
        open(&store, "s3://tests/transfers/a").list().unwrap().len(),
        6
    );
    assert!(
        open(&store, "s3://tests/transfers/a/").list().unwrap()[0]
            .name
            .starts_with("b/")
    );
    assert!(
        open(&store, "s3://tests/transfers/a/b2")
            .list()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn an_interrupted_download_continues() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let remote = open(&store, "s3://tests/interrupted/x");
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let whole = bytes(2 * PART);
    fs::write(&from, &whole).unwrap();
    remote.upload(&from, "file").unwrap();
    let listed = remote.look_up("file").unwrap();
    // A directory of the target's name stops the copy before it gets its name.
    fs::create_dir(&to).unwrap();
    remote.download(&listed, &to).unwrap_err();
    let partial = || {
        let entries = fs::read_dir(folder.path()).unwrap().flatten();
        let mut paths = entries.map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|ending| ending == "part"))
    };
    let partial = partial().unwrap();
    // What the incomplete file has is not requested again.
    let mut known = bytes(PART);
    known[17] ^= 1;
    fs::write(&partial, &known).unwrap();
    fs::remove_dir(&to).unwrap();
    remote.download(&listed, &to).unwrap();
    let got = fs::read(&to).unwrap();
    assert!(got[..PART as usize] == known && got[PART as usize..] == whole[PART as usize..]);
    assert!(!partial.exists());
}

#[test]
fn one_of_several_writers_wins() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let remote = open(&store, "s3://tests/conditions");
    let winners = |write: &(dyn Fn(u8) -> Option<ContentTag> + Sync)| -> Vec<ContentTag> {
        thread::scope(|threads| {
            let started: Vec<_> = (0..8).map(|i| threads.spawn(move || write(i))).collect();
            started
                .into_iter()
                .filter_map(|thread| thread.join().unwrap())
                .collect()
        })
    };
    let created = winners(&|i| remote.create("record", &[i]).unwrap());
    assert_eq!(created.len(), 1);
    assert_eq!(remote.read("record", 10).unwrap().tag, created[0]);
    let replaced = winners(&|i| remote.replace("record", &[100 + i], &created[0]).unwrap());
    assert_eq!(replaced.len(), 1);
    let now = remote.read("record", 10).unwrap();
    assert_eq!(now.tag, replaced[0]);
    assert!(now.bytes[0] >= 100);
    assert_eq!(
        remote.replace("record", b"stale", &created[0]).unwrap(),
        None
    );
    assert_eq!(remote.create("record", b"again").unwrap(), None);
}

#[test]
fn missing_and_large_objects_are_errors() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let remote = open(&store, "s3://tests/missing/x");
    for error in [
        remote.read("none", 10).unwrap_err(),
        remote.look_up("none").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    remote.remove("none").unwrap();
    remote.create("large", &[0; 11]).unwrap();
    let error = remote.read("large", 10).unwrap_err().to_string();
    assert_eq!(error, "it is larger than the limit of 10 bytes");
    remote.remove("large").unwrap();
    assert!(remote.list().unwrap().is_empty());
}

/// The content of a listed object is copied, or none.
#[test]
fn an_object_that_was_replaced_is_not_copied() {
    let Some(store) = TestStore::start() else {
        return;
    };
    let remote = open(&store, "s3://tests/replaced");
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let first = remote.create("file", b"first").unwrap().unwrap();
    let listed = remote.look_up("file").unwrap();
    assert_eq!(listed.tag.etag, first.etag);
    remote.replace("file", b"other", &first).unwrap().unwrap();
    let error = remote.download(&listed, &to).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StaleNetworkFileHandle, "{error}");
    let longer = RemoteFile {
        size: 100,
        ..remote.look_up("file").unwrap()
    };
    remote.download(&longer, &to).unwrap_err();
    assert!(!to.exists());
    let listing = remote.list_here().unwrap();
    assert_eq!(listing, remote.list().unwrap());
}
