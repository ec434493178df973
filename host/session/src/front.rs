//! The interface of the program and of the Python package to a session.

use std::fmt::Display;

use pbg_wasm::{CompilerProcess, LogSink};

use crate::failure::Result;

/// Front end of a session: the program in a terminal, or Python.
pub trait FrontEnd {
    /// Shows a warning that does not stop the work.
    fn warn(&self, text: &dyn Display);

    /// Shows a detail for verbose output.
    fn detail(&self, text: &dyn Display);

    /// Returns how to start the process that compiles plugins.
    fn compiler(&self) -> CompilerProcess;

    /// Returns the receiver of plugins' log lines for verbose output.
    fn plugin_detail(&self) -> LogSink;

    /// Ensures that libtorch is available, which `what` needs; `without` names an alternative for the message.
    ///
    /// # Errors
    /// When libtorch is not available.
    fn require_libtorch(&self, what: &str, without: &str) -> Result<()>;
}
