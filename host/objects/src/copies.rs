//! Local copies of folders in object stores.
//!
//! A copy has one folder in the user's folder for caches. What has not changed since the last copy is not copied again,
//! and what the store no longer has is removed, unless somebody is reading it. The manifest is copied last, so a copy
//! that was interrupted still has the previous one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pbg_files::remote::{ObjectStores, RemoteFile, RemoteFolder};
use pbg_files::{self as files, FileError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::connection::StoreSettings;
use crate::object_folder::ObjectFolder;
use crate::transfer::PARTIAL;
use crate::url::ObjectUrl;

/// File of a copy that says which contents its files have.
const RECORD: &str = ".copied.json";
/// File that is locked while a folder is copied.
const LOCK: &str = ".lock-copy";
/// Largest size of the record in bytes.
const MAX_RECORD: u64 = 256 << 20;
/// How often a folder is listed again because objects were removed while it was copied.
const ATTEMPTS: usize = 20;

/// Message to the user: what is copied where, or a warning.
pub type CopyNotice = Box<dyn Fn(&str) + Send + Sync>;

/// Local copies of folders, below one folder.
pub struct CopiedFolders {
    folder: PathBuf,
    settings: StoreSettings,
    notice: CopyNotice,
}

/// Contents of the files of a copy, by name.
#[derive(Default, Serialize, Deserialize)]
struct Copied(BTreeMap<String, CopiedFile>);

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CopiedFile {
    size: u64,
    etag: String,
}

impl CopiedFile {
    fn of(file: &RemoteFile) -> Self {
        Self {
            size: file.size,
            etag: file.tag.etag.clone(),
        }
    }
}

impl CopiedFolders {
    /// Returns the copies below `folder`, which is created when the first folder is copied. `notice` is told what is
    /// copied.
    #[must_use]
    pub fn new(folder: PathBuf, settings: StoreSettings, notice: CopyNotice) -> Self {
        Self {
            folder,
            settings,
            notice,
        }
    }

    /// Returns the folder of the copy of `url`.
    fn folder_of(&self, url: &ObjectUrl) -> PathBuf {
        let digest: [u8; 32] = Sha256::digest(url.to_string()).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        let digest = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(c);
        let readable: String = url.last_part().chars().filter(is_plain).take(40).collect();
        self.folder.join(format!("{readable}-{digest:016x}"))
    }

    /// Copies what is missing or has changed.
    fn update(
        &self,
        remote: &ObjectFolder,
        to: &Path,
        wanted: &dyn Fn(&str) -> bool,
    ) -> io::Result<()> {
        let mut copied = read_record(to);
        for _ in 0..ATTEMPTS {
            let listed = listing(remote, wanted)?;
            let missing = missing(&listed, &copied, to);
            self.announce(remote, &missing, to)?;
            let (manifests, others): (Vec<_>, Vec<_>) = missing
                .into_iter()
                .partition(|file| is_manifest(&file.name));
            if !copy_all(remote, &others, to, &mut copied)? {
                continue;
            }
            if copy_all(remote, &manifests, to, &mut copied)? {
                remove_others(&listed, &mut copied, to, wanted)?;
                return write_record(to, &copied);
            }
        }
        Err(io::Error::other(
            "its objects are replaced faster than they can be copied",
        ))
    }

    /// Says what will be copied, and refuses it if the disk lacks the room.
    fn announce(&self, remote: &ObjectFolder, files: &[&RemoteFile], to: &Path) -> io::Result<()> {
        let bytes: u64 = files.iter().map(|file| file.size).sum();
        if bytes == 0 {
            return Ok(());
        }
        let free = rustix::fs::statvfs(to).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        if let Ok(free) = free
            && free < bytes
        {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "{} with {} do not fit in {}, where {} are free",
                    count(files.len(), "object"),
                    shown(bytes),
                    to.display(),
                    shown(free)
                ),
            ));
        }
        let what = count(files.len(), "object");
        let (url, size, to) = (remote.url(), shown(bytes), to.display());
        (self.notice)(&format!("copying {what} of {url} ({size}) to {to}"));
        Ok(())
    }
}

impl ObjectStores for CopiedFolders {
    fn open(&self, url: &str) -> io::Result<Arc<dyn RemoteFolder>> {
        let url = ObjectUrl::parse(url)?;
        Ok(Arc::new(ObjectFolder::open(url, &self.settings)?))
    }

    fn copy(&self, url: &str, wanted: &dyn Fn(&str) -> bool) -> io::Result<PathBuf> {
        let url = ObjectUrl::parse(url)?;
        let folder = self.folder_of(&url);
        let remote = ObjectFolder::open(url, &self.settings)?;
        fs::create_dir_all(&folder)?;
        let _lock = lock(&folder)?;
        self.update(&remote, &folder, wanted)?;
        Ok(folder)
    }

    fn discard(&self, url: &str, wanted: &dyn Fn(&str) -> bool) -> io::Result<()> {
        let folder = self.folder_of(&ObjectUrl::parse(url)?);
        if !folder.is_dir() {
            return Ok(());
        }
        let _lock = lock(&folder)?;
        let mut copied = read_record(&folder);
        remove_others(&[], &mut copied, &folder, wanted)?;
        write_record(&folder, &copied)
    }

    fn outgoing(&self, url: &str) -> io::Result<PathBuf> {
        let copy = self.folder_of(&ObjectUrl::parse(url)?);
        let process = std::process::id();
        for number in 0.. {
            let folder = copy.with_extension(format!("out-{process}-{number}"));
            fs::create_dir_all(&self.folder)?;
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|()| folder),
            }
        }
        unreachable!("one of all numbers is free")
    }
}

/// Waits until no other process updates the copy.
fn lock(folder: &Path) -> io::Result<fs::File> {
    let mut options = fs::File::options();
    let file = options.append(true).create(true).open(folder.join(LOCK))?;
    file.lock()?;
    Ok(file)
}

/// Lists the wanted objects whose names can be those of files.
fn listing(remote: &ObjectFolder, wanted: &dyn Fn(&str) -> bool) -> io::Result<Vec<RemoteFile>> {
    let mut listed = remote.list()?;
    listed.retain(|file| wanted(&file.name) && is_safe(&file.name));
    Ok(listed)
}

/// Returns whether an object's name names a file below the copy's folder that is not one of the copy's own.
fn is_safe(name: &str) -> bool {
    let is_good = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.contains(['\0', '\\'])
    };
    name.split('/').all(is_good)
        && name != RECORD
        && name != LOCK
        && !name.ends_with(PARTIAL)
        && name.len() < 1024
}

/// Manifests name other files, which have to be there before.
fn is_manifest(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.starts_with("manifest.") && file.ends_with(".json")
}

/// Returns the objects that the copy lacks or has with other content.
fn missing<'a>(listed: &'a [RemoteFile], copied: &Copied, to: &Path) -> Vec<&'a RemoteFile> {
    let is_missing = |file: &&RemoteFile| {
        let same = copied.0.get(&file.name) == Some(&CopiedFile::of(file));
        !same
            || fs::metadata(to.join(&file.name))
                .map(|found| found.len())
                .ok()
                != Some(file.size)
    };
    listed.iter().filter(is_missing).collect()
}

/// Copies `files`. Returns false if one of them does not exist any more, or was replaced.
fn copy_all(
    remote: &ObjectFolder,
    files: &[&RemoteFile],
    to: &Path,
    copied: &mut Copied,
) -> io::Result<bool> {
    for file in files {
        let path = to.join(&file.name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if let Err(error) = remote.download(file, &path) {
            return match remote.look_up(&file.name) {
                Err(gone) if gone.kind() == io::ErrorKind::NotFound => Ok(false),
                Ok(now) if now.tag != file.tag => Ok(false),
                _ => Err(io::Error::new(
                    error.kind(),
                    format!("{}: {error}", file.name),
                )),
            };
        }
        copied.0.insert(file.name.clone(), CopiedFile::of(file));
    }
    write_record(to, copied)?;
    Ok(true)
}

/// Removes the copied files that the store no longer has. A file that is being read is removed by the next copy.
fn remove_others(
    listed: &[RemoteFile],
    copied: &mut Copied,
    to: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> io::Result<()> {
    let names: BTreeSet<&str> = listed.iter().map(|file| file.name.as_str()).collect();
    let is_gone = |name: &String| wanted(name) && !names.contains(name.as_str());
    let gone: Vec<String> = copied
        .0
        .keys()
        .filter(|name| is_gone(name))
        .cloned()
        .collect();
    for name in gone {
        files::remove_unless_read(&to.join(&name)).map_err(|FileError { cause, .. }| cause)?;
        copied.0.remove(&name);
    }
    Ok(())
}

/// Reads the record of a copy. A damaged one counts as empty: everything is copied again.
fn read_record(folder: &Path) -> Copied {
    let bytes = files::read(&folder.join(RECORD), MAX_RECORD).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write_record(folder: &Path, copied: &Copied) -> io::Result<()> {
    let bytes = serde_json::to_vec(copied)?;
    files::replace(&folder.join(RECORD), &bytes).map_err(|FileError { cause, .. }| cause)
}

/// Returns a number of bytes with a unit.
fn shown(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
