//! Loads libtorch.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::front::work;

/// Loads the libtorch in folder `libraries`, whose bridge is in folder `bridges`.
#[pyfunction]
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) fn load_libtorch(py: Python<'_>, libraries: PathBuf, bridges: PathBuf) -> PyResult<()> {
    use pbg_session::{Failure, FailureKind};

    let place = pbg_torch::LibtorchPlace { libraries, bridges };
    work(py, |_| {
        pbg_torch::load(&place).map_err(|error| Failure::new(FailureKind::Io, error))
    })
}

/// Refuses to load libtorch, which is not used on this system.
#[pyfunction]
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub(crate) fn load_libtorch(py: Python<'_>, libraries: PathBuf, bridges: PathBuf) -> PyResult<()> {
    use pbg_session::{Failure, FailureKind};

    let _unused = (libraries, bridges);
    let text = "pbg-host uses libtorch only on Linux, on x86-64 and 64-bit Arm";
    work(py, |_| Err(Failure::message(FailureKind::Io, text)))
}
