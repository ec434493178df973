//! Log lines of plugins, converted to events.

use std::sync::{Arc, Mutex, PoisonError};

use pbg_core::event::{Event, LogLevel};
use pbg_wasm::LogSink;

/// Largest number of waiting lines. Further lines between two events are counted and dropped.
const MAX_LINES: usize = 10_000;

/// Lines that wait to be shown.
#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    dropped: u64,
    /// Plugin of the first dropped line.
    plugin: String,
}

/// Log lines of plugins as events, until they are shown.
#[derive(Clone, Default)]
pub struct PluginLog {
    waiting: Arc<Mutex<Waiting>>,
}

impl PluginLog {
    /// Returns the lines since the last call.
    pub fn drain(&self) -> Vec<Event> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiting {
            mut events,
            dropped,
            plugin,
        } = std::mem::take(&mut *waiting);
        if dropped > 0 {
            events.push(Event::PluginLog {
                plugin,
                level: LogLevel::Warn,
                message: format!("{dropped} more lines came at once and are not shown"),
            });
        }
        events
    }

    /// Passes each line that waits to `print`, after the name of its plugin.
    pub fn show(&self, print: impl Fn(String)) {
        for event in self.drain() {
            if let Event::PluginLog {
                plugin, message, ..
            } = event
            {
                print(format!("[{plugin}] {message}"));
            }
        }
    }

    pub(super) fn sink(&self) -> LogSink {
        let waiting = Arc::clone(&self.waiting);
        Arc::new(move |level, plugin, line| {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let plugin = plugin.to_owned();
            if waiting.events.len() < MAX_LINES {
                waiting.events.push(Event::PluginLog {
                    plugin,
                    level,
                    message: line.to_owned(),
                });
                return;
            }
            if waiting.dropped == 0 {
                waiting.plugin = plugin;
            }
            waiting.dropped += 1;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_of_their_plugin() {
        let log = PluginLog::default();
        log.sink()(LogLevel::Warn, "affinity", "odd: very");
        let expected = Event::PluginLog {
            plugin: "affinity".to_owned(),
            level: LogLevel::Warn,
            message: "odd: very".to_owned(),
        };
        assert_eq!(log.drain(), [expected]);
        assert_eq!(log.drain(), []);
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let log = PluginLog::default();
        for _ in 0..2 * MAX_LINES {
            log.sink()(LogLevel::Info, "affinity", "la");
        }
        let lines = log.drain();
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert!(
            matches!(&lines[MAX_LINES], Event::PluginLog { plugin, level: LogLevel::Warn, message }
                if plugin == "affinity" && message.starts_with("10000 more lines")),
            "{:?}",
            lines[MAX_LINES]
        );
        assert_eq!(log.drain(), []);
    }
}
