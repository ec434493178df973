//! Options of rankings, in the JSON form of the package.

use pbg_model::{ResolvedConfig, RunError};
use pbg_query::{CandidateSet, EvalOptions, EvalReport, GroupBy, NamedEdge};
use pbg_session::{Failure, Result};
use serde::Deserialize;

use crate::errors::usage;
use crate::question;

/// Options of an evaluation, in the JSON form of the package.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RankingRequest {
    edges: String,
    /// Edge sets whose edges are not counted as wrong answers; `None` for all of the dataset.
    filter: Option<Vec<String>>,
    candidates: Option<u32>,
    limit: Option<usize>,
    by: Option<String>,
    threads: Option<usize>,
    seen: bool,
}

impl RankingRequest {
    fn options(self, resolved: &ResolvedConfig) -> Result<EvalOptions> {
        let by = self.by.map(|by| match by.as_str() {
            "relation" => Ok(GroupBy::Relation),
            "entity_type" => Ok(GroupBy::EntityType),
            other => Err(usage(format!(
                "by must be \"relation\" or \"entity_type\", not {other:?}"
            ))),
        });
        Ok(EvalOptions {
            edges: self.edges,
            filter: self.filter.unwrap_or_else(|| question::edge_sets(resolved)),
            candidates: self
                .candidates
                .map_or(CandidateSet::All, CandidateSet::Sample),
            threads: self.threads,
            limit: self.limit,
            by: by.transpose()?,
            seen: self.seen,
        })
    }

    /// Ranks the edges of the set.
    pub(crate) fn ranks(self, resolved: &ResolvedConfig) -> Result<EvalReport> {
        let options = self.options(resolved)?;
        Ok(pbg_query::evaluate(resolved, &options, &mut |_, _| ())?)
    }

    /// Ranks edges at hand.
    pub(crate) fn ranks_of(
        self,
        resolved: &ResolvedConfig,
        edges: &[NamedEdge],
    ) -> Result<EvalReport> {
        let options = self.options(resolved)?;
        pbg_query::evaluate_given(resolved, edges, &options).map_err(|no| {
            let number = no.question + 1;
            let is_blamed = matches!(*no.error, RunError::Unknown(_));
            let failure = Failure::from(*no.error);
            match is_blamed {
                true => failure.context(format!("edge {number}")),
                false => failure,
            }
        })
    }
}
