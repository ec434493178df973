//! Who asks: the program in a terminal, or Python.

use std::fmt::Display;

use pbg_wasm::{Compiler, LogSink};

use crate::failure::Result;

/// What a session needs of whom it works for.
pub trait Front {
    /// Something odd that does not stop the work.
    fn warn(&self, text: &dyn Display);

    /// Something for those who want to know everything.
    fn detail(&self, text: &dyn Display);

    /// How the process is started that compiles plugins.
    fn compiler(&self) -> Compiler;

    /// Where lines of plugins go that are for those who want to know everything.
    fn plugin_detail(&self) -> LogSink;

    /// Makes sure of libtorch, which `what` needs; `without` says what does not.
    ///
    /// # Errors
    /// When there is none.
    fn to_libtorch(&self, what: &str, without: &str) -> Result<()>;
}
