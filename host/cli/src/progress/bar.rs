//! A progress bar with speed, loss and time left, and a line below it with position and traffic. In a distributed run a
//! line for each trainer follows.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pbg_core::event::Event;
use pbg_core::text::escaped_lines;

use super::reporter::{Announcer, Board, ProgressReporter, Teller};
use super::text;
use super::tracker::Tracker;
use crate::terminal::Terminal;

const REFRESH_HZ: u8 = 10;

/// Reporter that draws a progress bar on standard error.
pub(crate) struct Bar {
    terminal: Terminal,
    tracker: Tracker,
    start: Instant,
    bar: ProgressBar,
    /// Status lines of all trainers, shown below the bar.
    trainers: Arc<Mutex<String>>,
}

impl Bar {
    /// Creates the reporter, which draws nothing before the run starts.
    pub(crate) fn new(terminal: Terminal) -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(REFRESH_HZ);
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let trainers = Arc::new(Mutex::new(String::new()));
        bar.set_style(style(terminal.color, Arc::clone(&trainers)));
        Self {
            terminal,
            tracker: Tracker::default(),
            start: pbg_clock::now(),
            bar,
            trainers,
        }
    }

    fn draw(&self) {
        self.bar.set_length((self.tracker.total() as u64).max(1));
        self.bar.set_prefix(text::current_figures(&self.tracker));
        let mut message = self.tracker.position();
        if let Some(traffic) = text::traffic(self.tracker.io()) {
            message.push_str("  ");
            message.push_str(&traffic);
        }
        self.bar.set_message(message);
        self.bar.set_position(self.tracker.done() as u64);
    }
}

/// Returns the style of the bar. The bar shrinks to make room for the numbers; the second line is truncated.
fn style(color: bool, trainers: Arc<Mutex<String>>) -> ProgressStyle {
    let template = if color {
        "{percent:>3} % {wide_bar:.cyan/dim} {prefix}\n      {wide_msg:.dim}{trainers}"
    } else {
        "{percent:>3} % {wide_bar} {prefix}\n      {wide_msg}{trainers}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key(
            "trainers",
            move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                let lines = trainers.lock().unwrap_or_else(PoisonError::into_inner);
                // A failed draw is repeated at the next refresh.
                let _drawn = out.write_str(&lines);
            },
        )
        .progress_chars("━╸─")
}

impl ProgressReporter for Bar {
    fn event(&mut self, event: &Event) {
        let now = self.start.elapsed();
        self.tracker.event(event, now);
        if let Some(line) = text::line(event, &self.tracker, &self.terminal) {
            self.bar.suspend(|| self.terminal.print_raw_line(line));
        }
        match event {
            Event::RunStarted { .. } => {
                self.bar.enable_steady_tick(Duration::from_millis(500));
                self.draw();
            }
            Event::RunFinished { .. } | Event::Interrupted { .. } => self.close(),
            _ => self.draw(),
        }
    }

    fn teller(&self) -> Teller {
        let (bar, terminal) = (self.bar.clone(), self.terminal);
        Box::new(move |event| {
            if let Some(line) = text::line(event, &Tracker::default(), &terminal) {
                bar.suspend(|| terminal.print_raw_line(line));
            }
        })
    }

    fn announcer(&self) -> Announcer {
        self.terminal.announcer_above(&self.bar)
    }

    fn status_board(&self) -> Option<Board> {
        let (bar, trainers) = (self.bar.clone(), Arc::clone(&self.trainers));
        Some(Box::new(move |text| {
            let mut lines = String::new();
            for line in escaped_lines(text).lines() {
                // Writing to a string cannot fail.
                let _written = write!(lines, "\n{line}");
            }
            *trainers.lock().unwrap_or_else(PoisonError::into_inner) = lines;
            if !bar.is_finished() {
                bar.tick();
            }
        }))
    }

    fn close(&mut self) {
        self.bar.finish_and_clear();
    }
}
