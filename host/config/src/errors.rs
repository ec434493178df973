//! Everything that is wrong with a configuration, in one error.

use std::fmt;

use super::key_path::KeyPath;
use super::node::Place;

/// What [`super::Config::parse`] found wrong: everything at once, at least one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    origin: String,
    problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    path: String,
    place: Place,
    message: String,
}

/// Longer lists help nobody: the first problems usually cause the others.
pub(super) const MOST_SHOWN: usize = 50;

impl ConfigErrors {
    /// `problems` of the configuration called `origin`, in the order of the file.
    pub(super) fn new(origin: &str, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|p| p.place);
        Self {
            origin: origin.to_owned(),
            problems,
        }
    }

    /// Name of the configuration, usually its file.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The same of keys that a program gave: they came from no `--set`.
    #[must_use]
    pub fn of_a_program(mut self) -> Self {
        for problem in &mut self.problems {
            if problem.place == Place::Set {
                problem.place = Place::Nowhere;
            }
        }
        self
    }

    /// The problems in the order of the file, then those of overrides.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl Problem {
    /// A problem with the value at `path`, which came from `place`.
    pub(super) fn new(path: &KeyPath, place: Place, message: String) -> Self {
        Self {
            path: path.to_string(),
            place,
            message,
        }
    }

    /// Path of the key, as `--set` takes it; empty for a problem of the text as a whole.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Line of the file, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self.place {
            Place::Line(line) => Some(line),
            Place::Set | Place::Nowhere => None,
        }
    }

    /// What is wrong, and what to do about it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Line(line) => write!(f, "line {line}: ")?,
            Place::Set => write!(f, "--set: ")?,
            Place::Nowhere => {}
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
