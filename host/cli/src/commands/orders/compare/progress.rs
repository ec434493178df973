//! Progress of a comparison: a line that changes on a terminal, otherwise a line every few seconds.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use pbg_lab::comparison::ComparisonStep;

use crate::terminal::Terminal;

/// Interval of lines where there is no terminal, and time after which the first one is printed.
const INTERVAL: Duration = Duration::from_secs(10);

/// Interval at which the spinner turns, also while an order plans.
const TURN: Duration = Duration::from_millis(100);

/// Shows what a comparison does.
pub(super) struct CompareProgress {
    terminal: Terminal,
    bar: ProgressBar,
    last: Instant,
}

impl CompareProgress {
    pub(super) fn new(terminal: Terminal) -> Self {
        let bar = terminal.shown(ProgressBar::new_spinner());
        if terminal.interactive {
            bar.enable_steady_tick(TURN);
        }
        Self {
            terminal,
            bar,
            last: pbg_clock::now(),
        }
    }

    /// Shows the next step for a grid of `partitions`, if it is not that of a configuration.
    pub(super) fn show(&mut self, partitions: Option<u32>, buffer: u32, step: &ComparisonStep<'_>) {
        if self.terminal.interactive {
            self.bar.set_message(description(partitions, buffer, step));
        } else if self.last.elapsed() >= INTERVAL {
            self.terminal
                .print_line(description(partitions, buffer, step));
            self.last = pbg_clock::now();
        }
    }

    /// Removes the line from a terminal.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Describes a step, such as `16 partitions, buffer 4: order 3 of 18, beta: seed 2, 8 trainers`.
fn description(partitions: Option<u32>, buffer: u32, step: &ComparisonStep<'_>) -> String {
    let mut text = String::new();
    if let Some(partitions) = partitions {
        let _ = write!(text, "{partitions} partitions, ");
    }
    let ComparisonStep {
        order,
        place,
        orders,
        seed,
        trainers,
    } = step;
    let place = place + 1;
    let _ = write!(
        text,
        "buffer {buffer}: order {place} of {orders}, {order}: seed {seed}, "
    );
    let _ = match trainers {
        None => write!(text, "planning"),
        Some(1) => write!(text, "1 trainer"),
        Some(trainers) => write!(text, "{trainers} trainers"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_says_how_far_the_comparison_is() {
        let mut step = ComparisonStep {
            order: "beta",
            place: 2,
            orders: 18,
            seed: 7,
            trainers: Some(8),
        };
        let text = description(Some(16), 4, &step);
        assert_eq!(
            text,
            "16 partitions, buffer 4: order 3 of 18, beta: seed 7, 8 trainers"
        );
        step.trainers = None;
        let text = description(None, 4, &step);
        assert_eq!(text, "buffer 4: order 3 of 18, beta: seed 7, planning");
    }
}
