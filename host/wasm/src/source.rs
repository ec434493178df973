//! Sources of plugins: files, standard plugins and bytes in memory.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pbg_core::nearest::nearest;

use crate::error::LoadError;
use crate::slot::PluginSlot;
use crate::standard::{StandardPlugin, standard_plugins};

/// Source of a plugin that is to be loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PluginSource {
    /// A component file.
    File(PathBuf),
    /// A standard plugin, embedded in the program.
    Standard(&'static StandardPlugin),
    /// Bytes in memory, with a name for messages.
    Bytes {
        /// Name for messages.
        label: String,
        /// The component.
        bytes: Vec<u8>,
    },
}

impl PluginSource {
    /// Resolves `name` without a plugin path; see [`PluginPath::resolve`].
    ///
    /// # Errors
    /// As [`PluginPath::resolve`].
    pub fn resolve(name: &str) -> Result<Self, LoadError> {
        PluginPath::default().resolve(name)
    }

    /// Returns the name for messages: the path, or the standard plugin's name.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Standard(plugin) => plugin.name.to_owned(),
            Self::Bytes { label, .. } => label.clone(),
        }
    }

    /// Reads the bytes, at most `limit`.
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

/// Folders in which plugins are looked up by their bare names, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginPath(Vec<PathBuf>);

impl PluginPath {
    /// Creates a plugin path of `folders`. Folders that do not exist are treated as empty.
    #[must_use]
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        // An empty entry in a list of folders names no folder, not the working directory.
        let named = |folder: &PathBuf| !folder.as_os_str().is_empty();
        Self(folders.into_iter().filter(named).collect())
    }

    /// Returns the component files of all folders, sorted by folder and name. If several have the same name, only the
    /// first of them can be selected by it.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for folder in &self.0 {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            found.retain(|path| path.is_file() && path.extension().is_some_and(|e| e == "wasm"));
            found.sort();
            files.extend(found);
        }
        files
    }

    /// Resolves `name`, as given in a configuration or after `--plugin`. An existing file comes first. A bare name,
    /// with or without `.wasm`, is then looked up among the standard plugins, so that their names mean the same
    /// everywhere, and last in the folders.
    ///
    /// # Errors
    /// [`LoadError::Unknown`] if `name` is none of these.
    pub fn resolve(&self, name: &str) -> Result<PluginSource, LoadError> {
        self.find(name, None)
    }

    /// Resolves `name` as [`PluginPath::resolve`] does. The error is about plugins that fill `slot`, the place for which
    /// the plugin is wanted.
    ///
    /// # Errors
    /// As for [`PluginPath::resolve`].
    pub fn resolve_for(&self, name: &str, slot: PluginSlot) -> Result<PluginSource, LoadError> {
        self.find(name, Some(slot))
    }

    fn find(&self, name: &str, slot: Option<PluginSlot>) -> Result<PluginSource, LoadError> {
        let path = Path::new(name);
        // A folder with the name of a standard plugin must not hide the plugin.
        if path.exists() && !path.is_dir() {
            return Ok(PluginSource::File(path.to_owned()));
        }
        let bare = name.strip_suffix(".wasm").unwrap_or(name);
        if let Some(found) = standard_plugins().iter().find(|plugin| plugin.name == bare) {
            return Ok(PluginSource::Standard(found));
        }
        let bare_name = !bare.is_empty() && !bare.contains(['/', '\\']);
        let file = format!("{bare}.wasm");
        let in_folder = |folder: &PathBuf| Some(folder.join(&file)).filter(|path| path.is_file());
        if let Some(found) = self.0.iter().filter(|_| bare_name).find_map(in_folder) {
            return Ok(PluginSource::File(found));
        }
        if path.is_dir() {
            let reason = "is a folder; name the .wasm file in it".to_owned();
            return Err(LoadError::Unreadable {
                path: path.to_owned(),
                reason,
            });
        }
        if name.contains("://") {
            let reason = match name.starts_with("oci://") {
                true => format!(
                    "is in a registry, but plugins are files: `pbg-host plugin pull {name}` pulls it, and prints the \
                     lines of `[[plugins.pins]]` that ensure that it stays the same"
                ),
                false => "is a URL, but plugins are files: download it, or pull it with `pbg-host plugin pull` if it \
                          is in an OCI registry, and name the file (a pin with its hash in `[[plugins.pins]]` ensures \
                          that it stays the same)"
                    .to_owned(),
            };
            return Err(LoadError::Unreadable {
                path: path.to_owned(),
                reason,
            });
        }
        Err(self.unknown(name, bare, slot))
    }

    /// Returns the error that no plugin is called `name`, or `bare` without its suffix.
    fn unknown(&self, name: &str, bare: &str, slot: Option<PluginSlot>) -> LoadError {
        let fits =
            |plugin: &&StandardPlugin| slot.is_none_or(|slot| plugin.kind.role() == slot.role());
        let standard: Vec<&str> = standard_plugins()
            .iter()
            .filter(fits)
            .map(|plugin| plugin.name)
            .collect();
        // The kinds of files are known only when they are loaded.
        let files = self.files();
        let stems = files.iter().filter_map(|file| file.file_stem()?.to_str());
        LoadError::Unknown {
            name: name.to_owned(),
            role: slot.map_or("plugin", PluginSlot::role),
            nearest: nearest(bare, standard.iter().copied().chain(stems)).map(str::to_owned),
            standard: slot.map(|_| standard.join(", ")),
        }
    }
}

fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    // Reading a pipe or a device could block forever.
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let too_large = || format!("is larger than {limit} bytes, the limit for a plugin");
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    File::open(path)
        .and_then(|file| file.take(limit.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(too_large());
    }
    Ok(bytes)
}
