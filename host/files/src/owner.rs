//! Detection of the dataset, checkpoint or index that a folder belongs to. Other files put there are lost when it is
//! replaced or cleaned up.

use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::STAGED_SUFFIX;
use crate::sealed_json::MANIFEST;

/// Number of bytes at the start of a manifest that contain the name of its format.
const HEAD_BYTES: u64 = 256;

/// Kind of the owner of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// Dataset, which an import replaces as a whole.
    Dataset,
    /// Checkpoint, from which a run removes files.
    Checkpoint,
    /// Index, from which a build removes files.
    Index,
}

impl OwnerKind {
    const ALL: [Self; 3] = [Self::Dataset, Self::Checkpoint, Self::Index];

    /// Returns the name of the owner's format in its manifest.
    #[must_use]
    pub const fn format_name(self) -> &'static str {
        match self {
            Self::Dataset => "pbg-host dataset",
            Self::Checkpoint => "pbg-host checkpoint",
            Self::Index => "pbg-host index",
        }
    }
}

/// Owner of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Kind of the owner.
    pub kind: OwnerKind,
    /// Folder of the owner.
    pub path: PathBuf,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            OwnerKind::Dataset => "the dataset",
            OwnerKind::Checkpoint => "the checkpoint",
            OwnerKind::Index => "the index",
        };
        write!(f, "{kind} {}", self.path.display())
    }
}

/// Returns the owner of `folder`, which may not exist yet. A dataset owns everything below its folder, because an
/// import replaces it as a whole. A checkpoint or an index owns its folder and the subfolders that a run removes from
/// it.
#[must_use]
pub fn owner_of(folder: &Path) -> Option<Owner> {
    let folder = resolve_path(folder)?;
    let mut below: Option<&str> = None;
    for path in folder.ancestors() {
        let kind = manifest_kind(path);
        let owns = match (kind, below) {
            (None, _) => false,
            (Some(OwnerKind::Dataset), _) | (_, None) => true,
            (Some(OwnerKind::Checkpoint | OwnerKind::Index), Some(name)) => {
                is_managed_subfolder(name)
            }
        };
        if let Some(kind) = kind.filter(|_| owns) {
            let path = path.to_owned();
            return Some(Owner { kind, path });
        }
        below = path.file_name().map(|name| name.to_str().unwrap_or(""));
    }
    None
}

/// Returns whether a run or an index build creates and removes a subfolder of this name in a checkpoint's folder.
#[must_use]
pub fn is_managed_subfolder(name: &str) -> bool {
    let beginnings = ["epoch_", "index_", "evaluation."];
    name == "best"
        || name.ends_with(STAGED_SUFFIX)
        || beginnings.iter().any(|start| name.starts_with(start))
}

/// Returns a path without symbolic links and dots. The part of the path that does not exist is kept as it is.
#[must_use]
pub fn resolve_path(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|there| {
        let rest = path.strip_prefix(there).ok()?;
        let there = match there.as_os_str().is_empty() {
            true => Path::new("."),
            false => there,
        };
        let there = fs::canonicalize(there).ok()?;
        // Joining an empty path would append a slash.
        Some(match rest.as_os_str().is_empty() {
            true => there,
            false => there.join(rest),
        })
    })
}

/// Returns the kind of the manifest in `folder`; `None` if there is none.
#[must_use]
pub fn manifest_kind(folder: &Path) -> Option<OwnerKind> {
    let path = folder.join(MANIFEST);
    if !path.is_file() {
        return None;
    }
    let mut head = Vec::new();
    File::open(path)
        .ok()?
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .ok()?;
    let head = String::from_utf8_lossy(&head);
    OwnerKind::ALL
        .into_iter()
        .find(|kind| head.contains(&format!("\"{}\"", kind.format_name())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed_json::{self, ManifestFormat};

    fn put(folder: &Path, kind: OwnerKind) {
        fs::create_dir_all(folder).unwrap();
        let format = ManifestFormat {
            name: kind.format_name(),
            version: 1,
            oldest: 1,
        };
        let text = sealed_json::seal(format, &serde_json::json!({})).unwrap();
        fs::write(folder.join(MANIFEST), text).unwrap();
    }

    #[test]
    fn a_dataset_has_all_that_is_below_it_and_a_checkpoint_what_a_run_removes() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        put(&path("data"), OwnerKind::Dataset);
        put(&path("model"), OwnerKind::Checkpoint);
        put(&path("model/index_dot"), OwnerKind::Index);
        fs::create_dir(path("page")).unwrap();
        fs::write(path("page/manifest.json"), "{\"name\": \"a page\"}").unwrap();
        std::os::unix::fs::symlink("data", path("link")).unwrap();
        let of = |name: &str| owner_of(&path(name)).map(|owner| owner.kind);
        for name in [
            "data",
            "data/none",
            "data/none/below",
            "link/none",
            "link/../data",
        ] {
            assert_eq!(of(name), Some(OwnerKind::Dataset), "{name}");
        }
        for name in ["model", "model/best", "model/epoch_3/below", "model/x.tmp"] {
            assert_eq!(of(name), Some(OwnerKind::Checkpoint), "{name}");
        }
        assert_eq!(of("model/index_dot"), Some(OwnerKind::Index));
        for name in ["", "none", "page", "model/exported", "model/exported/best"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
