//! libtorch's CUDA half, opened only where a GPU is asked for.
//!
//! The program is linked with the other half alone, which needs no GPU. The
//! CUDA half registers itself with it as it is opened, so it has to be opened with its symbols visible to
//! all, and before libtorch is asked about CUDA for the first time: it remembers the answer.

#![expect(
    unsafe_code,
    reason = "a library runs code as it is opened, which the compiler cannot check"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use pbg_kernels::device::OpenError;
use tch::TchError;

const CUDA: &str = "libtorch_cuda.so";
const OTHER_HALF: &str = "libtorch_cpu.so";

/// What is said where the library cannot be opened: `tried` has a line for each place where it was looked
/// for, with what the system said; `beside` is where the other half of libtorch is.
fn not_opened(tried: &str, beside: Option<&Path>) -> OpenError {
    let folder = beside.map_or("the folder of libtorch_cpu.so".to_owned(), |folder| {
        folder.display().to_string()
    });
    OpenError::Library(format!(
        "{CUDA}, the part of libtorch that computes on GPUs, cannot be opened; tried{tried}\n\
         install torch 2.11.0 with its nvidia libraries (pip install torch==2.11.0) and link its torch/lib/{CUDA} \
         into {folder}, or put its torch/lib into LD_LIBRARY_PATH"
    ))
}

/// Opens the library, once.
pub(super) fn open() -> Result<(), OpenError> {
    opened().map(|_| ())
}

/// The folder of the library, which is open.
pub(super) fn folder() -> Result<PathBuf, TchError> {
    opened().map_err(|error| TchError::Torch(error.to_string()))?;
    let folder = folder_of(CUDA);
    folder.ok_or_else(|| TchError::Torch(format!("the folder of {CUDA} is not known")))
}

/// That a library of CUDA's cannot be opened.
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
        .get_or_init(first_of_all)
        .as_ref()
        .map_err(Clone::clone)
}

/// The library's function `name`.
///
/// # Errors
/// When the library cannot be opened, or has no such function: it is of another version, then.
///
/// # Safety
/// `F` must be the type of the function, as the library declares it.
pub(super) unsafe fn function<F: Copy>(name: &str) -> Result<F, TchError> {
    let library = opened().map_err(|error| TchError::Torch(error.to_string()))?;
    // SAFETY: the caller vouches for the type, and the library is never closed.
    unsafe { library.get::<F>(name.as_bytes()) }
        .map(|function| *function)
        .map_err(|error| {
            let cause = cause(&error);
            TchError::Torch(format!("{CUDA} is not that of torch 2.11.0: {cause}"))
        })
}

/// Tries beside the other half of libtorch, then wherever the system looks for libraries.
fn first_of_all() -> Result<Library, OpenError> {
    let beside = folder_of(OTHER_HALF);
    let mut tried = String::new();
    for path in candidates(beside.as_deref()) {
        // SAFETY: what runs is libtorch's registration of its kernels, which is made to run as the library
        // is opened, at any time and on any thread. The handle lives as long as the program, so nothing
        // that was registered ever dangles.
        match unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                let (path, cause) = (path.display().to_string(), cause(&error));
                // The loader begins with what it could not find, which may be something else.
                let cause = cause.strip_prefix(&format!("{path}: ")).unwrap_or(&cause);
                let _infallible = write!(tried, "\n  {path}: {cause}");
            }
        }
    }
    Err(not_opened(&tried, beside.as_deref()))
}

/// A link is followed first: the libraries that the CUDA half needs lie where it really is.
fn candidates(beside: Option<&Path>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some(folder) = beside {
        let linked = folder.join(CUDA);
        paths.push(fs::canonicalize(&linked).unwrap_or(linked));
    }
    paths.push(PathBuf::from(CUDA));
    paths
}

/// What the system's loader said.
fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The folder that a library of this process was loaded from, where the system tells (Linux, `proc_pid_maps(5)`).
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
        let _linked = tch::Tensor::from_slice(&[1.0_f32]);
        let folder = folder_of(OTHER_HALF).expect("libtorch is loaded");
        assert!(folder.join(OTHER_HALF).exists(), "{}", folder.display());
        let paths = candidates(Some(&folder));
        assert_eq!(paths.len(), 2);
        assert_eq!(paths[1], Path::new(CUDA));
    }
}
