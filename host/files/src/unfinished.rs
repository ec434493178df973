//! Files that get their name when they are complete.
//!
//! Where the file system supports it (`O_TMPFILE`), the file has no name until then, and nothing remains of it however
//! the process ends. Elsewhere it gets an unused temporary name next to the final one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use rustix::io::Errno;

use crate::error::FileError;
use crate::faults::step;
use crate::staged::{STAGED_SUFFIX, folder_of, rename, staged_name};

/// Folder in which the system lists the open files of this process. A file without a name is linked from there.
const OPEN_FILES: &str = "/proc/self/fd";

/// Temporary name of an incomplete file. Dropping it before the file has its final name removes the file.
#[derive(Debug)]
pub(super) struct UnnamedFile {
    /// Temporary name; `None` for a file without a name.
    staged: Option<PathBuf>,
}

impl UnnamedFile {
    /// Creates the file that will be named `path`.
    pub(super) fn create(path: &Path) -> Result<(File, Self), FileError> {
        let failed = |e| FileError::new("create", path, e);
        step(&staged_name(path)).map_err(failed)?;
        if let Some(file) = without_name(folder_of(path)).map_err(failed)? {
            return Ok((file, Self { staged: None }));
        }
        loop {
            let staged = unused_staged_name(path)?;
            match File::create_new(&staged) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    let file = made.map_err(|e| FileError::new("create", &staged, e))?;
                    let staged = Some(staged);
                    return Ok((file, Self { staged }));
                }
            }
        }
    }

    /// Names the complete file, replacing an existing file of that name.
    pub(super) fn name(mut self, file: &File, path: &Path) -> Result<(), FileError> {
        let staged = match &self.staged {
            Some(staged) => staged.clone(),
            None => {
                let staged = link(file.as_raw_fd(), path)?;
                self.staged.insert(staged).clone()
            }
        };
        rename(&staged, path)?;
        self.staged = None;
        Ok(())
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        if let Some(staged) = &self.staged {
            let _ = fs::remove_file(staged);
        }
    }
}

/// Creates a file without a name in `folder`; `None` where such files cannot be created, or not be named later.
fn without_name(folder: &Path) -> io::Result<Option<File>> {
    #[cfg(target_os = "linux")]
    const FLAGS: OFlags = OFlags::TMPFILE;
    // Other systems have no such flag, and no folder of open files either.
    #[cfg(not(target_os = "linux"))]
    const FLAGS: OFlags = OFlags::empty();
    if !Path::new(OPEN_FILES).is_dir() {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    let flags = FLAGS.bits().cast_signed();
    match options.write(true).custom_flags(flags).open(folder) {
        Ok(file) => Ok(Some(file)),
        // Systems that do not know the flag report these errors too.
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Gives an open file an unused temporary name next to `path`.
fn link(file: RawFd, path: &Path) -> Result<PathBuf, FileError> {
    let open = format!("{OPEN_FILES}/{file}");
    loop {
        let staged = unused_staged_name(path)?;
        step(&staged).map_err(|e| FileError::new("create", path, e))?;
        match linkat(CWD, &open, CWD, &staged, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) => return Ok(staged),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(FileError::new("create", path, error.into())),
        }
    }
}

/// Like [`staged_name`], for a folder with files of others: returns a name that no file has.
///
/// # Errors
/// When the folder cannot be read.
fn unused_staged_name(path: &Path) -> Result<PathBuf, FileError> {
    let mut staged = staged_name(path);
    for number in 2_u32.. {
        match fs::symlink_metadata(&staged) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(FileError::new("look for", &staged, error)),
            Ok(_) => {
                let mut name = path.file_name().unwrap_or_default().to_owned();
                name.push(format!(".{number}{STAGED_SUFFIX}"));
                staged = path.with_file_name(name);
            }
        }
    }
    Ok(staged)
}

#[cfg(test)]
mod tests {
    use super::super::ChecksummedFile;
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        fs::write(folder.path().join("other"), "other").unwrap();
        std::os::unix::fs::symlink("other", &path).unwrap();
        std::os::unix::fs::symlink("other", folder.path().join("table.tmp")).unwrap();
        let mut file = ChecksummedFile::unfinished(&path).unwrap();
        file.put(b"half").unwrap();
        drop(file);
        assert_eq!(names(folder.path()), ["other", "table", "table.tmp"]);
        assert!(path.is_symlink());
        let mut file = ChecksummedFile::unfinished(&path).unwrap();
        file.put(b"whole").unwrap();
        assert_eq!(file.finish(true).unwrap().size, 5);
        assert_eq!(names(folder.path()), ["other", "table", "table.tmp"]);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read(folder.path().join("other")).unwrap(), b"other");
    }

    #[test]
    fn what_is_created_anew_leaves_what_a_link_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["file", "other"].map(|name| folder.path().join(name));
        let links: [fn(&Path, &Path) -> io::Result<()>; 2] = [
            |from, to| fs::hard_link(from, to),
            |from, to| std::os::unix::fs::symlink(from, to),
        ];
        for link in links {
            fs::write(&other, "other").unwrap();
            link(&other, &path).unwrap();
            let mut file = ChecksummedFile::create(&path).unwrap();
            file.put(b"new").unwrap();
            file.finish(false).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(fs::read(&other).unwrap(), b"other");
            fs::remove_file(&path).unwrap();
        }
    }
}
