//! Ranks among candidates that a file lists for each edge, as the evaluators of benchmarks compute them.
//!
//! The rank is 1 plus the candidates that score above the true entity, plus half of those that score the same: the mean
//! of the optimistic and the pessimistic rank. This is the rank of OGB's evaluator for `mrr` (`_eval_mrr` in
//! `ogb/linkproppred/evaluate.py`). Candidates are taken as they are listed: one that is listed twice counts twice.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pbg_core::event::{RankStats, RankTotals};
use pbg_core::graph::Side;
use pbg_kernels::rank::{CANDIDATE_BLOCK, CandidateBlock, PreparedQueries, RankCounts, Ranker};
use pbg_kernels::step::BatchRelations;
use pbg_model::crew::{self, Crew};
use pbg_model::error::RunError;
use pbg_model::layout::TableKey;
use pbg_model::memory;
use pbg_model::name_lookup;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;
use pbg_model::trained::{TrainedModel, UntrainedNames};
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use serde::Serialize;

use super::block::{BlockEmbeddings, from_tables};
use super::entity_names::EntityNames;
use super::known_answers::EntityKey;
use super::memory_needs::{reading_needs, thread_bytes, widest};
use super::predict::Unanswerable;
use super::view::{CommittedTables, ModelView, TableSource};

/// Largest number of edges that are ranked together.
const EDGES: usize = 1 << 14;
/// Number of candidates from which no more edges are ranked together.
const CANDIDATES: usize = 1 << 20;
/// Bytes of text from which no more edges are ranked together.
const TEXT: usize = 16 << 20;
/// Largest bytes of the text of an edge and its candidates.
const LINE: u64 = 1 << 20;

/// Edge, and the candidates for one of its sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCandidates<'n> {
    /// Left entity.
    pub head: &'n str,
    /// Relation.
    pub relation: &'n str,
    /// Right entity.
    pub tail: &'n str,
    /// Side that the candidates replace.
    pub side: Side,
    /// Names of the candidates.
    pub candidates: Vec<&'n str>,
}

/// Limits of the edges that are ranked together.
#[derive(Clone, Copy, Debug)]
pub struct ListedLimits {
    /// Largest number of edges.
    pub edges: usize,
    /// Number of candidates from which no edge is added.
    pub candidates: usize,
    /// Bytes of text from which no edge is added.
    pub bytes: usize,
}

/// Ranks among listed candidates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedReport {
    /// Version of the checkpoint.
    pub version: u64,
    /// Number of candidates of all edges.
    pub candidates: u64,
    /// Ranks of left sides.
    pub raw_lhs: RankStats,
    /// Ranks of right sides.
    pub raw_rhs: RankStats,
    /// Ranks of both sides: the mean over all lists of candidates.
    pub raw: RankStats,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Model that ranks edges among listed candidates.
pub struct ListedRanker<'a> {
    trained: TrainedModel<'a>,
    spec: Arc<ModelSpec>,
    relations: HashMap<String, u32>,
    threads: usize,
    sums: [RankTotals; 2],
    candidates: u64,
    started: std::time::Instant,
}

/// Edge whose names were resolved to ids.
struct ResolvedEdge {
    side: Side,
    relation: u32,
    known: EntityKey,
    positive: EntityKey,
    /// Entity type of the candidates.
    entity: usize,
    /// Range of its candidates.
    candidates: Range<usize>,
}

/// Edges that are ranked together.
struct ListedBlock {
    edges: Vec<ResolvedEdge>,
    /// Candidates of all edges, those of each edge in ascending order.
    candidates: Vec<EntityKey>,
}

/// Returns the largest memory needed to rank among listed candidates, by component, in bytes.
#[must_use]
pub fn listed_needs(resolved: &ResolvedConfig, threads: Option<usize>) -> Vec<(String, u64)> {
    let blueprint = resolved.blueprint();
    let threads = threads.unwrap_or_else(cores).max(1) as u64;
    let width = widest(&blueprint.layout) as u64;
    let text = TEXT as u64 + LINE;
    // A name of a candidate has at least one byte and a separator.
    let candidates = CANDIDATES as u64 + LINE / 2;
    let mut needs = reading_needs(resolved);
    needs.extend([
        (
            "edges and names of candidates".to_owned(),
            // Text, references to names, names to look up, and ids.
            text + candidates * (16 + 2 * 48 + 8) + EDGES as u64 * 3 * 48,
        ),
        (
            "embeddings of edges".to_owned(),
            2 * EDGES as u64 * (4 * width + 16) + EDGES as u64 * 80,
        ),
        (
            format!("{threads} threads, a block of candidates each"),
            threads * thread_bytes(blueprint, width),
        ),
    ]);
    needs
}

impl<'a> ListedRanker<'a> {
    /// Opens the trained model.
    ///
    /// # Errors
    /// As for [`TrainedModel::open`], and when there is too little memory.
    pub fn open(resolved: &'a ResolvedConfig, threads: Option<usize>) -> Result<Self, RunError> {
        let needs = memory::total(&listed_needs(resolved, threads));
        let threads = threads.unwrap_or_else(cores).max(1);
        memory::require("evaluation", needs, threads)?;
        let trained = TrainedModel::open(resolved)?;
        let names = trained.blueprint.relation_names.iter().cloned();
        Ok(Self {
            spec: Arc::new(trained.blueprint.spec.clone()),
            relations: names.zip(0..).collect(),
            trained,
            threads,
            sums: Default::default(),
            candidates: 0,
            started: pbg_clock::now(),
        })
    }

    /// Returns the names of the dataset that the model has no embedding for.
    #[must_use]
    pub fn missing(&self) -> &UntrainedNames {
        &self.trained.missing
    }

    /// Returns the limits of the edges that are ranked together.
    #[must_use]
    pub const fn limits(&self) -> ListedLimits {
        ListedLimits {
            edges: EDGES,
            candidates: CANDIDATES,
            bytes: TEXT,
        }
    }

    /// Ranks edges, and adds their ranks to those of earlier ones.
    ///
    /// # Errors
    /// For the first edge with an unknown name or a score that is not finite; when tables cannot be read.
    pub fn rank(&mut self, edges: &[ListedCandidates<'_>]) -> Result<(), Unanswerable> {
        let block = self.resolve(edges)?;
        let ranks = self.ranks(&block).map_err(|error| Unanswerable {
            question: match error {
                RunError::NotComparable { question } => question,
                _ => 0,
            },
            error: Box::new(error),
        })?;
        for (edge, rank) in block.edges.iter().zip(ranks) {
            let candidates = edge.candidates.len() as u64;
            self.sums[edge.side as usize].add_rank(rank, candidates);
            self.candidates += candidates;
        }
        Ok(())
    }

    /// Returns the means over all ranks.
    #[must_use]
    pub fn report(&self) -> ListedReport {
        let [lhs, rhs] = &self.sums;
        let mut both = *lhs;
        both.add(rhs);
        ListedReport {
            version: self.trained.checkpoint.version(),
            candidates: self.candidates,
            raw_lhs: lhs.means(),
            raw_rhs: rhs.means(),
            raw: both.means(),
            seconds: self.started.elapsed().as_secs_f64(),
        }
    }

    fn resolve(&self, edges: &[ListedCandidates<'_>]) -> Result<ListedBlock, Unanswerable> {
        let (trained, mut names) = (&self.trained, EntityNames::new(&self.trained));
        for edge in edges {
            if let Some(&relation) = self.relations.get(edge.relation) {
                let of = |side| trained.blueprint.type_of(relation, side);
                names.add(of(Side::Lhs), edge.head);
                names.add(of(Side::Rhs), edge.tail);
                let replaced = of(edge.side);
                edge.candidates
                    .iter()
                    .for_each(|name| names.add(replaced, name));
            }
        }
        let mut block = ListedBlock {
            edges: Vec::with_capacity(edges.len()),
            candidates: Vec::with_capacity(edges.iter().map(|edge| edge.candidates.len()).sum()),
        };
        let found = names.find(trained);
        found.map_err(|error| Unanswerable {
            question: 0,
            error: Box::new(error),
        })?;
        for (question, edge) in edges.iter().enumerate() {
            let resolved = self.resolve_edge(&names, edge, &mut block.candidates);
            block.edges.push(resolved.map_err(|error| Unanswerable {
                question,
                error: Box::new(error),
            })?);
        }
        Ok(block)
    }

    /// Resolves the names of an edge, and adds its candidates to `candidates`.
    fn resolve_edge(
        &self,
        names: &EntityNames<'_>,
        edge: &ListedCandidates<'_>,
        candidates: &mut Vec<EntityKey>,
    ) -> Result<ResolvedEdge, RunError> {
        let trained = &self.trained;
        let Some(&relation) = self.relations.get(edge.relation) else {
            return Err(name_lookup::unknown_relation(trained, edge.relation).into());
        };
        let key = |side, name: &str| {
            let id = names.trained(trained, trained.blueprint.type_of(relation, side), name)?;
            Ok::<_, RunError>((id.partition, id.offset))
        };
        let (head, tail) = (key(Side::Lhs, edge.head)?, key(Side::Rhs, edge.tail)?);
        let (known, positive) = match edge.side {
            Side::Lhs => (tail, head),
            Side::Rhs => (head, tail),
        };
        let first = candidates.len();
        for name in &edge.candidates {
            candidates.push(key(edge.side, name)?);
        }
        candidates[first..].sort_unstable();
        Ok(ResolvedEdge {
            side: edge.side,
            relation,
            known,
            positive,
            entity: trained.blueprint.type_of(relation, edge.side),
            candidates: first..candidates.len(),
        })
    }

    /// Returns the ranks of the edges.
    fn ranks(&self, block: &ListedBlock) -> Result<Vec<f64>, RunError> {
        let view = ModelView::of(&self.trained);
        let tables = &mut CommittedTables::new(&self.trained);
        let mut wanted = vec![Vec::new(); view.blueprint.layout.types.len()];
        let mut keys: BTreeSet<TableKey> = BTreeSet::new();
        for edge in &block.edges {
            let known = view.blueprint.type_of(edge.relation, edge.side.other());
            wanted[known].push(edge.known);
            wanted[edge.entity].push(edge.positive);
            let candidates = &block.candidates[edge.candidates.clone()];
            keys.extend(
                candidates
                    .iter()
                    .map(|&(partition, _)| (edge.entity, partition)),
            );
        }
        let rows = BlockEmbeddings::gather(&view, wanted, &mut from_tables(&view, tables))?;
        let scoring = ListedScoring {
            ranker: self,
            view,
            block,
            rows,
            above: block.edges.iter().map(|_| AtomicU32::new(0)).collect(),
            equal: block.edges.iter().map(|_| AtomicU32::new(0)).collect(),
        };
        for key in keys {
            let (table, next) = (tables.table(key)?, AtomicUsize::new(0));
            let jobs = 0..self.threads.min(block.edges.len());
            let (scoring, next) = (&scoring, &next);
            let job = |_| move |crew: &Crew| scoring.work(crew, next, key, table);
            crew::run_jobs(jobs.map(job), || ())?;
        }
        let counts = scoring.above.into_iter().zip(scoring.equal);
        let rank = |(above, equal): (AtomicU32, AtomicU32)| {
            let (above, equal) = (above.into_inner(), equal.into_inner());
            RankCounts { above, equal }.rank()
        };
        Ok(counts.map(rank).collect())
    }
}

/// State for scoring listed candidates, which all threads share.
struct ListedScoring<'s> {
    ranker: &'s ListedRanker<'s>,
    view: ModelView<'s>,
    block: &'s ListedBlock,
    rows: BlockEmbeddings,
    /// Numbers of candidates that score above the true entity of each edge, and that score the same.
    above: Vec<AtomicU32>,
    equal: Vec<AtomicU32>,
}

impl ListedScoring<'_> {
    /// Compares the candidates in a table with their edges until none is left.
    fn work(
        &self,
        crew: &Crew,
        next: &AtomicUsize,
        key: TableKey,
        table: &Table,
    ) -> Result<(), RunError> {
        let mut ranker = Ranker::new(Arc::clone(&self.ranker.spec))?;
        let (mut queries, mut block) = (PreparedQueries::default(), CandidateBlock::default());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(edge) = self.block.edges.get(at).filter(|_| !crew.has_failed()) else {
                return Ok(());
            };
            let all = &self.block.candidates[edge.candidates.clone()];
            let (entity, partition) = key;
            let from = all.partition_point(|&(p, _)| p < partition);
            let to = all.partition_point(|&(p, _)| p <= partition);
            if edge.entity != entity || from == to {
                continue;
            }
            let positive = self.prepare(&mut ranker, edge, &mut queries);
            let replacement = self.view.replaced(edge.side, edge.relation);
            let mut is_finite = positive.is_finite();
            for part in all[from..to].chunks(CANDIDATE_BLOCK) {
                let offsets: Vec<u32> = part.iter().map(|&(_, offset)| offset).collect();
                let rows = table.gather(&offsets, self.ranker.spec.max_norm);
                let rows = Table::new(rows, table.embeddings.width());
                ranker.candidates(replacement, 0..offsets.len(), &rows, &mut block);
                let scores = ranker.scores(&queries, 0..1, &block);
                is_finite &= scores.iter().all(|score| score.is_finite());
                let counts = RankCounts::count(positive, scores);
                self.above[at].fetch_add(counts.above, Ordering::Relaxed);
                self.equal[at].fetch_add(counts.equal, Ordering::Relaxed);
            }
            if !is_finite {
                return Err(RunError::NotComparable { question: at });
            }
        }
    }

    /// Computes the query of an edge, and returns the score of its true entity.
    fn prepare(
        &self,
        ranker: &mut Ranker,
        edge: &ResolvedEdge,
        queries: &mut PreparedQueries,
    ) -> f32 {
        let known = self
            .view
            .blueprint
            .type_of(edge.relation, edge.side.other());
        let (known, positives) = (&self.rows.types[known], &self.rows.types[edge.entity]);
        let relation = BatchRelations::One(edge.relation);
        let (table, row) = (&known.table, [known.row_of(edge.known)]);
        ranker.queries(edge.side, &row, relation, table, self.view.params, queries);
        let replacement = self.view.replaced(edge.side, edge.relation);
        let positive = [positives.row_of(edge.positive)];
        ranker.pair_scores(replacement, queries, &positive, &positives.table)[0]
    }
}
