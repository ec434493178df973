//! Checks whether a folder can store files, made before anything is written to it.

use std::fs;
use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::statfs;
use rustix::fs::{Access, access};

use super::FileError;

/// Magic numbers (statfs) of the file systems that only expose kernel state.
#[cfg(target_os = "linux")]
const OF_KERNEL: [u64; 16] = [
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x0000_1cd1, // devpts
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xcafe_4a11, // bpf
    0x6165_676c, // pstore
    0x6265_6570, // configfs
    0xde5e_81e4, // efivarfs
    0xf97c_ff8c, // selinuxfs
    0x4249_4e4d, // binfmt_misc
    0x1980_0202, // mqueue
    0x6e73_6673, // nsfs
];

/// Returns whether `folder`, or its nearest existing ancestor, exposes kernel state instead of storing files.
#[must_use]
#[cfg(target_os = "linux")]
pub fn is_kernel_filesystem(folder: &Path) -> bool {
    let Some(there) = nearest(folder) else {
        return false;
    };
    // The magic number has 32 bits; the other bits may be filled by sign extension.
    statfs(there)
        .is_ok_and(|found| OF_KERNEL.contains(&(found.f_type.cast_unsigned() & 0xffff_ffff)))
}

/// Returns whether `folder` exposes kernel state instead of storing files: systems other than Linux have no such folders.
#[must_use]
#[cfg(not(target_os = "linux"))]
pub fn is_kernel_filesystem(_: &Path) -> bool {
    false
}

/// Checks that files can be created in `folder`, which may not exist yet.
///
/// # Errors
/// When `folder` is a file, or the user may not write to it or its nearest existing ancestor.
pub fn check_writable(folder: &Path) -> Result<(), FileError> {
    let Some(there) = nearest(folder) else {
        let cause = io::ErrorKind::NotFound.into();
        return Err(FileError::new("open", folder, cause));
    };
    if !there.is_dir() {
        let cause = io::ErrorKind::NotADirectory.into();
        return Err(FileError::new("create the folder", folder, cause));
    }
    let may = access(there, Access::WRITE_OK | Access::EXEC_OK);
    may.map_err(|e| FileError::new("write to", there, e.into()))
}

/// Returns the folder or its nearest existing ancestor.
fn nearest(folder: &Path) -> Option<&Path> {
    let mut above = folder
        .ancestors()
        .map(|path| match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        });
    above.find(|path| fs::metadata(path).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_kernel_keeps_no_files() {
        for folder in ["/proc", "/proc/self", "/proc/self/none", "/sys/kernel"] {
            assert!(is_kernel_filesystem(Path::new(folder)), "{folder}");
        }
        let folder = tempfile::tempdir().unwrap();
        for folder in [
            folder.path(),
            &folder.path().join("none/below"),
            Path::new("none"),
        ] {
            assert!(!is_kernel_filesystem(folder), "{}", folder.display());
            check_writable(folder).unwrap();
        }
    }

    #[test]
    fn a_file_is_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "text").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = check_writable(&path).unwrap_err();
            assert_eq!(error.path, path);
        }
    }
}
