//! Evaluation by link prediction: the rank of each side of an edge among all entities, or a sample of them.
//!
//! Both sides are ranked. Raw ranks count every other candidate; filtered ranks leave out the candidates that make
//! another known edge (Bordes et al. 2013). Ties count as the average rank.

mod block;
mod blocks;
mod breakdown;
pub(crate) mod calibration_parts;
mod count;
mod edges;
mod entity_names;
mod given;
mod known_answers;
mod listed;
mod memory_needs;
mod missing;
mod options;
pub mod predict;
mod rank;
mod ranked_edge;
mod seen_coverage;
mod shared_evaluation;
mod shared_work;
mod stats;
mod view;

use std::ops::Range;

use pbg_core::event::{RankStats, RankTotals};
use pbg_core::graph::Side;
use pbg_dataset::EdgeSet;
use pbg_dataset::describe::UnseenCounts;
use pbg_model::error::{RunError, SettingError};
use pbg_model::memory;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;
use pbg_model::trained::{TrainedModel, UntrainedNames};
use serde::{Deserialize, Serialize};

pub use blocks::block_count;
use breakdown::{Breakdown, SumsBy};
pub use breakdown::{GroupBy, GroupRanks};
pub use edges::EdgeCounts;
use edges::{EDGES, RankedEdgeReader};
pub use given::{NamedEdge, evaluate_given};
pub use listed::{ListedCandidates, ListedLimits, ListedRanker, ListedReport, listed_needs};
pub use memory_needs::{eval_needs, validation_bytes};
pub use missing::{MissingEdge, MissingOptions, MissingSearch, missing_needs, missing_pairs};
pub use options::{CandidateSet, EvalOptions};
use rank::EdgeRanker;
use ranked_edge::RankedEdge;
use seen_coverage::SeenCoverage;
pub use shared_evaluation::evaluate_together;
pub use stats::RankSums;
use view::CommittedTables;
pub use view::{LastTable, ModelView, TableSource};

/// Quality of a model on an edge set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalReport {
    /// Edge set.
    pub edges: String,
    /// Edge sets that were filtered out.
    pub filter: Vec<String>,
    /// Version of the checkpoint.
    pub version: u64,
    /// Number of candidates per edge and side, if they are sampled.
    pub sampled: Option<u32>,
    /// Raw ranks of left sides.
    pub raw_lhs: RankStats,
    /// Raw ranks of right sides.
    pub raw_rhs: RankStats,
    /// Raw ranks of both sides.
    pub raw: RankStats,
    /// Filtered ranks of left sides; `None` without edge sets to filter by, since they would equal the raw ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_lhs: Option<RankStats>,
    /// Filtered ranks of right sides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_rhs: Option<RankStats>,
    /// Filtered ranks of both sides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered: Option<RankStats>,
    /// Ranks by relation or entity type, if requested, in descending order of edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<GroupRanks>,
    /// Names of the dataset that the checkpoint has no embedding for; they are not candidates.
    #[serde(default, skip_serializing_if = "UntrainedNames::is_empty")]
    pub missing: UntrainedNames,
    /// Number of edges that were left out because of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_embedding: u64,
    /// Entities and relations of the set that occur in no trained edge; `None` if the set itself is trained, or the
    /// dataset lacks a trained edge set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenCounts>,
    /// Number of edges that were left out because of them; 0 unless [`EvalOptions::seen`] is set.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_trained_edge: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl EvalReport {
    /// Returns the ranks of both sides: filtered if edge sets were filtered out, otherwise raw.
    #[must_use]
    pub fn ranks(&self) -> &RankStats {
        self.filtered.as_ref().unwrap_or(&self.raw)
    }
}

/// Ranks the edges of a set. `progress` receives the number of finished rankings and their total.
///
/// # Errors
/// When the model or an edge set cannot be read, there is too little memory, or a score is not finite.
pub fn evaluate(
    resolved: &ResolvedConfig,
    options: &EvalOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<EvalReport, RunError> {
    evaluate_with_seed(resolved, options, resolved.config().seed, progress)
}

/// Ranks the edges of a set as [`evaluate`] does, with samples of edges and candidates drawn by `seed` instead of the
/// configuration's, so that models of different seeds rank the same edges.
///
/// # Errors
/// As for [`evaluate`].
pub fn evaluate_with_seed(
    resolved: &ResolvedConfig,
    options: &EvalOptions,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<EvalReport, RunError> {
    let model = model_to_rank(resolved, options)?;
    let met = SeenCoverage::of(resolved, options)?;
    let view = ModelView::of(&model).with_seen(met.required(options));
    let tables = &mut CommittedTables::new(&model);
    let mut report = rank(&view, tables, options, seed, progress)?;
    report.version = model.checkpoint.version();
    report.missing = model.missing.clone();
    report.unseen = met.unseen;
    Ok(report)
}

/// Opens the model if there is enough memory for ranking with it.
fn model_to_rank<'a>(
    resolved: &'a ResolvedConfig,
    options: &EvalOptions,
) -> Result<TrainedModel<'a>, RunError> {
    let needs = eval_needs(resolved, options)?;
    let threads = options.threads.unwrap_or_else(cores).max(1);
    memory::require("evaluation", memory::total(&needs), threads)?;
    TrainedModel::open(resolved)
}

/// Whether a count is 0. Serde passes the value by reference.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Evaluation in parts: a single process ranks all edges at once, several trainers a block each.
pub struct PartialEvaluation<'a> {
    reader: RankedEdgeReader<'a>,
    ranking: EdgeRanker<'a>,
    breakdown: Option<Breakdown>,
}

#[expect(
    clippy::len_without_is_empty,
    reason = "there are always edges to rank, or `new` fails"
)]
impl<'a> PartialEvaluation<'a> {
    /// Prepares to rank the edges of `set`, which `options` names.
    ///
    /// # Errors
    /// When there are no edges to rank, or the edge sets to filter by cannot be opened.
    pub fn new(
        view: ModelView<'a>,
        set: &'a EdgeSet,
        options: &EvalOptions,
        seed: u64,
    ) -> Result<Self, RunError> {
        let reader = RankedEdgeReader::new(view, set, options.limit, seed)?;
        if reader.len() == 0 {
            return Err(SettingError::NoEdges {
                edge_set: options.edges.clone(),
                untrained: reader.counts().without_embedding + reader.counts().unseen,
            }
            .into());
        }
        let ranking = EdgeRanker::new(view, options, seed)?;
        Ok(Self {
            reader,
            ranking,
            breakdown: options.by.map(Breakdown::new),
        })
    }

    /// Returns the number of edges to rank.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.reader.len()
    }

    /// Returns how many edges of the set can be ranked, sampled or not, and how many are left out.
    #[must_use]
    pub fn counts(&self) -> EdgeCounts {
        self.reader.counts()
    }

    /// Takes the sums by relation or type since the last call.
    fn take_breakdown(&mut self) -> SumsBy {
        let breakdown = self.breakdown.as_mut();
        breakdown.map(Breakdown::take).unwrap_or_default()
    }

    /// Returns the sums over the ranks of both sides of the edges `part`, numbered from the first edge. `progress`
    /// receives the number of finished rankings and their total.
    ///
    /// # Errors
    /// When edges or tables cannot be read, or a score is not finite.
    pub fn sums(
        &mut self,
        tables: &mut dyn TableSource,
        part: Range<u64>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<[RankSums; 2], RunError> {
        let mut sums = [RankSums::default(), RankSums::default()];
        let (mut left, total) = (part.end - part.start, 2 * (part.end - part.start));
        let mut edges = Vec::new();
        self.reader.seek(part.start)?;
        while left > 0 {
            self.reader.next(left.min(EDGES) as usize, &mut edges)?;
            if edges.is_empty() {
                break;
            }
            let done = total - 2 * left;
            let mut step = |share: f64| {
                let share = share * 2.0 * edges.len() as f64;
                progress(done + share as u64, total);
            };
            let (breakdown, view) = (&mut self.breakdown, self.ranking.view());
            let mut each = |side, edge: &RankedEdge, ranked| {
                if let Some(breakdown) = breakdown {
                    breakdown.add(view, side, edge, ranked);
                }
            };
            let found = self.ranking.sums(tables, &edges, &mut step, &mut each)?;
            for side in Side::BOTH {
                sums[side as usize].add(&found[side as usize]);
            }
            left -= edges.len() as u64;
        }
        Ok(sums)
    }
}

/// Ranks the edges with `tables`. The report lacks the version and the missing names.
pub fn rank(
    view: &ModelView<'_>,
    tables: &mut dyn TableSource,
    options: &EvalOptions,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<EvalReport, RunError> {
    let started = pbg_clock::now();
    let set = view.dataset.edge_set(&options.edges)?;
    let mut parts = PartialEvaluation::new(*view, &set, options, seed)?;
    let sums = parts.sums(tables, 0..parts.len(), progress)?;
    let mut report = report(options, view, parts.counts(), &sums, parts.breakdown);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Returns the report of a ranking, without what its caller knows about the model and the duration.
fn report(
    options: &EvalOptions,
    view: &ModelView<'_>,
    counts: EdgeCounts,
    [lhs, rhs]: &[RankSums; 2],
    by: Option<Breakdown>,
) -> EvalReport {
    let is_filtered = !options.filter.is_empty();
    EvalReport {
        edges: options.edges.clone(),
        filter: options.filter.clone(),
        version: 0,
        sampled: match options.candidates {
            CandidateSet::All => None,
            CandidateSet::Sample(n) => Some(n),
        },
        raw_lhs: lhs.raw.means(),
        raw_rhs: rhs.raw.means(),
        raw: RankTotals::of_both(&lhs.raw, &rhs.raw),
        filtered_lhs: is_filtered.then(|| lhs.filtered.means()),
        filtered_rhs: is_filtered.then(|| rhs.filtered.means()),
        filtered: is_filtered.then(|| RankTotals::of_both(&lhs.filtered, &rhs.filtered)),
        by: by.map_or(Vec::new(), |by| by.report(view, is_filtered)),
        missing: UntrainedNames::default(),
        without_embedding: counts.without_embedding,
        unseen: None,
        without_trained_edge: counts.unseen,
        seconds: 0.0,
    }
}
