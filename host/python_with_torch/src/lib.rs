//! `pbg_host._native_torch`: `pbg_host._native` with libtorch. Python loads it instead if a run needs libtorch.

use pyo3::prelude::*;

/// The functions of `pbg_host` with libtorch.
#[pymodule]
fn _native_torch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    pbg_torch::install();
    pbg_python::fill(module)
}
