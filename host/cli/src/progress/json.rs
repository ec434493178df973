//! Events as JSON lines on standard output.

use std::io::{self, Write};

use pbg_core::event::Event;

use super::reporter::{Announcer, ProgressReporter, Teller};
use crate::terminal::Terminal;

/// Reporter that writes every event as a line of JSON, without buffering.
pub(crate) struct Json {
    terminal: Terminal,
    closed: bool,
}

impl Json {
    /// Creates a reporter that writes to standard output.
    pub(crate) const fn new(terminal: Terminal) -> Self {
        Self {
            terminal,
            closed: false,
        }
    }
}

impl ProgressReporter for Json {
    fn event(&mut self, event: &Event) {
        if self.closed {
            return;
        }
        if let Err(error) = write_line(&mut io::stdout().lock(), event) {
            // The pipe is closed or the disk is full. The run continues, since it is worth more than its log.
            self.closed = true;
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.terminal
                    .warn(format_args!("no more events are written: {error}"));
            }
        }
    }

    fn teller(&self) -> Teller {
        Box::new(|event| {
            // If the reader is gone, the training thread notices that at its next event.
            let _closed = write_line(&mut io::stdout().lock(), event);
        })
    }

    fn announcer(&self) -> Announcer {
        self.terminal.announcer()
    }
}

fn write_line(out: &mut impl Write, event: &Event) -> io::Result<()> {
    serde_json::to_writer(&mut *out, event).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_the_event() {
        let event = Event::Committed {
            version: 3,
            seconds: 0.25,
            writing_seconds: 0.5,
        };
        let mut line = Vec::new();
        write_line(&mut line, &event).unwrap();
        assert_eq!(line.iter().filter(|&&b| b == b'\n').count(), 1);
        assert_eq!(serde_json::from_slice::<Event>(&line).unwrap(), event);
    }
}
