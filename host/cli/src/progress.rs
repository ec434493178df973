//! Displays the events of a run: as a progress bar, as lines, as JSON, or not at all.

mod bar;
mod json;
mod plain;
mod reporter;
mod text;
mod tracker;
mod vectors;

use pbg_core::event::{Event, LogLevel};

use crate::terminal::Terminal;
pub(crate) use reporter::{Announcer, Board, ProgressReporter, Teller};

/// Form in which progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProgressMode {
    /// A progress bar on a terminal, lines otherwise.
    #[default]
    Auto,
    /// A progress bar.
    Bar,
    /// Lines on standard error, a few per minute.
    Plain,
    /// Every event as a line of JSON on standard output.
    Json,
    /// Warnings and errors only.
    None,
}

/// Returns the reporter for `mode`. A progress bar needs a terminal; without one, lines are printed.
pub(crate) fn reporter(mode: ProgressMode, terminal: Terminal) -> Box<dyn ProgressReporter> {
    match mode {
        ProgressMode::Auto | ProgressMode::Bar if terminal.interactive => {
            Box::new(bar::Bar::new(terminal))
        }
        ProgressMode::Auto | ProgressMode::Bar | ProgressMode::Plain => {
            Box::new(plain::Plain::new(terminal))
        }
        ProgressMode::Json => Box::new(json::Json::new(terminal)),
        ProgressMode::None => Box::new(Quiet { terminal }),
    }
}

/// Reporter that shows only warnings and errors of plugins, and events of distributed runs.
struct Quiet {
    terminal: Terminal,
}

impl ProgressReporter for Quiet {
    fn event(&mut self, event: &Event) {
        let matters = match event {
            Event::PluginLog { level, .. } => *level >= LogLevel::Warn,
            Event::PluginFault { .. } => true,
            _ => false,
        };
        if matters
            && let Some(line) = text::line(event, &tracker::Tracker::default(), &self.terminal)
        {
            self.terminal.print_raw_line(line);
        }
    }

    /// Shows the reasons for which trainers wait, since they would otherwise seem to hang.
    fn teller(&self) -> Teller {
        text::teller(self.terminal)
    }

    fn announcer(&self) -> Announcer {
        self.terminal.announcer()
    }
}
