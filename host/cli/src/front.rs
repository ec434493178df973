//! Front end of `pbg_session` for the terminal.

use std::fmt::Display;
use std::sync::Arc;

use pbg_session::Front;
use pbg_wasm::{Compiler, LogSink};

use crate::failure::Result;
use crate::relay;
use crate::terminal::Terminal;

impl Front for Terminal {
    fn warn(&self, text: &dyn Display) {
        Self::warn(self, text);
    }

    fn detail(&self, text: &dyn Display) {
        Self::detail(self, text);
    }

    fn compiler(&self) -> Compiler {
        Compiler::this_program()
    }

    fn plugin_detail(&self) -> LogSink {
        let terminal = *self;
        Arc::new(move |_, plugin, line| terminal.detail(format!("{plugin}: {line}")))
    }

    fn to_libtorch(&self, what: &str, without: &str) -> Result<()> {
        relay::to_libtorch(what, without)
    }
}

/// Returns a sink that prints the log lines of plugins on the terminal.
pub(crate) fn said(terminal: Terminal) -> LogSink {
    Arc::new(move |_, plugin, line| terminal.say(format!("{plugin}: {line}")))
}
