//! Finds libtorch and its bridge, and loads them.

#![expect(
    unsafe_code,
    reason = "a library runs code as it is opened, which the compiler cannot check"
)]

use std::env;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};

pub use crate::library::FOLDER;
use crate::library::cause;
use crate::{bridge, loaded};

/// Environment variable with the folder of the bridges.
pub const BRIDGES: &str = "PBG_HOST_TORCH_BRIDGES";
/// Folder of the bridges beside the program.
const BESIDE: &str = "torch-bridges";
/// libtorch's libraries that a bridge calls, in the order in which they need each other.
const LIBRARIES: [&str; 2] = ["libc10.so", "libtorch_cpu.so"];

/// Headers that may have the version, beside the folder of the libraries.
const HEADERS: [&str; 2] = [
    "include/torch/headeronly/version.h",
    "include/torch/csrc/api/include/torch/version.h",
];

/// Folders of libtorch's libraries and of its bridges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibtorchPlace {
    /// Folder of libtorch's libraries, `torch/lib` of PyTorch.
    pub libraries: PathBuf,
    /// Folder of the bridges, one for each version of PyTorch.
    pub bridges: PathBuf,
}

/// Error of [`load`].
#[derive(Debug, thiserror::Error)]
pub enum LibtorchLoadError {
    /// A folder has no libtorch.
    #[error("there is no {} in {}{}", LIBRARIES[1], .0.display(), perhaps(.0))]
    NoLibtorch(PathBuf),
    /// The version of a libtorch is not known.
    #[error(
        "the version of the libtorch in {} is not known: the folder above has neither version.py nor libtorch's headers",
        .0.display()
    )]
    NoVersion(PathBuf),
    /// There is no bridge for a version of PyTorch.
    #[error("{} is the libtorch of PyTorch {version}; {}", libraries.display(), known(bridges, available))]
    NoBridge {
        /// Folder of libtorch.
        libraries: PathBuf,
        /// Its version.
        version: String,
        /// Folder of the bridges.
        bridges: PathBuf,
        /// Versions that have a bridge.
        available: Vec<String>,
    },
    /// A library cannot be opened.
    #[error("{} cannot be loaded: {cause}", path.display())]
    Library {
        /// Path of the library.
        path: PathBuf,
        /// Message of the system's loader.
        cause: String,
    },
    /// A bridge was made by another version of this program.
    #[error("{} lacks the function {function}: it belongs to another version of pbg-host", path.display())]
    OtherBridge {
        /// Path of the bridge.
        path: PathBuf,
        /// Name of the function.
        function: &'static str,
    },
}

/// Says that the folder below `named` has libtorch, if it does.
fn perhaps(named: &Path) -> String {
    let below = named.join("lib");
    match below.join(LIBRARIES[1]).is_file() {
        true => format!("; {} has it", below.display()),
        false => String::new(),
    }
}

/// Says which versions of PyTorch this program can use.
fn known(bridges: &Path, available: &[String]) -> String {
    match available {
        [] => format!("there are no bridges in {}", bridges.display()),
        [only] => format!("this program can use PyTorch {only}"),
        [oldest, .., newest] => format!("this program can use PyTorch {oldest} to {newest}"),
    }
}

/// Returns the folder that an environment variable names, if it is set.
#[must_use]
pub fn named(variable: &str) -> Option<PathBuf> {
    let value = env::var_os(variable).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Returns the folder into which set-up installs libtorch for a program in `folder`, which is `target/release` of a clone,
/// or `deps` in it.
fn of_clone(folder: &Path) -> PathBuf {
    let up = match folder.ends_with("deps") {
        true => "../../../.deps",
        false => "../../.deps",
    };
    folder.join(up)
}

impl LibtorchPlace {
    /// Finds libtorch: where environment variables say, or where set-up has installed it for a program in a build folder
    /// of the repository. Returns `None` if it is in neither place.
    #[must_use]
    pub fn find() -> Option<Self> {
        let program = env::current_exe().ok()?;
        let folder = program.parent()?;
        let installed = of_clone(folder);
        let libraries = named(FOLDER).or_else(|| {
            let libraries = installed.join("libtorch/lib");
            libraries.join(LIBRARIES[1]).is_file().then_some(libraries)
        });
        let beside = folder.join(BESIDE);
        let bridges = named(BRIDGES).unwrap_or_else(|| match beside.is_dir() {
            true => beside,
            false => installed.join(BESIDE),
        });
        Some(Self {
            libraries: libraries?,
            bridges,
        })
    }

    /// Returns the path of the bridge for the libtorch.
    ///
    /// # Errors
    /// When the version of libtorch is not known or has no bridge.
    fn bridge(&self) -> Result<PathBuf, LibtorchLoadError> {
        if !self.libraries.join(LIBRARIES[1]).is_file() {
            return Err(LibtorchLoadError::NoLibtorch(self.libraries.clone()));
        }
        let version = version_of(&self.libraries)
            .ok_or_else(|| LibtorchLoadError::NoVersion(self.libraries.clone()))?;
        let bridge = self.bridges.join(format!("torch-{version}.so"));
        match bridge.is_file() {
            true => Ok(bridge),
            false => Err(LibtorchLoadError::NoBridge {
                libraries: self.libraries.clone(),
                version,
                bridges: self.bridges.clone(),
                available: available(&self.bridges),
            }),
        }
    }
}

/// Returns the versions of PyTorch that have a bridge in a folder, oldest first.
#[must_use]
pub fn available(bridges: &Path) -> Vec<String> {
    let entries = fs::read_dir(bridges).into_iter().flatten().flatten();
    let versions = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix("torch-")?.strip_suffix(".so")?;
        let (major, minor) = version.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    let mut versions: Vec<(u32, u32)> = versions.collect();
    versions.sort_unstable();
    let shown = versions.into_iter();
    shown
        .map(|(major, minor)| format!("{major}.{minor}"))
        .collect()
}

/// Returns the version of a libtorch as far as its interface depends on it: its first two numbers, or all of a version
/// that was not released.
fn version_of(libraries: &Path) -> Option<String> {
    let above = libraries.join("..");
    let of_python = fs::read_to_string(above.join("version.py")).ok();
    let of_python = of_python.as_deref().and_then(python_version);
    of_python.or_else(|| {
        let headers = HEADERS.iter().map(|header| above.join(header));
        headers
            .filter_map(|header| fs::read_to_string(header).ok())
            .find_map(|text| header_version(&text))
    })
}

/// Reads the version in PyTorch's `version.py`.
fn python_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("__version__"))?;
    let version = line.split(['\'', '"']).nth(1)?;
    let release = version.split('+').next()?;
    let numbers: Option<Vec<u32>> = release.split('.').map(|n| n.parse().ok()).collect();
    match numbers.as_deref() {
        Some([major, minor, ..]) => Some(format!("{major}.{minor}")),
        // The interface of what lies between two releases may be that of neither.
        _ => Some(version.to_owned()),
    }
}

/// Reads the version in a header of libtorch.
fn header_version(text: &str) -> Option<String> {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| {
            line.strip_prefix("#define TORCH_VERSION_")?
                .strip_prefix(name)
        });
        line?.trim().parse::<u32>().ok()
    };
    Some(format!("{}.{}", number("MAJOR")?, number("MINOR")?))
}

/// Loads libtorch and its bridge, and makes them available to the kernels of this process. Once it has succeeded,
/// further calls have no effect.
///
/// # Errors
/// When the libtorch has no bridge, or a library cannot be loaded.
pub fn load(place: &LibtorchPlace) -> Result<(), LibtorchLoadError> {
    static LOADED: Mutex<bool> = Mutex::new(false);
    let mut loaded = pbg_core::lock::lock(&LOADED);
    if *loaded {
        return Ok(());
    }
    let path = place.bridge()?;
    for name in LIBRARIES {
        // A bridge finds libtorch's functions among those of the process.
        let opened = open(&place.libraries.join(name), RTLD_LAZY | RTLD_GLOBAL)?;
        mem::forget(opened);
    }
    let opened = open(&path, RTLD_NOW | RTLD_LOCAL)?;
    bridge::connect(&opened)
        .map_err(|function| LibtorchLoadError::OtherBridge { path, function })?;
    mem::forget(opened);
    loaded::install();
    *loaded = true;
    Ok(())
}

/// Loads libtorch where [`LibtorchPlace::find`] finds it, for tests.
///
/// # Panics
/// When it is not found, or cannot be loaded.
#[doc(hidden)]
pub fn load_found() {
    let place = LibtorchPlace::find().expect("libtorch is installed by `cargo xtask setup`");
    load(&place).expect("libtorch can be loaded");
}

fn open(path: &Path, flags: i32) -> Result<Library, LibtorchLoadError> {
    // SAFETY: opening runs libtorch's registration of its kernels, which may run at any time and on any thread. Libraries
    // that are used are never closed.
    unsafe { Library::open(Some(path), flags) }.map_err(|error| LibtorchLoadError::Library {
        path: path.to_owned(),
        cause: cause(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_python_and_from_headers() {
        for (text, expected) in [
            (
                "__version__ = '2.11.0+cu130'\ndebug = False\n",
                Some("2.11"),
            ),
            ("from x import y\n__version__ = \"2.9.1\"\n", Some("2.9")),
            ("__version__ = '2.11.0a0+1b2c'", Some("2.11.0a0+1b2c")),
            ("__version__ = '3.0a1'", Some("3.0a1")),
            ("debug = False", None),
        ] {
            assert_eq!(python_version(text).as_deref(), expected, "{text}");
        }
        let header =
            "#pragma once\n#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 15\n";
        assert_eq!(header_version(header).as_deref(), Some("2.15"));
        assert_eq!(header_version("#define TORCH_VERSION_MAJOR 2\n"), None);
    }

    #[test]
    fn a_version_without_a_bridge_is_refused_with_those_that_have_one() {
        let folder = tempfile::tempdir().unwrap();
        let bridges = folder.path().join("bridges");
        let libraries = folder.path().join("torch/lib");
        for path in [&bridges, &libraries] {
            fs::create_dir_all(path).unwrap();
        }
        let place = LibtorchPlace { libraries, bridges };
        let said = |place: &LibtorchPlace| place.bridge().unwrap_err().to_string();
        assert!(
            said(&place).contains("there is no libtorch_cpu.so"),
            "{}",
            said(&place)
        );
        fs::write(place.libraries.join("libtorch_cpu.so"), "").unwrap();
        let above = LibtorchPlace {
            libraries: folder.path().join("torch"),
            ..place.clone()
        };
        assert!(
            said(&above).contains("torch/lib has it"),
            "{}",
            said(&above)
        );
        assert!(said(&place).contains("is not known"), "{}", said(&place));
        fs::write(
            folder.path().join("torch/version.py"),
            "__version__ = '2.8.0'\n",
        )
        .unwrap();
        assert!(said(&place).contains("no bridges"), "{}", said(&place));
        for version in ["2.9", "2.15", "2.10"] {
            fs::write(place.bridges.join(format!("torch-{version}.so")), "").unwrap();
        }
        let said = said(&place);
        assert!(
            said.contains("PyTorch 2.8; this program can use PyTorch 2.9 to 2.15"),
            "{said}"
        );
    }
}
