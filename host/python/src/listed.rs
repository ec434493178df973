//! Ranks among candidates that the package lists for each edge.

use std::sync::atomic::{AtomicBool, Ordering};

use pbg_core::graph::Side;
use pbg_model::{ResolvedConfig, RunError};
use pbg_query::{ListedCandidates, ListedRanker};
use pbg_session::{Failure, Result};
use pyo3::prelude::*;

use crate::config::json;
use crate::errors::usage;

/// An edge from the package: its place, head, relation, tail, whether its head is ranked, and the candidates.
type Listed = (String, String, String, String, bool, Vec<String>);

/// Source of edges: a function of Python that gets the largest numbers of edges, candidates and bytes of names to
/// return together.
pub(crate) struct ListedSource {
    pub(crate) next: Py<PyAny>,
    pub(crate) threads: Option<usize>,
}

/// Ranks all edges of a source, and returns the report as JSON; or the exception that the source raised. If `stop` is
/// set meanwhile, returns an error.
pub(crate) fn rank(
    resolved: &ResolvedConfig,
    source: &ListedSource,
    stop: &AtomicBool,
) -> Result<PyResult<String>> {
    let mut ranker = ListedRanker::open(resolved, source.threads)?;
    let limits = ranker.limits();
    let limits = (limits.edges, limits.candidates, limits.bytes);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted.into());
        }
        let listed: PyResult<Vec<Listed>> =
            Python::attach(|py| source.next.call1(py, limits)?.extract(py));
        let listed = match listed {
            Ok(listed) => listed,
            Err(raised) => return Ok(Err(raised)),
        };
        if listed.is_empty() {
            break;
        }
        let edges = listed.iter().map(|(_, head, relation, tail, is_head, of)| {
            let side = if *is_head { Side::Lhs } else { Side::Rhs };
            let candidates = of.iter().map(String::as_str).collect();
            ListedCandidates {
                head,
                relation,
                tail,
                side,
                candidates,
            }
        });
        let edges: Vec<_> = edges.collect();
        ranker.rank(&edges).map_err(|no| {
            let is_blamed = matches!(
                *no.error,
                RunError::Unknown(_) | RunError::NotComparable { .. }
            );
            let failure = Failure::from(*no.error);
            match listed.get(no.question).filter(|_| is_blamed) {
                Some((place, ..)) => failure.context(place.clone()),
                None => failure,
            }
        })?;
    }
    let report = ranker.report();
    if report.raw.count == 0 {
        return Err(usage("candidates: there are no edges to rank"));
    }
    json(&report).map(Ok)
}
