//! Searches for missing edges, in the JSON form of the package.

use std::sync::atomic::AtomicBool;

use pbg_model::ResolvedConfig;
use pbg_query::{MissingOptions, MissingSearch, missing_pairs};
use pbg_session::Result;
use serde::{Deserialize, Serialize};

use crate::errors::usage;
use crate::question::edge_sets;

/// Options of a search.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MissingRequest {
    k: u32,
    relation: Option<String>,
    per_relation: bool,
    /// Edge sets whose edges are not missing; `None` for all of the dataset.
    filter: Option<Vec<String>>,
    loops: bool,
    most_pairs: u64,
    threads: Option<usize>,
}

/// MissingColumns of the missing edges.
#[derive(Default, Serialize)]
pub(crate) struct MissingColumns {
    heads: Vec<String>,
    relations: Vec<String>,
    tails: Vec<String>,
    scores: Vec<f32>,
    ranks: Vec<u32>,
}

impl MissingRequest {
    /// Searches the best missing edges. If `stop` is set meanwhile, returns an error.
    pub(crate) fn run(
        self,
        resolved: &ResolvedConfig,
        stop: &AtomicBool,
    ) -> Result<MissingColumns> {
        let options = MissingOptions {
            count: self.k,
            relation: self.relation,
            per_relation: self.per_relation,
            filter: self.filter.unwrap_or_else(|| edge_sets(resolved)),
            loops: self.loops,
            threads: self.threads,
        };
        let search = MissingSearch::open(resolved, &options)?;
        let pairs = missing_pairs(resolved, &options);
        if pairs > self.most_pairs {
            let most = self.most_pairs;
            let text = format!(
                "the search would score {pairs} pairs, more than the {most} that `most_pairs` allows"
            );
            let help = format!(
                "choose a relation, `relation=NAME`, or allow the work, `most_pairs={pairs}`"
            );
            return Err(usage(text).help(help));
        }
        let mut columns = MissingColumns::default();
        for edge in search.run(stop, &mut |_| (), &mut |_| ())? {
            columns.heads.push(edge.head);
            columns.relations.push(edge.relation);
            columns.tails.push(edge.tail);
            columns.scores.push(edge.score);
            columns.ranks.push(edge.rank);
        }
        Ok(columns)
    }
}
