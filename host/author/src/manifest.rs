//! `plugin.toml`: name, language and world of a plugin project, as its build needs them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;

use crate::error::BuildError;
use crate::language::Language;
use crate::world::World;

/// Name of the file.
pub const MANIFEST: &str = "plugin.toml";

/// Largest size of a manifest (bytes).
const MAX_BYTES: u64 = 64 << 10;

/// Content of `plugin.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectManifest {
    /// Name of the plugin, its component, and the module with its code.
    pub name: String,
    /// Language of the project.
    pub language: Language,
    /// World that the component exports.
    pub world: World,
}

impl ProjectManifest {
    /// Reads the manifest of a project.
    ///
    /// # Errors
    /// [`BuildError::NoProject`] if the file does not exist, [`BuildError::Manifest`] if it is invalid.
    pub fn read(folder: &Path) -> Result<Self, BuildError> {
        let path = folder.join(MANIFEST);
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BuildError::NoProject {
                    folder: folder.to_owned(),
                });
            }
            Err(error) => return Err(BuildError::io("read", &path, error)),
        };
        let wrong = |reason: String| BuildError::Manifest {
            path: path.clone(),
            reason,
        };
        let manifest: Self = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        // The name becomes a file name, so it must not contain path separators.
        crate::name::PluginName::new(&manifest.name).map_err(|error| wrong(error.to_string()))?;
        Ok(manifest)
    }
}

/// Reads a regular file. Others are refused unopened: opening a pipe could block, and a device may have no end.
fn read_text(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        let reason = format!("it is not a regular file of at most {MAX_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut text = String::new();
    File::open(path)?
        .take(MAX_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}
