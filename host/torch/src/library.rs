//! libtorch's CUDA library, opened only when a GPU is used.
//!
//! The program is linked only with libtorch's CPU library, which needs no GPU. The CUDA library registers itself with
//! it when it is opened. So it has to be opened with global symbols, and before libtorch is first asked about CUDA,
//! since it remembers the answer.

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

/// Returns the error for a library that cannot be opened. `tried` has a line for each path that was tried, with the
/// system's message; `beside` is the folder of libtorch's CPU library.
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
            TchError::Torch(format!("{CUDA} is not that of torch 2.11.0: {cause}"))
        })
}

/// Tries the folder of libtorch's CPU library, then the system's search path.
fn open_first() -> Result<Library, OpenError> {
    let beside = folder_of(OTHER_HALF);
    let mut tried = String::new();
    for path in candidates(beside.as_deref()) {
        // SAFETY: opening runs libtorch's registration of its kernels, which may run at any time and on any thread. The
        // handle lives as long as the program, so nothing that was registered ever dangles.
        match unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                let (path, cause) = (path.display().to_string(), cause(&error));
                // The loader's message begins with the path that it did not find, which may be another library.
                let cause = cause.strip_prefix(&format!("{path}: ")).unwrap_or(&cause);
                let _infallible = write!(tried, "\n  {path}: {cause}");
            }
        }
    }
    Err(not_opened(&tried, beside.as_deref()))
}

/// Returns the paths to try. A link is resolved first: the libraries that the CUDA library needs are in the folder of
/// its target.
fn candidates(beside: Option<&Path>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some(folder) = beside {
        let linked = folder.join(CUDA);
        paths.push(fs::canonicalize(&linked).unwrap_or(linked));
    }
    paths.push(PathBuf::from(CUDA));
    paths
}

/// Returns the message of the system's loader.
fn cause(error: &libloading::Error) -> String {
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
        let _linked = tch::Tensor::from_slice(&[1.0_f32]);
        let folder = folder_of(OTHER_HALF).expect("libtorch is loaded");
        assert!(folder.join(OTHER_HALF).exists(), "{}", folder.display());
        let paths = candidates(Some(&folder));
        assert_eq!(paths.len(), 2);
        assert_eq!(paths[1], Path::new(CUDA));
    }
}
