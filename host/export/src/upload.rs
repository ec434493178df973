//! Sends exported files to a folder in an object store.

use std::path::{Path, PathBuf};

use pbg_files::FileError;
use pbg_files::remote::{self, Patience};

use crate::{ExportError, ExportOptions};

/// Sends `files` to the folder `url`, and returns the URLs of the objects. The names of objects that exist are refused
/// unless `options` allow to overwrite them.
pub(crate) fn send(
    url: &str,
    files: &[PathBuf],
    options: &ExportOptions,
) -> Result<Vec<PathBuf>, ExportError> {
    let folder = remote::open_folder(url, Patience::Long)?;
    let mut sent = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        sent.push((file, Path::new(url).join(&*name), name));
    }
    if !options.overwrite {
        for (_, object, name) in &sent {
            if remote::has_object(url, name)? {
                return Err(ExportError::Exists(object.clone()));
            }
        }
    }
    for (file, object, name) in &sent {
        let uploaded = folder.upload(file, name);
        uploaded.map_err(|cause| FileError::new("write", object, cause))?;
    }
    Ok(sent.into_iter().map(|(_, object, _)| object).collect())
}
