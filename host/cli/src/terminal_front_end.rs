//! Front end of `pbg_session` for the terminal.

use std::fmt::Display;
use std::sync::Arc;

use pbg_session::FrontEnd;
use pbg_wasm::{CompilerProcess, LogSink};

use crate::failure::Result;
use crate::libtorch;
use crate::terminal::Terminal;

impl FrontEnd for Terminal {
    fn warn(&self, text: &dyn Display) {
        Self::warn(self, text);
    }

    fn detail(&self, text: &dyn Display) {
        Self::detail(self, text);
    }

    fn compiler(&self) -> CompilerProcess {
        CompilerProcess::this_program()
    }

    fn plugin_detail(&self) -> LogSink {
        let terminal = *self;
        Arc::new(move |_, plugin, line| terminal.detail(format!("{plugin}: {line}")))
    }

    fn require_libtorch(&self, what: &str, without: &str) -> Result<()> {
        libtorch::load(what, without)
    }
}

/// Returns a sink that prints the log lines of plugins on the terminal.
pub(crate) fn log_sink(terminal: Terminal) -> LogSink {
    Arc::new(move |_, plugin, line| terminal.print_line(format!("{plugin}: {line}")))
}
