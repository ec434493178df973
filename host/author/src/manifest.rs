//! `plugin.toml`: the parameters of a project's build.

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
const BYTES: u64 = 64 << 10;

/// The content of `plugin.toml`.
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
        let text = match text_of(&path) {
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
        // The name is used as the path of a file.
        crate::name::PluginName::new(&manifest.name).map_err(|error| wrong(error.to_string()))?;
        Ok(manifest)
    }
}

/// Reads a regular file. Opening a pipe could block, and a device never ends.
fn text_of(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > BYTES {
        let reason = format!("it is not a regular file of at most {BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut text = String::new();
    File::open(path)?.take(BYTES).read_to_string(&mut text)?;
    Ok(text)
}
