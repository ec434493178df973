//! How an index is built, as the package writes it.

use pbg_core::model::Comparator;
use pbg_session::Result;
use pbg_train::IndexOptions;
use serde::Deserialize;
use serde_json::Value;

use crate::errors::usage;

/// How an index is built.
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
    /// As the index takes it.
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

/// The comparator of this name.
pub(crate) fn comparator(name: Option<String>) -> Result<Option<Comparator>> {
    let parsed = name.map(|name| serde_json::from_value(Value::from(name)));
    parsed
        .transpose()
        .map_err(|error| usage(format!("comparator: {error}")))
}
