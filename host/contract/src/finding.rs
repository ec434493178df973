//! What was found out.

use std::fmt::Display;

use serde::Serialize;

/// Whether a promise is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It held wherever it was tried.
    Kept,
    /// It did not.
    Broken,
    /// No promise, but good to know.
    Note,
}

/// One promise, or one thing worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The promise in a word or two.
    pub promise: &'static str,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// What was tried, or the first case in which it was broken; may have several lines.
    pub detail: String,
}

/// Findings in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    /// Adds a promise with what was tried, or with how it was broken.
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

    /// Adds something that is no promise.
    pub fn note(&mut self, what: &'static str, detail: impl Display) {
        self.findings.push(Finding {
            promise: what,
            outcome: Outcome::Note,
            detail: detail.to_string(),
        });
    }

    /// What was found out.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many promises are broken.
    #[must_use]
    pub fn broken(&self) -> usize {
        let broken = |finding: &&Finding| finding.outcome == Outcome::Broken;
        self.findings.iter().filter(broken).count()
    }
}
