//! Results of a check.

use std::fmt::Display;

use serde::Serialize;

/// Outcome of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingOutcome {
    /// The promise held in all cases.
    Kept,
    /// The promise was broken in some case.
    Broken,
    /// Not a promise, but useful information.
    Note,
}

/// Result of checking one promise, or useful information.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContractFinding {
    /// Name of the promise, in a word or two.
    pub promise: &'static str,
    /// Whether the promise holds.
    pub outcome: FindingOutcome,
    /// Cases that were tried, or the first case in which it was broken; may have several lines.
    pub detail: String,
}

/// Findings in the order of their checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ContractReport {
    findings: Vec<ContractFinding>,
}

impl ContractReport {
    /// Adds a promise with the cases that were tried, or with the error that broke it.
    pub fn add_promise(&mut self, promise: &'static str, result: Result<String, String>) {
        let (outcome, detail) = match result {
            Ok(tried) => (FindingOutcome::Kept, tried),
            Err(broken) => (FindingOutcome::Broken, broken),
        };
        self.findings.push(ContractFinding {
            promise,
            outcome,
            detail,
        });
    }

    /// Returns the value of `result`, or adds a promise that its error broke.
    pub(crate) fn unless_broken<T>(
        &mut self,
        promise: &'static str,
        result: Result<T, String>,
    ) -> Option<T> {
        let broken = |broken| self.add_promise(promise, Err(broken));
        result.map_err(broken).ok()
    }

    /// Adds information that is not a promise.
    pub fn add_note(&mut self, what: &'static str, detail: impl Display) {
        self.findings.push(ContractFinding {
            promise: what,
            outcome: FindingOutcome::Note,
            detail: detail.to_string(),
        });
    }

    /// Returns all findings.
    #[must_use]
    pub fn findings(&self) -> &[ContractFinding] {
        &self.findings
    }

    /// Returns the number of broken promises.
    #[must_use]
    pub fn broken(&self) -> usize {
        let broken = |finding: &&ContractFinding| finding.outcome == FindingOutcome::Broken;
        self.findings.iter().filter(broken).count()
    }
}
