//! Options for building an index, in the JSON form of the package.

use pbg_core::model::Comparator;
use pbg_query::IndexOptions;
use pbg_session::Result;
use serde::Deserialize;

use crate::errors::usage;

/// Options for building an index.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    entity_type: Option<String>,
    comparator: Option<String>,
    links: u32,
    build_width: u32,
    recall_queries: u32,
    threads: Option<usize>,
}

impl Options {
    /// Converts to the options of `pbg-train`.
    pub(crate) fn options(self) -> Result<IndexOptions> {
        Ok(IndexOptions {
            entity_type: self.entity_type,
            comparator: comparator(self.comparator)?,
            degree: self.links,
            width: self.build_width,
            questions: self.recall_queries,
            threads: self.threads,
        })
    }
}

/// Returns the comparator of this name.
pub(crate) fn comparator(name: Option<String>) -> Result<Option<Comparator>> {
    let found = name.map(|name| {
        Comparator::built_in(&name).ok_or_else(|| {
            let known: Vec<&str> = Comparator::BUILT_IN.iter().map(Comparator::name).collect();
            usage(format!(
                "comparator: expected one of {}, not {name}",
                known.join(", ")
            ))
        })
    });
    found.transpose()
}
