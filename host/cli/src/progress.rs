//! Shows a run's events: as a bar, as lines, as JSON, or not at all.

mod bar;
mod json;
mod plain;
mod text;
mod tracker;

use pbg_core::event::{Event, LogLevel};

use crate::terminal::Terminal;

/// How to show what happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// A bar on a terminal, lines otherwise.
    #[default]
    Auto,
    /// A bar.
    Bar,
    /// Lines on standard error, a few per minute.
    Plain,
    /// Every event as a line of JSON on standard output.
    Json,
    /// Warnings and errors only.
    None,
}

/// Reads the events of a run, in order.
pub(crate) trait Reporter {
    /// Takes note of an event.
    fn event(&mut self, event: &Event);

    /// Something that shows an event that other threads have seen, at once: the thread that reads the events of the run may
    /// be waiting.
    fn teller(&self) -> Teller;

    /// Something that writes a line for the user without disturbing the display; for other threads.
    fn announcer(&self) -> Announcer;

    /// Something that shows what all trainers of a run do, beside what this one does; none where there is no place for
    /// it.
    fn board(&self) -> Option<Board> {
        None
    }

    /// Takes the display away.
    fn close(&mut self) {}
}

/// Shows these lines instead of those before.
pub(crate) type Board = Box<dyn Fn(&str) + Send>;

/// Shows an event, from any thread.
pub(crate) type Teller = Box<dyn Fn(&Event) + Send + Sync>;

/// Writes a line for the user.
pub(crate) type Announcer = Box<dyn Fn(&str) + Send>;

/// The reporter for `mode`. A bar needs a terminal; without one there are lines.
pub(crate) fn reporter(mode: Mode, terminal: Terminal) -> Box<dyn Reporter> {
    match mode {
        Mode::Auto | Mode::Bar if terminal.interactive => Box::new(bar::Bar::new(terminal)),
        Mode::Auto | Mode::Bar | Mode::Plain => Box::new(plain::Plain::new(terminal)),
        Mode::Json => Box::new(json::Json::new(terminal)),
        Mode::None => Box::new(Quiet { terminal }),
    }
}

/// Shows what plugins warn of, and nothing else.
struct Quiet {
    terminal: Terminal,
}

impl Reporter for Quiet {
    fn event(&mut self, event: &Event) {
        let matters = match event {
            Event::PluginLog { level, .. } => *level >= LogLevel::Warn,
            Event::PluginFault { .. } => true,
            _ => false,
        };
        if matters
            && let Some(line) = text::line(event, &tracker::Tracker::default(), &self.terminal)
        {
            self.terminal.show(line);
        }
    }

    /// What several trainers wait for matters, too: they would seem to hang.
    fn teller(&self) -> Teller {
        let terminal = self.terminal;
        Box::new(move |event| {
            if let Some(line) = text::line(event, &tracker::Tracker::default(), &terminal) {
                terminal.show(line);
            }
        })
    }

    fn announcer(&self) -> Announcer {
        let terminal = self.terminal;
        Box::new(move |line| terminal.say(line))
    }
}
