//! The error type that lists all problems of a configuration.

use std::fmt;

use super::key_path::KeyPath;
use super::node::KeyLocation;

/// All problems that [`super::Config::parse`] found; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    origin: String,
    problems: Vec<ConfigProblem>,
}

/// Problem with one key, or with the text as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    path: String,
    place: KeyLocation,
    message: String,
}

/// Maximum number of problems in a message: the first problems usually cause the others.
pub(super) const MOST_SHOWN: usize = 50;

impl ConfigErrors {
    /// Creates the error from the `problems` of the configuration called `origin`, sorted by line.
    pub(super) fn new(origin: &str, mut problems: Vec<ConfigProblem>) -> Self {
        problems.sort_by_key(|p| p.place);
        Self {
            origin: origin.to_owned(),
            problems,
        }
    }

    /// Returns the name of the configuration, usually its file.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Removes `--set` from the problems' locations, for overrides that a program passed.
    #[must_use]
    pub fn without_set(mut self) -> Self {
        for problem in &mut self.problems {
            if problem.place == KeyLocation::Set {
                problem.place = KeyLocation::Nowhere;
            }
        }
        self
    }

    /// Returns the problems in the order of the file, then the problems of overrides.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl ConfigProblem {
    /// Creates a problem with the value at `path`, which was read from `place`.
    pub(super) fn new(path: &KeyPath, place: KeyLocation, message: String) -> Self {
        Self {
            path: path.to_string(),
            place,
            message,
        }
    }

    /// Returns the path of the key, as `--set` accepts it; empty for a problem of the text as a whole.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the line of the file, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self.place {
            KeyLocation::Line(line) => Some(line),
            KeyLocation::Set | KeyLocation::Nowhere => None,
        }
    }

    /// Returns the description of the problem, with advice where there is some.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            KeyLocation::Line(line) => write!(f, "line {line}: ")?,
            KeyLocation::Set => write!(f, "--set: ")?,
            KeyLocation::Nowhere => {}
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.problems.as_slice() {
            return write!(f, "{}: {only}", self.origin);
        }
        write!(f, "{}: {} problems", self.origin, self.problems.len())?;
        for problem in self.problems.iter().take(MOST_SHOWN) {
            write!(f, "\n  {problem}")?;
        }
        match self.problems.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for ConfigErrors {}
