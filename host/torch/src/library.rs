//! libtorch's CUDA library, opened only when a GPU is used.
//!
//! The program loads only libtorch's CPU library, which needs no GPU. The CUDA library registers itself with it when it
//! is opened. So it has to be opened with global symbols, and before libtorch is first asked about CUDA, since it
//! remembers the answer.

#![expect(
    unsafe_code,
    reason = "a library runs code as it is opened, which the compiler cannot check"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use pbg_kernels::device::OpenError;
use tch::TchError;

/// Environment variable with the folder of libtorch's libraries.
pub const FOLDER: &str = "PBG_HOST_LIBTORCH";
const CUDA: &str = "libtorch_cuda.so";
const OTHER_HALF: &str = "libtorch_cpu.so";

/// Returns the error for a library that cannot be opened: `said` is the system's message, `beside` the folder of
/// libtorch's CPU library.
fn not_opened(said: &str, beside: Option<&Path>) -> OpenError {
    let folder = beside.map_or("the folder of libtorch_cpu.so".to_owned(), |folder| {
        folder.display().to_string()
    });
    OpenError::Library(format!(
        "{CUDA}, the part of libtorch that computes on GPUs, cannot be opened: {said}\n\
         if the PyTorch in {folder} is built without CUDA, install its build with CUDA (`pip install --force-reinstall` \
         with the index of that build), or name the torch/lib of another PyTorch in {FOLDER}"
    ))
}

/// Opens the library at the first call.
pub(super) fn open() -> Result<(), OpenError> {
    opened().map(|_| ())
}

/// Opens the library, and returns its folder.
pub(super) fn folder() -> Result<PathBuf, TchError> {
    opened().map_err(|error| TchError::Torch(error.to_string()))?;
    let folder = folder_of(CUDA);
    folder.ok_or_else(|| TchError::Torch(format!("the folder of {CUDA} is not known")))
}

/// Returns the error for a library of CUDA's that cannot be opened.
pub(super) fn not_found(path: &Path, error: &libloading::Error) -> TchError {
    TchError::Torch(format!(
        "{} cannot be opened: {}",
        path.display(),
        cause(error)
    ))
}

fn opened() -> Result<&'static Library, OpenError> {
    static OPENED: OnceLock<Result<Library, OpenError>> = OnceLock::new();
    OPENED
        .get_or_init(open_first)
        .as_ref()
        .map_err(Clone::clone)
}

/// Returns the library's function `name`.
///
/// # Errors
/// When the library cannot be opened, or has no such function because it is another version.
///
/// # Safety
/// `F` must be the type of the function, as the library declares it.
pub(super) unsafe fn function<F: Copy>(name: &str) -> Result<F, TchError> {
    let library = opened().map_err(|error| TchError::Torch(error.to_string()))?;
    // SAFETY: the caller guarantees the type, and the library is never closed.
    unsafe { library.get::<F>(name.as_bytes()) }
        .map(|function| *function)
        .map_err(|error| {
            let cause = cause(&error);
            TchError::Torch(format!("{CUDA} lacks a function: {cause}"))
        })
}

/// Opens the library in the folder of libtorch's CPU library, with which it must be of one build.
fn open_first() -> Result<Library, OpenError> {
    let beside = folder_of(OTHER_HALF);
    let path = candidate(beside.as_deref());
    // SAFETY: opening runs libtorch's registration of its kernels, which may run at any time and on any thread. The
    // handle lives as long as the program, so nothing that was registered ever dangles.
    let opened = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    opened.map_err(|error| not_opened(&cause(&error), beside.as_deref()))
}

/// Returns the path of the library. A link is resolved: the libraries that the CUDA library needs are in the folder of
/// its target. Without a folder, the system searches.
fn candidate(beside: Option<&Path>) -> PathBuf {
    let linked = beside.map_or_else(|| PathBuf::from(CUDA), |folder| folder.join(CUDA));
    fs::canonicalize(&linked).unwrap_or(linked)
}

/// Returns the message of the system's loader.
pub(super) fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns the folder that a library of this process was loaded from, if the system provides it (Linux,
/// `proc_pid_maps(5)`).
fn folder_of(library: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps
        .lines()
        .filter_map(|line| line.find('/').map(|start| &line[start..]))
        .find(|path| path.ends_with(library))?;
    Path::new(path).parent().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_libtorch_is_where_its_library_is() {
        crate::load_found();
        let folder = folder_of(OTHER_HALF).expect("libtorch is loaded");
        assert!(folder.join(OTHER_HALF).exists(), "{}", folder.display());
        assert_eq!(candidate(Some(&folder)), folder.join(CUDA));
        assert_eq!(candidate(None), Path::new(CUDA));
    }
}
