//! Link prediction: the rank of each true side of an edge among all entities, or a sample of them.
//!
//! Both sides are ranked. Raw ranks count every other candidate, filtered ones leave out the
//! candidates that make another known edge (Bordes et al. 2013). Ties count as the average rank.

mod block;
mod breakdown;
mod count;
mod edges;
mod known;
mod met;
mod needs;
pub mod predict;
mod rank;
mod stats;
mod together;
mod view;

use std::ops::Range;

use pbg_core::event::{RankStats, RankTotals};
use pbg_core::graph::Side;
use pbg_store::dataset::EdgeSet;
use pbg_store::describe::Unseen;
use serde::{Deserialize, Serialize};

use crate::error::{RunError, SettingError};
use crate::memory;
use crate::resolved::Resolved;
use crate::settings::cores;
use crate::trained::{Missing, Trained};
use breakdown::{Breakdown, SumsBy};
pub use breakdown::{By, RanksOf};
use edges::{Counts, EdgeReader};
use met::Met;
pub(crate) use needs::validation_bytes;
use rank::Ranking;
pub(crate) use stats::RankSums;
use view::Committed;
pub(crate) use view::{Held, Live, Tables, View};

/// Edges that are read and summed up together.
pub(crate) const EDGES: u64 = 1 << 16;

/// Which entities a positive is ranked among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// All of the type.
    All,
    /// As many, drawn uniformly once for the whole evaluation.
    Sample(u32),
}

/// What to evaluate.
#[derive(Clone, Debug)]
pub struct EvalOptions {
    /// Edge set to rank.
    pub edges: String,
    /// Edge sets whose edges are no wrong answers.
    pub filter: Vec<String>,
    /// Whom to rank among.
    pub candidates: Candidates,
    /// Threads; all cores if `None`.
    pub threads: Option<usize>,
    /// Ranks at most this many edges, a uniform sample of the set.
    pub limit: Option<usize>,
    /// Also sums ranks up by this.
    pub by: Option<By>,
    /// Leaves out the edges with an entity or a relation that no trained edge has. Candidates stay all entities.
    pub seen: bool,
}

/// Quality of a model on an edge set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalReport {
    /// Edge set.
    pub edges: String,
    /// Edge sets that were filtered out.
    pub filter: Vec<String>,
    /// Version of the checkpoint.
    pub version: u64,
    /// Candidates per edge and side, if sampled.
    pub sampled: Option<u32>,
    /// Ranks of left sides, raw.
    pub raw_lhs: RankStats,
    /// Ranks of right sides, raw.
    pub raw_rhs: RankStats,
    /// Both sides, raw.
    pub raw: RankStats,
    /// Ranks of left sides, filtered; none where no edge set was filtered out, since those would be the raw ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_lhs: Option<RankStats>,
    /// Ranks of right sides, filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_rhs: Option<RankStats>,
    /// Both sides, filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered: Option<RankStats>,
    /// The same by relation or entity type, if that was asked for; those of the most edges first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<RanksOf>,
    /// What the dataset has and the checkpoint has no embedding of: it is no candidate.
    #[serde(default, skip_serializing_if = "Missing::is_empty")]
    pub missing: Missing,
    /// Edges of the set that were left out for it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_embedding: u64,
    /// What the set has that no trained edge has; absent where the set is trained itself, or the dataset lacks what was
    /// trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<Unseen>,
    /// Edges that were left out for it: none unless [`EvalOptions::seen`] asked for that.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_trained_edge: u64,
    /// Seconds.
    pub seconds: f64,
}

impl EvalReport {
    /// The ranks of both sides: filtered where edge sets were filtered out, raw otherwise.
    #[must_use]
    pub fn ranks(&self) -> &RankStats {
        self.filtered.as_ref().unwrap_or(&self.raw)
    }
}

impl Resolved {
    /// Ranks the edges of a set; `progress` hears of rankings done and to do.
    ///
    /// # Errors
    /// When the model or an edge set cannot be read, there is less memory than ranking takes, or a
    /// score is not finite.
    pub fn evaluate(
        &self,
        options: &EvalOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<EvalReport, RunError> {
        let model = self.model_to_rank(options)?;
        let met = Met::of(self, options)?;
        let view = View::of(&model).with_seen(met.required(options));
        let tables = &mut Committed::new(&model);
        let seed = self.config().seed;
        let mut report = rank(&view, tables, options, seed, progress)?;
        report.version = model.checkpoint.version();
        report.missing = model.missing.clone();
        report.unseen = met.unseen;
        Ok(report)
    }

    /// The model, if there is the memory that ranking with it takes.
    fn model_to_rank(&self, options: &EvalOptions) -> Result<Trained<'_>, RunError> {
        let needs = self.eval_needs(options)?;
        let threads = options.threads.unwrap_or_else(cores).max(1);
        memory::require("evaluation", memory::total(&needs), threads)?;
        Trained::open(self)
    }
}

/// Serde passes what it may leave out by reference.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An evaluation that is made part by part: one machine takes all edges at once, several trainers a block each.
pub(crate) struct Parts<'a> {
    reader: EdgeReader<'a>,
    ranking: Ranking<'a>,
    breakdown: Option<Breakdown>,
}

impl<'a> Parts<'a> {
    /// Of the edges of `set`, which `options` names.
    ///
    /// # Errors
    /// When there are no edges to rank, or those to filter cannot be opened.
    pub(crate) fn new(
        view: View<'a>,
        set: &'a EdgeSet,
        options: &EvalOptions,
        seed: u64,
    ) -> Result<Self, RunError> {
        let reader = EdgeReader::new(view, set, options.limit, seed)?;
        if reader.len() == 0 {
            return Err(SettingError::NoEdges {
                edge_set: options.edges.clone(),
                untrained: reader.counts().without_embedding + reader.counts().unseen,
            }
            .into());
        }
        let ranking = Ranking::new(view, options, seed)?;
        Ok(Self {
            reader,
            ranking,
            breakdown: options.by.map(Breakdown::new),
        })
    }

    /// Edges in all.
    pub(crate) fn len(&self) -> u64 {
        self.reader.len()
    }

    /// How many edges of the set are ranked, a sample or not, and how many are left out.
    pub(crate) fn counts(&self) -> Counts {
        self.reader.counts()
    }

    /// What was summed up by relation or type since it was taken last.
    fn take_breakdown(&mut self) -> SumsBy {
        self.breakdown
            .as_mut()
            .map(Breakdown::take)
            .unwrap_or_default()
    }

    /// Sums over the ranks of both sides of the edges `part`, counted from the first; `progress` hears of rankings done
    /// and to do.
    ///
    /// # Errors
    /// When edges or tables cannot be read, or a score is not finite.
    pub(crate) fn sums(
        &mut self,
        tables: &mut dyn Tables,
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
            let mut each = |side, edge: &edges::Edge, ranked| {
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

/// Ranks with the tables of `tables`; the report has no version, and not what is missing.
pub(crate) fn rank(
    view: &View<'_>,
    tables: &mut dyn Tables,
    options: &EvalOptions,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<EvalReport, RunError> {
    let started = std::time::Instant::now();
    let set = view.dataset.edge_set(&options.edges)?;
    let mut parts = Parts::new(*view, &set, options, seed)?;
    let sums = parts.sums(tables, 0..parts.len(), progress)?;
    let mut report = report(options, &sums);
    report.without_embedding = parts.counts().without_embedding;
    report.without_trained_edge = parts.counts().unseen;
    report.by = parts
        .breakdown
        .map_or(Vec::new(), |by| by.report(view, !options.filter.is_empty()));
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

fn report(options: &EvalOptions, [lhs, rhs]: &[RankSums; 2]) -> EvalReport {
    let is_filtered = !options.filter.is_empty();
    EvalReport {
        edges: options.edges.clone(),
        filter: options.filter.clone(),
        version: 0,
        sampled: match options.candidates {
            Candidates::All => None,
            Candidates::Sample(n) => Some(n),
        },
        raw_lhs: lhs.raw.means(),
        raw_rhs: rhs.raw.means(),
        raw: RankTotals::of_both(&lhs.raw, &rhs.raw),
        filtered_lhs: is_filtered.then(|| lhs.filtered.means()),
        filtered_rhs: is_filtered.then(|| rhs.filtered.means()),
        filtered: is_filtered.then(|| RankTotals::of_both(&lhs.filtered, &rhs.filtered)),
        by: Vec::new(),
        missing: Missing::default(),
        without_embedding: 0,
        unseen: None,
        without_trained_edge: 0,
        seconds: 0.0,
    }
}
