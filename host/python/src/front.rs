//! Python as the front end of a session.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pbg_session::{FrontEnd, Result};
use pbg_wasm::{CompilerProcess, LogSink};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::{raised, spelled};

/// Command that starts the process that compiles plugins, once [`start`] has set it.
static COMPILER: OnceLock<CompilerProcess> = OnceLock::new();

/// Sets the command that starts the process that compiles plugins: a program with arguments, with which it calls
/// `compile_for_parent` of this very module before anything else.
#[pyfunction]
pub(crate) fn start(program: PathBuf, arguments: Vec<OsString>) {
    // The first caller has set the same command.
    let _known = COMPILER.set(CompilerProcess::new(program, arguments));
}

/// Compiles a plugin for the process that started this one.
#[pyfunction]
pub(crate) fn compile_for_parent() -> PyResult<()> {
    CompilerProcess::serve().map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Queue of warnings until Python can be called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    /// Removes and returns all warnings.
    pub(crate) fn drain(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut warnings)
    }

    /// Issues all warnings in Python.
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

impl FrontEnd for Listener {
    fn warn(&self, text: &dyn Display) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(spelled(&text.to_string()));
    }

    fn detail(&self, _text: &dyn Display) {}

    fn compiler(&self) -> CompilerProcess {
        COMPILER
            .get()
            .cloned()
            .unwrap_or_else(CompilerProcess::this_program)
    }

    fn plugin_detail(&self) -> LogSink {
        Arc::new(|_, _, _| ())
    }

    /// The package loads libtorch before it calls this extension, if a configuration needs it.
    fn require_libtorch(&self, _what: &str, _without: &str) -> Result<()> {
        Ok(())
    }
}

/// Does `work` with the interpreter released, and then issues its warnings or raises its failure.
pub(crate) fn work<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Listener) -> Result<T> + Send,
) -> PyResult<T> {
    let listener = Listener::default();
    let result = py.detach(|| work(&listener));
    listener.tell(py)?;
    result.map_err(|failure| raised(py, failure))
}

/// Does `work` with the interpreter released. `work` gets a function that checks for signals and calls Python, and that
/// tells to end if one of them raises an exception, which is then raised.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(
        &mut dyn FnMut(&dyn Fn(Python<'_>) -> PyResult<()>) -> ControlFlow<()>,
    ) -> Result<T>
    + Send,
) -> PyResult<T> {
    let mut raised_there = None;
    let result = py.detach(|| {
        work(&mut |call| {
            let heard = Python::attach(|py| py.check_signals().and_then(|()| call(py)));
            match heard {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    raised_there = Some(error);
                    ControlFlow::Break(())
                }
            }
        })
    });
    match raised_there {
        Some(error) => Err(error),
        None => result.map_err(|failure| raised(py, failure)),
    }
}
