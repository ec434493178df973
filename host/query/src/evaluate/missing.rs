//! The best edges that are missing in the whole graph: every pair of entities is scored for every relation.
//!
//! An edge has the score that [`QueryModel::score`](crate::QueryModel::score) returns: its left side is the candidate.
//! Partitions are read in pairs, and so are the known edges between them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pbg_core::graph::Side;
use pbg_dataset::EntityId;
use pbg_kernels::rank::{CANDIDATE_BLOCK, CandidateBlock, PreparedQueries, Ranker};
use pbg_kernels::step::BatchRelations;
use pbg_model::blueprint::Blueprint;
use pbg_model::crew::{self, Crew};
use pbg_model::error::{RunError, SettingError};
use pbg_model::memory;
use pbg_model::name_lookup;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;
use pbg_model::trained::{TrainedModel, UntrainedNames};
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;

use super::known_answers::{self, Filter};
use super::memory_needs::{reading_needs, thread_bytes, widest};
use super::predict::{ScoredCandidate, TopK};
use super::view::ModelView;

/// Number of right entities that are compared with a partition together.
const QUERIES: usize = 1 << 12;
/// Duration of the measurement from which the total duration is estimated.
const MEASURED: Duration = Duration::from_millis(100);

/// Options of a search for missing edges.
#[derive(Clone, Debug)]
pub struct MissingOptions {
    /// Number of edges.
    pub count: u32,
    /// Relation of the edges; all relations if `None`.
    pub relation: Option<String>,
    /// Whether `count` edges are kept for each relation instead of for all together.
    pub per_relation: bool,
    /// Edge sets whose edges are not missing.
    pub filter: Vec<String>,
    /// Whether edges from an entity to itself may be missing.
    pub loops: bool,
    /// Number of threads; all cores if `None`.
    pub threads: Option<usize>,
}

/// Edge that is missing.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingEdge {
    /// Left entity.
    pub head: String,
    /// Relation.
    pub relation: String,
    /// Right entity.
    pub tail: String,
    /// Rank from 1, among the edges of its relation or of all.
    pub rank: u32,
    /// Score.
    pub score: f32,
}

/// Identity of an edge in the order of ties: relation, right entity, left entity.
type EdgeKey = (u32, EntityId, EntityId);

/// Model whose missing edges are searched.
pub struct MissingSearch<'a> {
    trained: TrainedModel<'a>,
    spec: Arc<ModelSpec>,
    filter: Filter,
    relations: Range<u32>,
    count: usize,
    per_relation: bool,
    loops: bool,
    threads: usize,
}

/// Returns the number of pairs that are scored.
#[must_use]
pub fn missing_pairs(resolved: &ResolvedConfig, options: &MissingOptions) -> u64 {
    let blueprint = resolved.blueprint();
    let named = |&relation: &u32| {
        let name = &blueprint.relation_names[relation as usize];
        options
            .relation
            .as_ref()
            .is_none_or(|wanted| wanted == name)
    };
    let relations = (0..blueprint.relation_names.len() as u32).filter(named);
    let entities = |relation, side| {
        let layout = &blueprint.layout.types[blueprint.type_of(relation, side)];
        let infos = &resolved.dataset().manifest().entities;
        infos.get(&layout.name).map_or(0, |info| info.total())
    };
    let pairs = relations.map(|r| entities(r, Side::Lhs).saturating_mul(entities(r, Side::Rhs)));
    pairs.fold(0, u64::saturating_add)
}

/// Returns the largest memory needed to search missing edges, by component, in bytes.
///
/// # Errors
/// When the dataset lacks an edge set.
pub fn missing_needs(
    resolved: &ResolvedConfig,
    options: &MissingOptions,
) -> Result<Vec<(String, u64)>, RunError> {
    let (blueprint, dataset) = (resolved.blueprint(), resolved.dataset());
    let threads = options.threads.unwrap_or_else(cores).max(1) as u64;
    let width = widest(&blueprint.layout) as u64;
    let mut known = 0;
    for name in &options.filter {
        let set = dataset.edge_set(name)?;
        let types = &blueprint.layout.types;
        known += match types.iter().all(|of| of.partitioned()) {
            true => set.largest_bucket(),
            false => set.len(),
        };
    }
    let heaps = match options.per_relation && options.relation.is_none() {
        true => blueprint.relation_names.len() as u64,
        false => 1,
    };
    let files = &dataset.manifest().files;
    let dictionaries = dataset.manifest().entities.values();
    let dictionaries = dictionaries.filter_map(|info| files.get(&info.file));
    let most = heaps.saturating_mul(u64::from(options.count));
    let mut needs = reading_needs(resolved);
    let partition = needs.iter().find(|(what, _)| what == "largest partition");
    let partition = partition.map_or(0, |(_, bytes)| *bytes);
    needs.extend([
        ("second partition".to_owned(), partition),
        (
            "known edges between two partitions".to_owned(),
            2 * 12 * known,
        ),
        (
            "best edges and their names".to_owned(),
            // Twice as many edges are kept before the best are selected.
            most.saturating_mul(2 * 28 + 28 + 2 * 80)
                .saturating_add(dictionaries.map(|file| file.size).sum()),
        ),
        (
            format!("{threads} threads, a block of candidates each"),
            threads * thread_bytes(blueprint, width) + 4 * width * QUERIES as u64 * 3,
        ),
    ]);
    Ok(needs)
}

impl<'a> MissingSearch<'a> {
    /// Opens the trained model.
    ///
    /// # Errors
    /// As for [`TrainedModel::open`], and when the relation or an edge set does not exist or there is too little memory.
    pub fn open(resolved: &'a ResolvedConfig, options: &MissingOptions) -> Result<Self, RunError> {
        if options.count == 0 {
            return Err(SettingError::NoCandidates.into());
        }
        let needs = memory::total(&missing_needs(resolved, options)?);
        let threads = options.threads.unwrap_or_else(cores).max(1);
        memory::require("prediction", needs, threads)?;
        let trained = TrainedModel::open(resolved)?;
        let relations = match &options.relation {
            None => 0..trained.blueprint.relation_names.len() as u32,
            Some(name) => {
                let relation = name_lookup::relation(&trained, name)?;
                relation..relation + 1
            }
        };
        Ok(Self {
            spec: Arc::new(trained.blueprint.spec.clone()),
            filter: Filter::open(&ModelView::of(&trained), &options.filter, threads)?,
            relations,
            count: options.count as usize,
            per_relation: options.per_relation,
            loops: options.loops,
            threads,
            trained,
        })
    }

    /// Returns the names of the dataset that the model has no embedding for.
    #[must_use]
    pub fn missing(&self) -> &UntrainedNames {
        &self.trained.missing
    }

    /// Searches the best missing edges, best first; with a selection for each relation, relation by relation. `started`
    /// receives an estimate of the duration once it was measured, and `progress` the finished fraction.
    ///
    /// # Errors
    /// When tables or edges cannot be read, a score is not finite, or `stop` is set.
    pub fn run(
        &self,
        stop: &AtomicBool,
        started: &mut dyn FnMut(Duration),
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<MissingEdge>, RunError> {
        let blueprint: &Blueprint = &self.trained.blueprint;
        let mut groups: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
        for relation in self.relations.clone() {
            let [left, right] = Side::BOTH.map(|side| blueprint.type_of(relation, side));
            groups.entry((left, right)).or_default().push(relation);
        }
        let heaps = if self.per_relation {
            self.relations.len()
        } else {
            1
        };
        let total = self.pairs(&groups);
        let count = self
            .count
            .min(total.try_into().unwrap_or(usize::MAX))
            .max(1);
        let best = (0..heaps).map(|_| BestEdges::new(count));
        let mut state = SearchProgress {
            best: best.collect(),
            started,
            progress,
            done: 0,
            total,
            begun: pbg_clock::now(),
            is_measured: false,
        };
        for (&(left, right), relations) in &groups {
            for head_partition in 0..self.trained.partitions(left) {
                let heads = Arc::new(self.trained.table(left, head_partition)?);
                for tail_partition in 0..self.trained.partitions(right) {
                    let tails = match (left, head_partition) == (right, tail_partition) {
                        true => Arc::clone(&heads),
                        false => Arc::new(self.trained.table(right, tail_partition)?),
                    };
                    let pair = PartitionPair {
                        search: self,
                        heads: ((left, head_partition), &heads),
                        tails: ((right, tail_partition), &tails),
                        known: self.known((left, head_partition), (right, tail_partition))?,
                        stop,
                    };
                    pair.search_relations(relations, &mut state)?;
                }
            }
        }
        let best = state.best.into_iter().map(BestEdges::finish);
        self.named(best.collect())
    }

    /// Returns the number of pairs with an embedding.
    fn pairs(&self, groups: &BTreeMap<(usize, usize), Vec<u32>>) -> u64 {
        let entities = |of: usize| {
            let partitions = 0..self.trained.partitions(of);
            partitions
                .map(|p| self.trained.entities(of, p))
                .sum::<u64>()
        };
        let pairs = groups.iter().map(|(&(left, right), relations)| {
            let pairs = entities(left).saturating_mul(entities(right));
            pairs.saturating_mul(relations.len() as u64)
        });
        pairs.fold(0, u64::saturating_add)
    }

    /// Returns the known edges between two partitions in ascending order: relation, right and left offset.
    fn known(
        &self,
        heads: (usize, u32),
        tails: (usize, u32),
    ) -> Result<Vec<(u32, u32, u32)>, RunError> {
        let view = ModelView::of(&self.trained);
        let blueprint = view.blueprint;
        let mut known = Vec::new();
        let layout = &blueprint.layout;
        let lies_here = |bucket| {
            layout.partition(heads.0, Side::Lhs, bucket) == heads.1
                && layout.partition(tails.0, Side::Rhs, bucket) == tails.1
        };
        self.filter.visit(&view, &lies_here, &mut |edge| {
            let [left, right] = Side::BOTH.map(|side| blueprint.type_of(edge.rel, side));
            if (left, right) == (heads.0, tails.0) && self.relations.contains(&edge.rel) {
                let [(_, head), (_, tail)] =
                    Side::BOTH.map(|side| known_answers::entity(&view, edge, side));
                known.push((edge.rel, tail, head));
            }
        })?;
        known.sort_unstable();
        known.dedup();
        Ok(known)
    }

    /// Looks up the names of the edges.
    fn named(&self, best: Vec<Vec<(EdgeKey, f32)>>) -> Result<Vec<MissingEdge>, RunError> {
        let blueprint = &self.trained.blueprint;
        let types = &blueprint.layout.types;
        let mut names: Vec<HashMap<EntityId, String>> = vec![HashMap::new(); types.len()];
        for &((relation, tail, head), _) in best.iter().flatten() {
            for (side, id) in Side::BOTH.into_iter().zip([head, tail]) {
                names[blueprint.type_of(relation, side)].insert(id, String::new());
            }
        }
        for (names, layout) in names.iter_mut().zip(types) {
            if !names.is_empty() {
                let visit = &mut |id, name: &str| {
                    if let Some(slot) = names.get_mut(&id) {
                        name.clone_into(slot);
                    }
                };
                self.trained.dataset.visit_entities(&layout.name, visit)?;
            }
        }
        let name = |relation, side, id: &EntityId| {
            let of_type = &names[blueprint.type_of(relation, side)];
            of_type.get(id).cloned().unwrap_or_default()
        };
        let ranked = best.iter().flat_map(|edges| (1..).zip(edges));
        let edge = |(rank, ((relation, tail, head), score)): (u32, &(EdgeKey, f32))| MissingEdge {
            head: name(*relation, Side::Lhs, head),
            relation: blueprint.relation_names[*relation as usize].clone(),
            tail: name(*relation, Side::Rhs, tail),
            rank,
            score: *score,
        };
        Ok(ranked.map(edge).collect())
    }
}

/// Best edges so far. Several threads add to them.
struct BestEdges {
    edges: Mutex<TopK<EdgeKey>>,
    /// Bits of the lowest score that may still be one of the best.
    bar: AtomicU32,
}

impl BestEdges {
    fn new(count: usize) -> Self {
        Self {
            edges: Mutex::new(TopK::new(count)),
            bar: AtomicU32::new(f32::NEG_INFINITY.to_bits()),
        }
    }

    fn bar(&self) -> f32 {
        f32::from_bits(self.bar.load(Ordering::Relaxed))
    }

    /// Adds edges, and empties the list.
    fn add(&self, edges: &mut Vec<ScoredCandidate<EdgeKey>>) {
        let mut best = self.edges.lock().unwrap_or_else(PoisonError::into_inner);
        edges.drain(..).for_each(|edge| best.add(edge));
        if let Some(bar) = best.threshold() {
            self.bar.store(bar.to_bits(), Ordering::Relaxed);
        }
    }

    fn finish(self) -> Vec<(EdgeKey, f32)> {
        let best = self.edges.into_inner();
        best.unwrap_or_else(PoisonError::into_inner).into_sorted()
    }
}

/// Best edges and progress of a search.
struct SearchProgress<'s> {
    best: Vec<BestEdges>,
    started: &'s mut dyn FnMut(Duration),
    progress: &'s mut dyn FnMut(f64),
    /// Numbers of pairs.
    done: u64,
    total: u64,
    begun: Instant,
    is_measured: bool,
}

/// Two partitions whose entities are paired.
struct PartitionPair<'s> {
    search: &'s MissingSearch<'s>,
    heads: ((usize, u32), &'s Table),
    tails: ((usize, u32), &'s Table),
    known: Vec<(u32, u32, u32)>,
    stop: &'s AtomicBool,
}

impl PartitionPair<'_> {
    fn search_relations(
        &self,
        relations: &[u32],
        state: &mut SearchProgress<'_>,
    ) -> Result<(), RunError> {
        let mut ranker = Ranker::new(Arc::clone(&self.search.spec))?;
        let mut queries = PreparedQueries::default();
        let (heads, tails) = (self.heads.1.entities(), self.tails.1.entities());
        for &relation in relations {
            let heap = match self.search.per_relation {
                true => (relation - self.search.relations.start) as usize,
                false => 0,
            };
            for first in (0..tails).step_by(QUERIES) {
                let part = first..(first + QUERIES).min(tails);
                self.prepare(&mut ranker, relation, part.clone(), &mut queries);
                let scan = Scan {
                    pair: self,
                    relation,
                    first: first as u32,
                    queries: &queries,
                    best: &state.best[heap],
                    next: AtomicUsize::new(0),
                };
                let scan = &scan;
                let threads = self
                    .search
                    .threads
                    .min(heads.div_ceil(CANDIDATE_BLOCK))
                    .max(1);
                let job = |_| move |crew: &Crew| scan.work(crew);
                crew::run_jobs((0..threads).map(job), || ())?;
                let pairs = part.len() as u64 * heads as u64;
                state.done += pairs;
                let took = state.begun.elapsed();
                if !state.is_measured && took >= MEASURED {
                    state.is_measured = true;
                    (state.started)(took.mul_f64(state.total as f64 / state.done.max(1) as f64));
                }
                (state.progress)(state.done as f64 / state.total.max(1) as f64);
            }
        }
        Ok(())
    }

    /// Computes the queries of the right entities `part`.
    fn prepare(
        &self,
        ranker: &mut Ranker,
        relation: u32,
        part: Range<usize>,
        queries: &mut PreparedQueries,
    ) {
        let (search, tails) = (self.search, self.tails.1);
        let offsets: Vec<u32> = (part.start as u32..part.end as u32).collect();
        // Gathers the rows as all other questions do: features are averaged before anything else.
        let rows = tails.gather(&offsets, search.spec.max_norm);
        let rows = Table::new(rows, tails.embeddings.width());
        let known: Vec<u32> = (0..part.len() as u32).collect();
        let (relation, params) = (BatchRelations::One(relation), &search.trained.params);
        ranker.queries(Side::Lhs, &known, relation, &rows, params, queries);
    }
}

/// Comparison of right entities with all left entities of a partition.
struct Scan<'s> {
    pair: &'s PartitionPair<'s>,
    relation: u32,
    /// Offset of the first right entity.
    first: u32,
    queries: &'s PreparedQueries,
    best: &'s BestEdges,
    next: AtomicUsize,
}

impl Scan<'_> {
    /// Compares blocks of left entities until none is left.
    fn work(&self, crew: &Crew) -> Result<(), RunError> {
        let (pair, search) = (self.pair, self.pair.search);
        let table = pair.heads.1;
        let view = ModelView::of(&search.trained);
        let mut ranker = Ranker::new(Arc::clone(&search.spec))?;
        let (mut block, mut found) = (CandidateBlock::default(), Vec::new());
        loop {
            let first = self.next.fetch_add(CANDIDATE_BLOCK, Ordering::Relaxed);
            if first >= table.entities() || crew.has_failed() {
                return Ok(());
            }
            let last = (first + CANDIDATE_BLOCK).min(table.entities());
            let offsets: Vec<u32> = (first as u32..last as u32).collect();
            let rows = table.gather(&offsets, search.spec.max_norm);
            let rows = Table::new(rows, table.embeddings.width());
            let replacement = view.replaced(Side::Lhs, self.relation);
            ranker.candidates(replacement, 0..offsets.len(), &rows, &mut block);
            for from in (0..self.queries.len()).step_by(Ranker::query_step()) {
                if pair.stop.load(Ordering::Relaxed) {
                    return Err(RunError::Interrupted);
                }
                let part = from..(from + Ranker::query_step()).min(self.queries.len());
                let scores = ranker.scores(self.queries, part.clone(), &block);
                if !scores.iter().all(|score| score.is_finite()) {
                    return Err(RunError::NotComparable { question: 0 });
                }
                let bar = self.best.bar();
                for (query, scores) in part.zip(scores.chunks_exact(offsets.len())) {
                    let tail = self.first + query as u32;
                    let heads = offsets
                        .iter()
                        .zip(scores)
                        .filter(|(_, score)| **score >= bar);
                    found.extend(heads.filter_map(|(&head, &score)| self.edge(head, tail, score)));
                }
                if !found.is_empty() {
                    self.best.add(&mut found);
                }
            }
        }
    }

    /// Returns the edge between two entities, if it is missing and allowed.
    fn edge(&self, head: u32, tail: u32, score: f32) -> Option<ScoredCandidate<EdgeKey>> {
        let (pair, search) = (self.pair, self.pair.search);
        let (heads, tails) = (pair.heads.0, pair.tails.0);
        let is_loop = heads == tails && head == tail;
        let known = (self.relation, tail, head);
        if (is_loop && !search.loops) || pair.known.binary_search(&known).is_ok() {
            return None;
        }
        let id = |(_, partition): (usize, u32), offset| EntityId { partition, offset };
        let (head, tail) = (id(heads, head), id(tails, tail));
        let trained = &search.trained;
        // Entities whose features were all added later have a position but no embedding.
        let has = trained.missing.is_empty()
            || (trained.has(heads.0, head) && trained.has(tails.0, tail));
        has.then_some(ScoredCandidate {
            score,
            id: (self.relation, tail, head),
        })
    }
}
