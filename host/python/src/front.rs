//! Python as what a session works for.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pbg_session::{Front, Result};
use pbg_wasm::{Compiler, LogSink};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::{raised, spelled};

/// How the process is started that compiles plugins, once [`start`] has said so.
static COMPILER: OnceLock<Compiler> = OnceLock::new();

/// Says how the process is started that compiles plugins: a program with arguments, by which it calls
/// `compile_for_parent` of this very module before anything else.
#[pyfunction]
pub(crate) fn start(program: PathBuf, arguments: Vec<OsString>) {
    // Whoever was first said the same.
    let _known = COMPILER.set(Compiler::new(program, arguments));
}

/// Compiles a plugin for the process that started this one.
#[pyfunction]
pub(crate) fn compile_for_parent() -> PyResult<()> {
    Compiler::serve().map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Keeps what is to be said until Python can hear it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    /// What was odd since the last call.
    pub(crate) fn drain(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut warnings)
    }

    /// Hands it to Python's warnings.
    pub(crate) fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let warnings = self.drain();
        if warnings.is_empty() {
            return Ok(());
        }
        let warn = py.import("pbg_host.errors")?.getattr("_warn")?;
        warnings
            .into_iter()
            .try_for_each(|text| warn.call1((text,)).map(drop))
    }
}

impl Front for Listener {
    fn warn(&self, text: &dyn Display) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(spelled(&text.to_string()));
    }

    fn detail(&self, _text: &dyn Display) {}

    fn compiler(&self) -> Compiler {
        COMPILER
            .get()
            .cloned()
            .unwrap_or_else(Compiler::this_program)
    }

    fn plugin_detail(&self) -> LogSink {
        Arc::new(|_, _, _| ())
    }

    /// The package loads the extension with libtorch where a configuration needs it.
    fn to_libtorch(&self, _what: &str, _without: &str) -> Result<()> {
        Ok(())
    }
}

/// Does `work` while Python runs on; then Python hears what was odd, and what failed.
pub(crate) fn work<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Listener) -> Result<T> + Send,
) -> PyResult<T> {
    let listener = Listener::default();
    let result = py.detach(|| work(&listener));
    listener.tell(py)?;
    result.map_err(|failure| raised(py, failure))
}
