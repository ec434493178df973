//! Progress bars, which are hidden if standard error is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::progress::Announcer;
use crate::terminal::Terminal;

impl Terminal {
    /// Returns `bar` on a terminal, a hidden one otherwise.
    pub(crate) fn shown(&self, bar: ProgressBar) -> ProgressBar {
        match self.interactive {
            true => bar,
            false => ProgressBar::hidden(),
        }
    }

    /// Returns a bar that is formatted by a template of indicatif.
    pub(crate) fn bar(&self, length: u64, template: &str) -> ProgressBar {
        let bar = self.shown(ProgressBar::new(length));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar
    }

    /// Returns a function that prints a line.
    pub(crate) fn announcer(self) -> Announcer {
        Box::new(move |line| self.print_line(line))
    }

    /// Returns a function that prints a line above a bar.
    pub(crate) fn announcer_above(self, bar: &ProgressBar) -> Announcer {
        let bar = bar.clone();
        Box::new(move |line| bar.suspend(|| self.print_line(line)))
    }
}

/// Moves a bar to `done` of `total`.
pub(crate) fn advance(bar: &ProgressBar, done: u64, total: u64) {
    bar.set_length(total);
    bar.set_position(done);
}
