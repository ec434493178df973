//! Local copies of folders in object stores.
//!
//! A copy has a folder of its own in the user's folder for caches. What has not changed since the last copy is not copied
//! again. Its manifest is copied last, and what the store no longer has is removed then, so a copy that was interrupted
//! still has the previous version. Nothing is changed while somebody uses a copy: a newer version gets another folder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pbg_files::remote::{LocalCopy, ObjectStores, Patience, RemoteFile, RemoteFolder};
use sha2::{Digest, Sha256};

use crate::connection::StoreSettings;
use crate::copied_files::CopiedFiles;
use crate::names;
use crate::object_folder::ObjectFolder;
use crate::url::ObjectUrl;

/// File that is locked while a copy is changed or used.
const LOCK: &str = ".lock-copy";
/// How often a folder is listed again because objects were replaced while it was copied.
const ATTEMPTS: usize = 20;
/// Largest number of copies of a folder that are in use at the same time.
const MAX_COPIES: usize = 64;

/// Message to the user: what is copied where, or what is waited for.
pub type CopyNotice = Box<dyn Fn(&str) + Send + Sync>;

/// Local copies of folders, below one folder.
pub struct CopiedFolders {
    folder: PathBuf,
    settings: StoreSettings,
    notice: CopyNotice,
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
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || ['-', '_'].contains(c);
        let readable: String = url.last_part().chars().filter(is_plain).take(40).collect();
        self.folder.join(format!("{readable}-{digest:016x}"))
    }

    /// Returns a copy with what `list` returns: one that is up to date, or one that nobody uses and that is then brought
    /// up to date.
    fn current(
        &self,
        url: &ObjectUrl,
        remote: &ObjectFolder,
        list: &dyn Fn() -> io::Result<Vec<RemoteFile>>,
        owns: &dyn Fn(&str) -> bool,
    ) -> io::Result<LocalCopy> {
        let first = self.folder_of(url);
        for number in 0..MAX_COPIES {
            let folder = match number {
                0 => first.clone(),
                _ => first.with_extension(number.to_string()),
            };
            create(&folder)?;
            let lock = self.shared_lock(&folder)?;
            for _ in 0..ATTEMPTS {
                let listed = list()?;
                if CopiedFiles::read(&folder).missing(&listed).is_empty() {
                    return Ok(LocalCopy { folder, lock });
                }
                // Others may use the copy as it is.
                lock.unlock()?;
                match lock.try_lock() {
                    Ok(()) => self.update(remote, &listed, &folder, owns)?,
                    Err(TryLockError::WouldBlock) => break,
                    Err(TryLockError::Error(error)) => return Err(error),
                }
                lock.unlock()?;
                lock.lock_shared()?;
            }
        }
        Err(io::Error::other(
            "its objects are replaced faster than they can be copied",
        ))
    }

    /// Locks a copy against changes. Waits while another process changes it.
    fn shared_lock(&self, folder: &Path) -> io::Result<File> {
        let mut options = File::options();
        let file = options.append(true).create(true).open(folder.join(LOCK))?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let shown = folder.display();
                (self.notice)(&format!(
                    "waiting for another process that copies to {shown}"
                ));
                file.lock_shared()?;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(file)
    }

    /// Copies what is missing or has changed, and then removes the files that `owns` and `listed` lacks. Ends early if an
    /// object was replaced since it was listed.
    fn update(
        &self,
        remote: &ObjectFolder,
        listed: &[RemoteFile],
        to: &Path,
        owns: &dyn Fn(&str) -> bool,
    ) -> io::Result<()> {
        let mut copied = CopiedFiles::read(to);
        let missing = copied.missing(listed);
        self.announce(remote, &missing, to)?;
        copied.forget(&missing)?;
        let (manifests, others): (Vec<_>, Vec<_>) = missing
            .into_iter()
            .partition(|file| names::is_manifest(&file.name));
        for file in others.into_iter().chain(manifests) {
            let ended = copied.copy(remote, file);
            if let Err(error) = ended {
                copied.write()?;
                let is_gone = [
                    io::ErrorKind::NotFound,
                    io::ErrorKind::StaleNetworkFileHandle,
                ];
                if is_gone.contains(&error.kind()) {
                    return Ok(());
                }
                let (kind, name) = (error.kind(), &file.name);
                return Err(io::Error::new(kind, format!("{name}: {error}")));
            }
        }
        copied.write()?;
        copied.remove_others(listed, owns)
    }

    /// Says what will be copied, and refuses it if the disk lacks the room.
    fn announce(&self, remote: &ObjectFolder, files: &[&RemoteFile], to: &Path) -> io::Result<()> {
        let add = |sum: u64, file: &&RemoteFile| sum.saturating_add(file.size);
        let bytes = files.iter().fold(0, add);
        if bytes == 0 {
            return Ok(());
        }
        let there = |file: &&RemoteFile| names::partial_size(&to.join(&file.name), file);
        let lacking = bytes.saturating_sub(files.iter().map(there).sum());
        let free = rustix::fs::statvfs(to).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        let what = names::count(files.len(), "object");
        if let Ok(free) = free
            && free < lacking
        {
            let (lacking, free) = (names::bytes(lacking), names::bytes(free));
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "{what} need {lacking} more in {}, where {free} are free",
                    to.display()
                ),
            ));
        }
        let (url, size, to) = (remote.url(), names::bytes(bytes), to.display());
        (self.notice)(&format!("copying {what} of {url} ({size}) to {to}"));
        Ok(())
    }
}

impl ObjectStores for CopiedFolders {
    fn open(&self, url: &str, patience: Patience) -> io::Result<Arc<dyn RemoteFolder>> {
        let url = ObjectUrl::parse(url)?;
        Ok(Arc::new(ObjectFolder::open(url, &self.settings, patience)?))
    }

    fn copy(&self, url: &str, wanted: &dyn Fn(&str) -> bool) -> io::Result<LocalCopy> {
        let url = ObjectUrl::parse(url)?;
        let remote = ObjectFolder::open(url.clone(), &self.settings, Patience::Long)?;
        let list = || {
            let mut listed = remote.list()?;
            listed.retain(|file| wanted(&file.name));
            names::usable(listed)
        };
        self.current(&url, &remote, &list, wanted)
    }

    fn copy_object(&self, url: &str, name: &str) -> io::Result<LocalCopy> {
        let parent = ObjectUrl::parse(url)?;
        let remote = ObjectFolder::open(parent, &self.settings, Patience::Long)?;
        let list = || match names::usable(vec![remote.look_up(name)?])? {
            listed if listed.is_empty() => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "its name cannot be that of a file here",
            )),
            listed => Ok(listed),
        };
        // Each object has a copy of its own, which is removed when it is no longer needed.
        let own = ObjectUrl::parse(&format!("{url}/{name}"))?;
        self.current(&own, &remote, &list, &|_| true)
    }

    fn outgoing(&self, url: &str) -> io::Result<PathBuf> {
        let copy = self.folder_of(&ObjectUrl::parse(url)?);
        let process = std::process::id();
        create(&self.folder)?;
        for number in 0..MAX_COPIES {
            let folder = copy.with_extension(format!("out-{process}-{number}"));
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|()| folder),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// Creates a folder for copies.
fn create(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder).map_err(|error| {
        let (kind, folder) = (error.kind(), folder.display());
        let what = format!(
            "the folder for copies {folder} cannot be created: {error}; set PBG_HOST_CACHE to a folder that can be written"
        );
        io::Error::new(kind, what)
    })
}
