//! Results of a check.

use std::fmt::Display;

use serde::Serialize;

/// Outcome of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The promise held in all cases.
    Kept,
    /// The promise was broken in some case.
    Broken,
    /// Not a promise, but useful information.
    Note,
}

/// Result of checking one promise, or useful information.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the promise, in a word or two.
    pub promise: &'static str,
    /// Whether the promise holds.
    pub outcome: Outcome,
    /// Cases that were tried, or the first case in which it was broken; may have several lines.
    pub detail: String,
}

/// Findings in the order of their checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// Adds a promise with the cases that were tried, or with the error that broke it.
    pub fn promise(&mut self, promise: &'static str, result: Result<String, String>) {
        let (outcome, detail) = match result {
            Ok(tried) => (Outcome::Kept, tried),
            Err(broken) => (Outcome::Broken, broken),
        };
        self.findings.push(Finding {
            promise,
            outcome,
            detail,
        });
    }

    /// Adds information that is not a promise.
    pub fn note(&mut self, what: &'static str, detail: impl Display) {
        self.findings.push(Finding {
            promise: what,
            outcome: Outcome::Note,
            detail: detail.to_string(),
        });
    }

    /// Returns all findings.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the number of broken promises.
    #[must_use]
    pub fn broken(&self) -> usize {
        let broken = |finding: &&Finding| finding.outcome == Outcome::Broken;
        self.findings.iter().filter(broken).count()
    }
}
