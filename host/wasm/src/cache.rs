//! Cache of compiled code between runs.
//!
//! A folder that only the user can read holds one file per component and engine, one file of functions per engine
//! (`function_cache.rs`), and a secret key. A file consists of an HMAC-SHA256 and the code. The HMAC covers the file's name,
//! which contains the component's SHA-256 and everything of the engine that the code depends on. So a file that was
//! changed, renamed or copied from elsewhere fails the check. It is then removed, and the component is compiled again.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use rustix::fs::OFlags;
use rustix::process::{Resource, geteuid, getrlimit};
use sha2::Sha256;
use wasmtime::Engine;

/// Size (bytes) of the key: a block of SHA-256.
const KEY: usize = 64;
/// Size (bytes) of an HMAC.
const TAG: usize = 32;
/// Largest total size (bytes) of all files; the oldest are removed first.
const CAPACITY: u64 = 1 << 30;

/// A folder of compiled code.
#[derive(Debug)]
pub struct CodeCache {
    folder: PathBuf,
    key: [u8; KEY],
}

/// Reason why compiled code cannot be kept. Plugins load without a cache, only slower.
#[derive(Debug, thiserror::Error)]
#[error("compiled plugins are not kept: {}: {reason}", .path.display())]
pub struct CacheError {
    path: PathBuf,
    reason: String,
}

/// Code that this user's program compiled and signed. Only this module creates one.
pub(crate) struct VerifiedCode(Vec<u8>);

impl VerifiedCode {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[TAG..]
    }
}

impl CodeCache {
    /// Opens `folder`, creating it if it does not exist.
    ///
    /// # Errors
    /// When it cannot be created, belongs to another user, or others can read or write it.
    pub fn open(folder: &Path) -> Result<Self, CacheError> {
        let failed = |reason: String| CacheError {
            path: folder.to_owned(),
            reason,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| failed(error.to_string()))?;
        let metadata = fs::symlink_metadata(folder).map_err(|error| failed(error.to_string()))?;
        if !metadata.is_dir() {
            return Err(failed("is not a folder".to_owned()));
        }
        private(&metadata).map_err(failed)?;
        let path = folder.join("key");
        let key = match read_key(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(folder, &path),
            other => other,
        };
        Ok(Self {
            folder: folder.to_owned(),
            key: key.map_err(|error| CacheError {
                path,
                reason: error.to_string(),
            })?,
        })
    }

    /// Loads the code of the component with this SHA-256, if it is in the cache and its HMAC is valid. A file with an
    /// invalid HMAC is removed.
    pub(crate) fn load(&self, engine: &Engine, sha256: &str) -> Option<VerifiedCode> {
        let name = name(engine, sha256);
        let path = self.folder.join(&name);
        let bytes = match read_private(&path, CAPACITY) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => Vec::new(),
        };
        let sound = bytes
            .split_at_checked(TAG)
            .is_some_and(|(tag, code)| self.mac(&name, code).verify_slice(tag).is_ok());
        if !sound {
            // If it cannot be removed, it is rejected the next time, too.
            let _ = fs::remove_file(&path);
            return None;
        }
        Some(VerifiedCode(bytes))
    }

    /// Removes code whose HMAC is valid but which the engine rejects.
    pub(crate) fn forget(&self, engine: &Engine, sha256: &str) {
        let _ = fs::remove_file(self.folder.join(name(engine, sha256)));
    }

    /// Stores the result of `Component::serialize`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn store(
        &self,
        engine: &Engine,
        sha256: &str,
        code: &[u8],
    ) -> Result<(), CacheError> {
        let name = name(engine, sha256);
        let path = self.folder.join(&name);
        let tag = self.mac(&name, code).finalize().into_bytes();
        let written = self
            .make_room((TAG + code.len()) as u64)
            .and_then(|()| replace(&self.folder, &path, &[&tag, code]));
        written.map_err(|error| CacheError {
            path,
            reason: error.to_string(),
        })
    }

    fn mac(&self, name: &str, code: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.key.into());
        mac.update(name.as_bytes());
        mac.update(&[0]);
        mac.update(code);
        mac
    }

    /// Removes the oldest files until `bytes` more fit.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() && entry.file_name() != "key" {
                files.push((metadata.modified()?, metadata.len(), entry.path()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if total + bytes <= CAPACITY {
                break;
            }
            fs::remove_file(path)?;
            total -= size;
        }
        Ok(())
    }
}

/// Returns the name of a component's file: its SHA-256, and a hash of everything of the engine that the code depends
/// on.
fn name(engine: &Engine, sha256: &str) -> String {
    // The result may change with the version of Rust; code is then compiled again.
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{sha256}-{:016x}", hasher.finish())
}

/// Checks that only this user can have written the file, and that nobody else can read it.
fn private(metadata: &Metadata) -> Result<(), String> {
    if metadata.uid() != geteuid().as_raw() {
        return Err("belongs to another user".to_owned());
    }
    if metadata.mode() & 0o077 != 0 {
        return Err("others may read or write it; run `chmod go-rwx` on it".to_owned());
    }
    Ok(())
}

fn read_private(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Symbolic links are not followed, and opening a pipe must not block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > limit {
        return Err(io::Error::other("is not a file that this program wrote"));
    }
    private(&metadata).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_key(path: &Path) -> io::Result<[u8; KEY]> {
    let bytes = read_private(path, KEY as u64)?;
    bytes
        .try_into()
        .map_err(|_| io::Error::other("is not a valid key; remove it to get a new one"))
}

/// Creates the key. If two programs start at the same time, both use the key of the first.
fn make_key(folder: &Path, path: &Path) -> io::Result<[u8; KEY]> {
    let mut key = [0; KEY];
    pbg_clock::fill_random(&mut key).map_err(io::Error::other)?;
    let partial = write_new(folder, &[&key])?;
    let linked = fs::hard_link(&partial, path);
    fs::remove_file(&partial)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => read_key(path),
    }
}

fn replace(folder: &Path, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let partial = write_new(folder, parts)?;
    fs::rename(&partial, path).inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    })
}

/// Writes a file under a name that no other program uses, and returns its path.
fn write_new(folder: &Path, parts: &[&[u8]]) -> io::Result<PathBuf> {
    let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
    if getrlimit(Resource::Fsize)
        .current
        .is_some_and(|limit| size > limit)
    {
        // Writing beyond the limit would end the program with a signal.
        return Err(io::Error::other(
            "larger than the file size limit of this process",
        ));
    }
    let mut suffix = [0; 8];
    pbg_clock::fill_random(&mut suffix).map_err(io::Error::other)?;
    let path = folder.join(format!("{:016x}.partial", u64::from_ne_bytes(suffix)));
    let write = |mut file: File| parts.iter().try_for_each(|part| file.write_all(part));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(write)
        .inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
    Ok(path)
}
