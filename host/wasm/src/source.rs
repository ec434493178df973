//! Where the bytes of a plugin come from.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pbg_core::config::nearest;

use crate::error::LoadError;
use crate::standard::{Standard, standard};

/// A plugin to be loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PluginSource {
    /// A component file.
    File(PathBuf),
    /// One that comes with the program.
    Standard(&'static Standard),
    /// Bytes at hand, with a name for messages.
    Bytes {
        /// Name for messages.
        label: String,
        /// The component.
        bytes: Vec<u8>,
    },
}

impl PluginSource {
    /// What `name` in a configuration or after `--plugin` means: an existing file wins; a bare
    /// name, with or without `.wasm`, is looked up among the standard plugins.
    ///
    /// # Errors
    /// [`LoadError::Unknown`] where it is neither.
    pub fn resolve(name: &str) -> Result<Self, LoadError> {
        let path = Path::new(name);
        // A folder of a standard plugin's name must not hide the plugin.
        if path.exists() && !path.is_dir() {
            return Ok(Self::File(path.to_owned()));
        }
        let bare = name.strip_suffix(".wasm").unwrap_or(name);
        if let Some(found) = standard().iter().find(|plugin| plugin.name == bare) {
            return Ok(Self::Standard(found));
        }
        if path.is_dir() {
            let reason = "is a folder; name the .wasm file in it".to_owned();
            return Err(LoadError::Unreadable {
                path: path.to_owned(),
                reason,
            });
        }
        let names = || standard().iter().map(|plugin| plugin.name);
        Err(LoadError::Unknown {
            name: name.to_owned(),
            nearest: nearest(bare, names()),
            standard: names().collect::<Vec<_>>().join(", "),
        })
    }

    /// How messages name it: the path, or the standard plugin's name.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Standard(plugin) => plugin.name.to_owned(),
            Self::Bytes { label, .. } => label.clone(),
        }
    }

    /// The bytes, at most `limit`.
    ///
    /// # Errors
    /// [`LoadError::Unreadable`].
    pub(crate) fn read(self, limit: u64) -> Result<std::borrow::Cow<'static, [u8]>, LoadError> {
        match self {
            Self::File(path) => match read_file(&path, limit) {
                Ok(bytes) => Ok(bytes.into()),
                Err(reason) => Err(LoadError::Unreadable { path, reason }),
            },
            Self::Standard(plugin) => Ok(plugin.bytes.into()),
            Self::Bytes { bytes, .. } => Ok(bytes.into()),
        }
    }
}

fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    // Reading a pipe or a device could wait for ever.
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(format!(
            "is larger than {limit} bytes, the most a plugin may have"
        ));
    }
    Ok(bytes)
}
