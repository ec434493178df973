//! `plugin.toml`: what the build of a project has to know.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::error::BuildError;
use crate::language::Language;
use crate::world::World;

/// Name of the file.
pub const MANIFEST: &str = "plugin.toml";

/// The content of `plugin.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of the plugin, of its component and of the module with its code.
    pub name: String,
    /// What it is written in.
    pub language: Language,
    /// What it exports.
    pub world: World,
}

impl Manifest {
    /// Reads the manifest of a project.
    ///
    /// # Errors
    /// [`BuildError::NoProject`] where there is none, [`BuildError::Manifest`] where it is wrong.
    pub fn read(folder: &Path) -> Result<Self, BuildError> {
        let path = folder.join(MANIFEST);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
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
        // The name becomes the path of a file.
        crate::name::Name::new(&manifest.name).map_err(|error| wrong(error.to_string()))?;
        Ok(manifest)
    }
}
