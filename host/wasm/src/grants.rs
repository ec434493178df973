//! Read access of plugins to the folders that the user granted them. It goes through cap-std, which rejects every path
//! that leads out of them.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use pbg_core::text::escaped;
use rustix::fs::OFlags;

use crate::error::LoadError;

/// Largest number of entries of a folder that can be listed.
const ENTRIES: usize = 10_000;
/// Bytes of a path that a message shows.
const PATH_BYTES: usize = 200;

/// Folders that one plugin may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderGrant {
    /// Name of the plugin.
    pub plugin: String,
    /// Folders that it may read.
    pub read: Vec<PathBuf>,
}

/// Open folders of one plugin.
#[derive(Debug, Default)]
pub(crate) struct GrantedFolders(Vec<GrantedFolder>);

#[derive(Debug)]
struct GrantedFolder {
    path: PathBuf,
    folder: Dir,
}

/// An entry of a folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FolderEntry {
    pub(crate) name: String,
    pub(crate) folder: bool,
    pub(crate) bytes: u64,
}

impl GrantedFolders {
    /// Opens the folders that `grants` lists for `plugin`. They stay those that were granted, even if another folder
    /// takes their name later.
    pub(crate) fn open(grants: &[FolderGrant], plugin: &str) -> Result<Self, LoadError> {
        let paths = grants
            .iter()
            .filter(|grant| grant.plugin == plugin)
            .flat_map(|grant| &grant.read);
        let open = |path: &PathBuf| {
            let opened = Dir::open_ambient_dir(path, ambient_authority());
            let folder = opened.map_err(|error| LoadError::Grant {
                label: plugin.to_owned(),
                path: path.clone(),
                reason: error.to_string(),
            })?;
            let path = path.clone();
            Ok(GrantedFolder { path, folder })
        };
        paths.map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the paths of the folders.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|granted| granted.path.as_path())
    }

    /// Reads a file of at most `limit` bytes.
    pub(crate) fn read(&self, path: &str, limit: usize) -> Result<Vec<u8>, String> {
        self.first(path, |folder| read(folder, path, limit))
    }

    /// Lists a folder, sorted by name.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<FolderEntry>, String> {
        self.first(path, |folder| list(folder, path))
    }

    /// Calls `answer` for each folder, and returns the result of the first that has `path`.
    fn first<T>(&self, path: &str, answer: impl Fn(&Dir) -> io::Result<T>) -> Result<T, String> {
        let shown = escaped(path, PATH_BYTES);
        if self.0.is_empty() {
            return Err(format!(
                "{shown}: no folder is granted to this plugin; grant one with [[plugins.grants]] in the configuration, \
                 or with `--read FOLDER` of `plugin check`, `bench` and `replay`"
            ));
        }
        for GrantedFolder { folder, .. } in &self.0 {
            match answer(folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other.map_err(|error| format!("{shown}: {error}")),
            }
        }
        Err(format!("{shown}: no such file in the granted folders"))
    }
}

fn read(folder: &Dir, path: &str, limit: usize) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    // Opening a pipe must not block.
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = folder.open_with(path, &options)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(io::Error::other(format!(
            "is larger than {limit} bytes, the limit for a file that a plugin reads \
             (plugins.limits.result_mib)"
        )));
    }
    Ok(bytes)
}

fn list(folder: &Dir, path: &str) -> io::Result<Vec<FolderEntry>> {
    let mut entries = Vec::new();
    for entry in folder.read_dir(path)? {
        let entry = entry?;
        if entries.len() == ENTRIES {
            let reason = format!("has more than {ENTRIES} entries");
            return Err(io::Error::other(reason));
        }
        let metadata = entry.metadata()?;
        if let Ok(name) = entry.file_name().into_string() {
            entries.push(FolderEntry {
                name,
                folder: metadata.is_dir(),
                bytes: if metadata.is_dir() { 0 } else { metadata.len() },
            });
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a granted folder with a file, a folder and links that lead out of it, next to a file that is not
    /// granted.
    fn granted() -> (tempfile::TempDir, GrantedFolders) {
        let place = tempfile::tempdir().expect("a folder");
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("open/inner")).expect("a folder");
        fs::write(path("secret"), "secret").expect("a file");
        fs::write(path("open/plan.csv"), "0,0\n").expect("a file");
        fs::write(path("open/inner/deep.csv"), "1,1\n").expect("a file");
        symlink("../secret", path("open/relative")).expect("a link");
        symlink(path("secret"), path("open/absolute")).expect("a link");
        symlink("..", path("open/up")).expect("a link");
        symlink("inner/deep.csv", path("open/inside")).expect("a link");
        let grant = FolderGrant {
            plugin: "reader".to_owned(),
            read: vec![path("open")],
        };
        let folders = GrantedFolders::open(&[grant], "reader").expect("it opens");
        (place, folders)
    }

    #[test]
    fn what_is_in_the_folder_is_read() {
        let (_place, folders) = granted();
        assert_eq!(folders.read("plan.csv", 100), Ok(b"0,0\n".to_vec()));
        assert_eq!(folders.read("inner/deep.csv", 100), Ok(b"1,1\n".to_vec()));
        assert_eq!(folders.read("inside", 100), Ok(b"1,1\n".to_vec()));
        assert_eq!(folders.read("inner/../plan.csv", 4), Ok(b"0,0\n".to_vec()));
        let entry = |name: &str, folder, bytes| FolderEntry {
            name: name.to_owned(),
            folder,
            bytes,
        };
        assert_eq!(folders.list("inner"), Ok(vec![entry("deep.csv", false, 4)]));
        let names: Vec<_> = folders.list(".").expect("the folder itself");
        assert!(names.contains(&entry("inner", true, 0)), "{names:?}");
    }

    #[test]
    fn no_path_leads_out() {
        let (place, folders) = granted();
        let absolute = place.path().join("secret");
        for path in [
            "../secret",
            "inner/../../secret",
            "relative",
            "absolute",
            "up/secret",
            "/etc/passwd",
            absolute.to_str().expect("a plain path"),
        ] {
            let error = folders.read(path, 100).expect_err(path);
            assert!(error.contains(path), "{error}");
            assert!(folders.list(path).is_err(), "{path}");
        }
        assert!(folders.list("..").is_err());
        assert!(folders.list("up").is_err());
    }

    #[test]
    fn sizes_and_kinds_of_files_are_checked() {
        let (place, folders) = granted();
        assert!(folders.read("plan.csv", 3).unwrap_err().contains("larger"));
        assert!(folders.read("inner", 100).is_err());
        assert!(folders.read("", 100).is_err());
        assert!(folders.read("plan.csv\0", 100).is_err());
        let pipe = place.path().join("open/pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        assert!(
            folders
                .read("pipe", 100)
                .unwrap_err()
                .contains("not a regular file")
        );
        let shown = folders.read("no\u{1b}[2J", 100).unwrap_err();
        assert!(shown.starts_with("no\\u{1b}[2J: no such file"), "{shown}");
    }

    #[test]
    fn grants_are_for_one_plugin() {
        let (place, _) = granted();
        let grant = FolderGrant {
            plugin: "reader".to_owned(),
            read: vec![place.path().to_owned()],
        };
        let other = GrantedFolders::open(&[grant], "other").expect("nothing to open");
        let error = other.read("secret", 100).unwrap_err();
        assert!(error.contains("no folder is granted"), "{error}");

        let missing = FolderGrant {
            plugin: "reader".to_owned(),
            read: vec![place.path().join("nowhere")],
        };
        let error = GrantedFolders::open(&[missing], "reader").expect_err("it is not there");
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}
