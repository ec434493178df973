//! Log of plugins: limited, escaped, delivered immediately, and kept for fault messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pbg_core::event::LogLevel;
use pbg_core::text::escaped;

/// Receiver of every line that plugins log, called with its level, the plugin's name and the line. It is called on the
/// thread that called the plugin and must not block, since no deadline covers it.
pub type LogSink = Arc<dyn Fn(LogLevel, &str, &str) + Send + Sync>;

/// Bytes of one line that are kept.
const LINE_BYTES: usize = 1024;
/// Bytes of the last lines that a fault message shows.
const TAIL_BYTES: usize = 4096;

/// Counter of the lines that all instances of a plugin have logged, and their limit.
pub(crate) struct RunLogBudget {
    limit: u32,
    written: AtomicU32,
}

impl RunLogBudget {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            limit,
            written: AtomicU32::new(0),
        }
    }

    /// Counts a line. Returns how many lines came before it, or `None` if the limit was exceeded before. The first line
    /// beyond the limit returns the limit.
    fn take(&self) -> Option<u32> {
        let more = |written| (written <= self.limit).then_some(written + 1);
        let order = Ordering::Relaxed;
        self.written.fetch_update(order, order, more).ok()
    }
}

/// The log of one instance.
pub(crate) struct InstanceLog {
    sink: LogSink,
    run: Arc<RunLogBudget>,
    label: String,
    tail: VecDeque<String>,
    tail_bytes: usize,
    /// Lines that the current call may still log.
    left: u32,
    dropped: u64,
}

impl InstanceLog {
    pub(crate) fn new(sink: LogSink, label: String, run: Arc<RunLogBudget>) -> Self {
        Self {
            sink,
            run,
            label,
            tail: VecDeque::new(),
            tail_bytes: 0,
            left: 0,
            dropped: 0,
        }
    }

    /// Begins a call that may log `lines` lines.
    pub(crate) fn begin(&mut self, lines: u32) {
        self.left = lines;
        self.dropped = 0;
    }

    /// Ends the call, and logs how many lines were dropped.
    pub(crate) fn end(&mut self) {
        if self.dropped > 0 {
            let note = format!("{} more log messages dropped", self.dropped);
            self.show(LogLevel::Warn, &note);
            self.dropped = 0;
        }
    }

    pub(crate) fn write(&mut self, level: LogLevel, message: &str) {
        for line in message.split('\n').filter(|line| !line.trim().is_empty()) {
            if self.left == 0 {
                // A flood of messages must cost no more than counting them.
                self.dropped += 1;
                return;
            }
            self.left -= 1;
            let line = escaped(line.trim_end(), LINE_BYTES);
            self.show(level, &line);
            self.remember(line);
        }
    }

    /// Passes a line to the sink, while the run has lines left.
    fn show(&self, level: LogLevel, line: &str) {
        match self.run.take() {
            Some(before) if before < self.run.limit => {
                (self.sink)(level, &self.label, line);
            }
            Some(most) => {
                let note = format!(
                    "logged {most} lines, the limit for a run; further lines are not shown \
                     (plugins.limits.run_log_lines)"
                );
                (self.sink)(LogLevel::Warn, &self.label, &note);
            }
            None => {}
        }
    }

    fn remember(&mut self, line: String) {
        self.tail_bytes += line.len();
        self.tail.push_back(line);
        while self.tail_bytes > TAIL_BYTES {
            let Some(oldest) = self.tail.pop_front() else {
                break;
            };
            self.tail_bytes -= oldest.len();
        }
    }

    /// Returns the last lines, oldest first.
    pub(crate) fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn recorded() -> (LogSink, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let sink = move |_: LogLevel, plugin: &str, line: &str| {
            let mut lines = sink.lock().expect("one thread");
            lines.push(format!("{plugin}: {line}"));
        };
        (Arc::new(sink), lines)
    }

    fn lines_of_run(limit: u32) -> Arc<RunLogBudget> {
        Arc::new(RunLogBudget::new(limit))
    }

    #[test]
    fn a_run_has_an_end_of_lines_too() {
        let (sink, lines) = recorded();
        let run = lines_of_run(25);
        // Every call uses another instance.
        for _ in 0..10 {
            let mut log = InstanceLog::new(Arc::clone(&sink), "evil".to_owned(), Arc::clone(&run));
            log.begin(10);
            for n in 0..10 {
                log.write(LogLevel::Info, &format!("line {n}"));
            }
            log.end();
            assert_eq!(log.tail().last(), Some("line 9"));
        }
        let lines = lines.lock().expect("one thread");
        assert_eq!(lines.len(), 26);
        assert!(lines[25].contains("logged 25 lines"), "{}", lines[25]);
    }

    #[test]
    fn lines_are_prefixed_split_and_neutral() {
        let (sink, lines) = recorded();
        let mut log = InstanceLog::new(sink, "evil".to_owned(), lines_of_run(100));
        log.begin(10);
        log.write(LogLevel::Info, "one\n\u{1b}[31mtwo\n");
        log.end();
        assert_eq!(
            *lines.lock().expect("one thread"),
            ["evil: one", "evil: \\u{1b}[31mtwo"]
        );
    }

    #[test]
    fn a_flood_is_counted_and_the_tail_is_bounded() {
        let (sink, lines) = recorded();
        let mut log = InstanceLog::new(sink, "evil".to_owned(), lines_of_run(100));
        log.begin(10);
        for n in 0..1000 {
            log.write(LogLevel::Info, &format!("{n} {}", "x".repeat(5000)));
        }
        log.end();
        let lines = lines.lock().expect("one thread");
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[10], "evil: 990 more log messages dropped");
        assert!(log.tail().map(str::len).sum::<usize>() <= TAIL_BYTES);
        assert!(log.tail().last().is_some_and(|line| line.starts_with("9 ")));
    }
}
