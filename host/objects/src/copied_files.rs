//! The files of a local copy, and the record of the contents that they have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pbg_files::remote::{COPY_RECORD, RemoteFile, RemoteFolder};
use pbg_files::{self as files, FileError};
use serde::{Deserialize, Serialize};

use crate::names;
use crate::object_folder::ObjectFolder;

/// Largest size of the record in bytes.
const MAX_RECORD: u64 = 256 << 20;
/// Bytes that are copied before the record is written again.
const RECORD_EVERY: u64 = 64 << 20;

/// Files of a copy.
pub(crate) struct CopiedFiles {
    folder: PathBuf,
    contents: BTreeMap<String, CopiedContent>,
    /// Bytes copied since the record was written.
    unrecorded: u64,
}

/// Content of a file when it was copied.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CopiedContent {
    size: u64,
    etag: String,
    modified: i64,
}

impl CopiedContent {
    fn of(file: &RemoteFile) -> Self {
        Self {
            size: file.size,
            etag: file.tag.etag.clone(),
            modified: file.modified,
        }
    }
}

impl CopiedFiles {
    /// Reads the record of the copy in `folder`. A damaged one counts as empty: everything is copied again.
    pub(crate) fn read(folder: &Path) -> Self {
        let bytes = files::read(&folder.join(COPY_RECORD), MAX_RECORD).unwrap_or_default();
        Self {
            folder: folder.to_owned(),
            contents: serde_json::from_slice(&bytes).unwrap_or_default(),
            unrecorded: 0,
        }
    }

    /// Writes the record.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let bytes = serde_json::to_vec(&self.contents)?;
        let path = self.folder.join(COPY_RECORD);
        self.unrecorded = 0;
        files::replace(&path, &bytes).map_err(|FileError { cause, .. }| cause)
    }

    /// Returns the objects that the copy lacks or has with other content.
    pub(crate) fn missing<'a>(&self, listed: &'a [RemoteFile]) -> Vec<&'a RemoteFile> {
        let is_missing = |file: &&RemoteFile| {
            let is_recorded = self.contents.get(&file.name) == Some(&CopiedContent::of(file));
            let there = fs::metadata(self.folder.join(&file.name));
            !is_recorded || there.map(|there| there.len()).ok() != Some(file.size)
        };
        listed.iter().filter(is_missing).collect()
    }

    /// Removes `files` from the record, durably, before they are replaced.
    pub(crate) fn forget(&mut self, files: &[&RemoteFile]) -> io::Result<()> {
        for file in files {
            self.contents.remove(&file.name);
        }
        self.write()
    }

    /// Copies an object.
    pub(crate) fn copy(&mut self, remote: &ObjectFolder, file: &RemoteFile) -> io::Result<()> {
        let path = self.folder.join(&file.name);
        self.make_room(&file.name)?;
        remote.download(file, &path)?;
        let content = CopiedContent::of(file);
        self.contents.insert(file.name.clone(), content);
        self.unrecorded = self.unrecorded.saturating_add(file.size);
        match self.unrecorded > RECORD_EVERY {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Creates the folders above the file `name`, and removes files and folders that are in its way: an object may now have
    /// the name that a folder had, or the reverse.
    fn make_room(&mut self, name: &str) -> io::Result<()> {
        for (end, _) in name.match_indices('/') {
            let above = self.folder.join(&name[..end]);
            if fs::symlink_metadata(&above).is_ok_and(|there| !there.is_dir()) {
                fs::remove_file(&above)?;
                self.contents.remove(&name[..end]);
            }
        }
        let path = self.folder.join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
            let below = format!("{name}/");
            self.contents.retain(|other, _| !other.starts_with(&below));
        }
        path.parent().map_or(Ok(()), fs::create_dir_all)
    }

    /// Removes the copied files that the store no longer has, as far as `owns` is true of their names, and incomplete ones.
    pub(crate) fn remove_others(
        &mut self,
        listed: &[RemoteFile],
        owns: &dyn Fn(&str) -> bool,
    ) -> io::Result<()> {
        let listed: BTreeSet<&str> = listed.iter().map(|file| file.name.as_str()).collect();
        let is_gone = |name: &&String| owns(name) && !listed.contains(name.as_str());
        let gone: Vec<String> = self.contents.keys().filter(is_gone).cloned().collect();
        for name in gone {
            let path = self.folder.join(&name);
            files::remove_unless_read(&path).map_err(|FileError { cause, .. }| cause)?;
            self.contents.remove(&name);
        }
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if names::is_partial(&path) {
                files::remove(&path).map_err(|FileError { cause, .. }| cause)?;
            }
        }
        self.write()
    }
}
