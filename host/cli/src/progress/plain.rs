//! Progress as lines on standard error, for log files and simple terminals.

use std::time::{Duration, Instant};

use pbg_core::event::Event;

use super::reporter::{Announcer, ProgressReporter, Teller};
use super::text;
use super::tracker::Tracker;
use crate::format;
use crate::terminal::Terminal;

/// Minimum interval of progress lines within an epoch.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reporter that prints a line for notable events and every few seconds in between.
pub(crate) struct Plain {
    terminal: Terminal,
    tracker: Tracker,
    start: Instant,
    last: Duration,
}

impl Plain {
    /// Creates the reporter and starts its clock.
    pub(crate) fn new(terminal: Terminal) -> Self {
        Self {
            terminal,
            tracker: Tracker::default(),
            start: pbg_clock::now(),
            last: Duration::ZERO,
        }
    }
}

impl ProgressReporter for Plain {
    fn event(&mut self, event: &Event) {
        let now = self.start.elapsed();
        self.tracker.event(event, now);
        if let Some(line) = text::line(event, &self.tracker, &self.terminal) {
            self.terminal.print_raw_line(line);
            self.last = now;
        } else if matches!(event, Event::Progress { .. } | Event::BucketFinished { .. })
            && self.last + INTERVAL <= now
        {
            let share = 100.0 * self.tracker.done() / self.tracker.total().max(1.0);
            let (position, state) = (
                self.tracker.position(),
                text::current_figures(&self.tracker),
            );
            self.terminal
                .print_line(format_args!("{position}  {share:.0} %  {state}"));
            if let Some(traffic) = text::traffic(self.tracker.io()) {
                let total = format::duration(now);
                self.terminal
                    .detail(format_args!("{traffic}, {total} in total"));
            }
            self.last = now;
        }
    }

    fn teller(&self) -> Teller {
        text::teller(self.terminal)
    }

    fn announcer(&self) -> Announcer {
        self.terminal.announcer()
    }
}
