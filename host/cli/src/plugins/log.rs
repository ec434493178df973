//! What plugins say, on its way to events and to the terminal.

use std::sync::{Arc, Mutex, PoisonError};

use pbg_core::event::Event;
use pbg_wasm::LogSink;

use crate::terminal::Terminal;

/// Lines of plugins that wait to be shown; more than this between two events are dropped.
const MAX_LINES: usize = 1000;

/// What plugins said, as events, until somebody shows it.
#[derive(Clone, Default)]
pub(crate) struct PluginLog {
    events: Arc<Mutex<Vec<Event>>>,
}

impl PluginLog {
    /// The lines since the last call.
    pub(crate) fn drain(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn sink(&self) -> LogSink {
        let events = Arc::clone(&self.events);
        Arc::new(move |level, plugin, line| {
            let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
            if events.len() < MAX_LINES {
                events.push(Event::PluginLog {
                    plugin: plugin.to_owned(),
                    level,
                    message: line.to_owned(),
                });
            }
        })
    }
}

/// Lines of plugins on the terminal.
pub(crate) fn said(terminal: Terminal) -> LogSink {
    Arc::new(move |_, plugin, line| terminal.say(format!("{plugin}: {line}")))
}

/// Lines of plugins on the terminal where that is verbose.
pub(crate) fn in_detail(terminal: Terminal) -> LogSink {
    Arc::new(move |_, plugin, line| terminal.detail(format!("{plugin}: {line}")))
}

#[cfg(test)]
mod tests {
    use pbg_core::event::LogLevel;

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
    fn a_flood_is_bounded() {
        let log = PluginLog::default();
        for _ in 0..2 * MAX_LINES {
            log.sink()(LogLevel::Info, "affinity", "la");
        }
        assert_eq!(log.drain().len(), MAX_LINES);
    }
}
