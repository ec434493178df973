//! Edge sets of WordNet.

use super::Triple;

/// The three edge sets, each sorted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EdgeSets {
    pub(crate) train: Vec<Triple>,
    pub(crate) valid: Vec<Triple>,
    pub(crate) test: Vec<Triple>,
}

impl EdgeSets {
    /// Returns the sets with their names, which are also the stems of their files.
    pub(crate) fn named(&self) -> [(&'static str, &[Triple]); 3] {
        [
            ("train", &self.train),
            ("valid", &self.valid),
            ("test", &self.test),
        ]
    }
}
