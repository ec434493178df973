//! Compiled code cached between runs: used if it is intact, and never otherwise.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use pbg_core::strategy::BucketOrder as _;
use pbg_wasm::{CodeCache, Limits, PluginSource, Sandbox};
use serde_json::Value;

use crate::sandbox::support::pass;

/// Returns an empty cache folder.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("pbg-host");
    (place, path)
}

fn sandbox(cache: &Path) -> Sandbox {
    let cache = CodeCache::open(cache).expect("it opens");
    Sandbox::new(Limits::default())
        .expect("the sandbox starts")
        .with_cache(cache)
}

/// Loads a standard plugin through the cache and uses it.
fn plan(cache: &Path, name: &str) -> String {
    let source = PluginSource::resolve(name).expect("a standard plugin");
    let mut order = sandbox(cache)
        .load_order(source, &Value::Null)
        .expect("it loads");
    order.plan(&pass(2, 2)).expect("it plans");
    order.id().name.clone()
}

/// Returns the files of compiled code.
fn entries(cache: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(cache).expect("the folder exists");
    let mut paths: Vec<PathBuf> = names.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name != "key"));
    paths.sort();
    paths
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn code_is_kept_privately_and_used_again() {
    let (_place, cache) = folder();
    assert_eq!(plan(&cache, "random"), "random");
    let kept = entries(&cache);
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (mode(&cache), mode(&kept[0]), mode(&cache.join("key"))),
        (0o700, 0o600, 0o600)
    );
    let written = fs::metadata(&kept[0])
        .and_then(|m| m.modified())
        .expect("a time");
    assert_eq!(plan(&cache, "random"), "random");
    assert_eq!(entries(&cache), kept);
    let again = fs::metadata(&kept[0])
        .and_then(|m| m.modified())
        .expect("a time");
    assert_eq!(again, written, "it was compiled again");
}

#[test]
fn what_was_changed_in_any_place_is_compiled_again() {
    let (_place, cache) = folder();
    plan(&cache, "random");
    let path = entries(&cache).remove(0);
    let sound = fs::read(&path).expect("readable");
    let middle = sound.len() / 2;
    let mut flipped = sound.clone();
    flipped[middle] ^= 1;
    let mut tag = sound.clone();
    tag[0] ^= 1;
    for broken in [
        flipped,
        tag,
        sound[..middle].to_vec(),
        sound[..7].to_vec(),
        Vec::new(),
    ] {
        fs::write(&path, &broken).expect("writable");
        assert_eq!(plan(&cache, "random"), "random");
        assert_eq!(fs::read(&path).expect("rebuilt").len(), sound.len());
    }
}

#[test]
fn code_from_elsewhere_is_never_used() {
    let (_place, cache) = folder();
    let (_other_place, other) = folder();
    plan(&cache, "random");
    plan(&cache, "inside_out");
    plan(&other, "random");
    // Another plugin's code under this one's name.
    let [first, second] = <[PathBuf; 2]>::try_from(entries(&cache)).expect("two plugins");
    fs::copy(&first, &second).expect("writable");
    assert_eq!(plan(&cache, "inside_out"), "inside_out");
    assert_eq!(plan(&cache, "random"), "random");
    // The same plugin's code, signed with another key.
    let foreign = entries(&other).remove(0);
    let ours = cache.join(foreign.file_name().expect("a name"));
    let signed = fs::read(&ours).expect("readable");
    fs::copy(&foreign, &ours).expect("writable");
    assert_eq!(plan(&cache, "random"), "random");
    assert_eq!(fs::read(&ours).expect("rebuilt")[..32], signed[..32]);
    // A link to sound code is not followed.
    let elsewhere = cache.with_file_name("elsewhere");
    fs::rename(&ours, &elsewhere).expect("it moves");
    symlink(&elsewhere, &ours).expect("a link");
    assert_eq!(plan(&cache, "random"), "random");
    assert!(!ours.is_symlink());
}

#[test]
fn what_others_may_write_is_not_trusted() {
    let (_place, cache) = folder();
    plan(&cache, "random");
    let path = entries(&cache).remove(0);
    for shared in [0o660, 0o606, 0o644] {
        set_mode(&path, shared);
        assert_eq!(plan(&cache, "random"), "random");
        assert_eq!(mode(&path), 0o600, "the file of mode {shared:o} was used");
    }
    set_mode(&cache.join("key"), 0o640);
    assert!(
        CodeCache::open(&cache)
            .expect_err("the key is known")
            .to_string()
            .contains("key")
    );
    set_mode(&cache.join("key"), 0o600);
    set_mode(&cache, 0o770);
    let error = CodeCache::open(&cache)
        .expect_err("it is shared")
        .to_string();
    assert!(error.contains("others may read or write it"), "{error}");
    fs::remove_dir_all(&cache).expect("it is ours");
    fs::write(&cache, "a file").expect("writable");
    CodeCache::open(&cache).expect_err("it is a file");
}

#[test]
fn another_users_folder_is_refused() {
    let (_place, cache) = folder();
    fs::create_dir(&cache).expect("a folder");
    set_mode(&cache, 0o700);
    // Only root can change the owner of a folder.
    if std::os::unix::fs::chown(&cache, Some(12_345), None).is_err() {
        return;
    }
    let error = CodeCache::open(&cache)
        .expect_err("it is another's")
        .to_string();
    assert!(error.contains("belongs to another user"), "{error}");
}
