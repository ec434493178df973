//! The error type of commands: a kind, which determines the exit code, the error, and advice.

use std::fmt;
use std::io;
use std::path::Path;

use pbg_config::ConfigErrors;

use crate::kind::FailureKind;

/// Failure of a command.
#[derive(Debug)]
pub struct Failure {
    kind: FailureKind,
    error: anyhow::Error,
    help: Option<String>,
    closed_pipe: bool,
}

/// Result of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Creates a failure of `kind` with its cause.
    pub fn new(kind: FailureKind, error: impl Into<anyhow::Error>) -> Self {
        Self {
            kind,
            error: error.into(),
            help: None,
            closed_pipe: false,
        }
    }

    /// Creates a failure that consists of a message only.
    pub fn message(kind: FailureKind, text: impl fmt::Display) -> Self {
        Self::new(kind, anyhow::Error::msg(text.to_string()))
    }

    /// Creates the failure of an operation on a file or folder; `what` is as in "cannot write".
    pub fn io(what: &str, path: &Path, error: impl Into<anyhow::Error>) -> Self {
        Self::new(FailureKind::Io, error).context(format!("{what} {}", path.display()))
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Prefixes the error with a description of what was attempted.
    #[must_use]
    pub fn context(mut self, text: impl fmt::Display + Send + Sync + 'static) -> Self {
        self.error = self.error.context(text);
        self
    }

    /// Creates the failure of writing a result to standard output. A reader that has closed the pipe is not an error.
    pub fn stdout(error: io::Error) -> Self {
        Self {
            closed_pipe: error.kind() == io::ErrorKind::BrokenPipe,
            ..Self::new(FailureKind::Io, error).context("cannot write to standard output")
        }
    }

    /// Whether the only cause is that the reader of standard output closed the pipe.
    pub const fn is_closed_pipe(&self) -> bool {
        self.closed_pipe
    }

    /// Returns the kind, which determines the exit code.
    pub const fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns the error of the lower layers.
    #[must_use]
    pub const fn error(&self) -> &anyhow::Error {
        &self.error
    }

    /// Rephrases configuration errors for users of a program instead of a command line.
    #[must_use]
    pub fn for_library_users(mut self) -> Self {
        self.error = match self.error.downcast::<ConfigErrors>() {
            Ok(errors) => errors.without_set().into(),
            Err(error) => error,
        };
        self
    }

    /// Returns the lines to print with their labels: the error, its causes, and advice.
    pub fn lines(&self) -> Vec<(LineLabel, String)> {
        let mut lines = vec![(LineLabel::Error, self.error.to_string())];
        let mut last = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let text = cause.to_string();
            // Many library errors already end with the text of their source.
            if !last.ends_with(&text) {
                lines.push((LineLabel::Cause, text.clone()));
            }
            last = text;
        }
        if let Some(help) = &self.help {
            lines.push((LineLabel::Help, help.clone()));
        }
        lines
    }
}

/// Label of a line of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineLabel {
    /// The error.
    Error,
    /// Its cause.
    Cause,
    /// Advice.
    Help,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_printed_once() {
        let disk = io::Error::other("disk on fire");
        let failure = Failure::new(FailureKind::Io, disk)
            .context("cannot write a.txt: disk on fire")
            .context("cannot save")
            .help("extinguish it");
        let lines = failure.lines();
        assert_eq!(lines[0], (LineLabel::Error, "cannot save".to_owned()));
        assert_eq!(
            lines[1],
            (
                LineLabel::Cause,
                "cannot write a.txt: disk on fire".to_owned()
            )
        );
        assert_eq!(lines[2], (LineLabel::Help, "extinguish it".to_owned()));
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_reader_that_went_away_is_no_error() {
        assert!(Failure::stdout(io::ErrorKind::BrokenPipe.into()).is_closed_pipe());
        assert!(!Failure::stdout(io::ErrorKind::StorageFull.into()).is_closed_pipe());
    }
}
