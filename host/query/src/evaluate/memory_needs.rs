//! Upper bounds of the memory for ranking.

use pbg_core::batch_graph::parameter_width;
use pbg_core::graph::Side;
use pbg_dataset::{Dataset, EdgeSet};
use pbg_kernels::rank::{CANDIDATE_BLOCK, PreparedQueries, Ranker, formula_bytes};
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;
use pbg_model::layout::Layout;
use pbg_model::memory;
use pbg_model::model_bytes::{self, READ_ROWS};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;

use super::block::{self, PART};
use super::breakdown::{Breakdown, GroupBy};
use super::edges::{EDGES, SHUFFLED};
use super::options::{CandidateSet, EvalOptions};
use super::{known_answers, seen_coverage};

/// Limit of the memory for the queries of a block, in bytes.
const ROOM: usize = 128 << 20;
/// The same limit if candidates are prepared anew for every relation of a block.
const ROOM_OF_RELATIONS: usize = 512 << 20;

/// Bytes of an edge, its raw and filtered counts on both sides, and its position in the order of summation.
const RANKED_BYTES: u64 = 20 + 2 * 48 + 16;

/// Returns the number of edges whose queries are in memory together.
pub(super) fn block_edges(blueprint: &Blueprint) -> usize {
    let spec = &blueprint.spec;
    let any_alone = |side| (0..relations(blueprint)).any(|r| block::relation_alone(spec, r, side));
    let alone = Side::BOTH.into_iter().any(any_alone);
    let room = if alone { ROOM_OF_RELATIONS } else { ROOM };
    (room / (16 * widest(&blueprint.layout))).clamp(PART, EDGES as usize)
}

/// Returns the largest memory needed by [`evaluate`](super::evaluate), by component, in bytes.
///
/// # Errors
/// When the dataset lacks an edge set.
pub fn eval_needs(
    resolved: &ResolvedConfig,
    options: &EvalOptions,
) -> Result<Vec<(String, u64)>, RunError> {
    let (dataset, blueprint) = (resolved.dataset(), resolved.blueprint());
    let mut parts = reading_needs(resolved);
    parts.extend(ranking(blueprint, dataset, options)?);
    let met = seen_coverage::bytes(resolved, options);
    if met > 0 {
        parts.push(("entities and relations of trained edges".to_owned(), met));
    }
    Ok(parts)
}

/// Returns the memory for reading a model table by table.
pub(crate) fn reading_needs(resolved: &ResolvedConfig) -> Vec<(String, u64)> {
    let layout = &resolved.blueprint().layout;
    let largest = layout.all_tables().map(|(t, p)| layout.types[t].bytes(p));
    let largest = largest.max().unwrap_or_default();
    let mut parts = needs_beside_tables(resolved);
    parts.insert(2, ("largest partition".to_owned(), largest));
    parts
}

/// Returns the memory of a model without any table in memory.
pub(crate) fn needs_beside_tables(resolved: &ResolvedConfig) -> Vec<(String, u64)> {
    let (dataset, blueprint) = (resolved.dataset(), resolved.blueprint());
    let mut parts = vec![
        model_bytes::program(),
        (
            "relations and their optimizer".to_owned(),
            model_bytes::parameter_bytes(&blueprint.spec).saturating_mul(2),
        ),
    ];
    let features = model_bytes::feature_bytes(blueprint, dataset);
    if features > 0 {
        parts.push(("features".to_owned(), features));
    }
    parts
}

/// Returns the largest memory that validation needs in addition to training, in bytes.
pub fn validation_bytes(resolved: &ResolvedConfig, options: &EvalOptions) -> Result<u64, RunError> {
    let (dataset, blueprint) = (resolved.dataset(), resolved.blueprint());
    let layout = &blueprint.layout;
    let groups = match layout.shared {
        true => layout.lhs_partitions,
        false => layout.lhs_partitions + layout.rhs_partitions,
    };
    let absent = groups > resolved.config().buffer_partitions;
    let tables = layout.all_tables();
    let partitioned = tables.filter(|(t, _)| layout.types[*t].partitioned());
    let largest = partitioned.map(|(t, p)| layout.types[t].bytes(p)).max();
    let table = largest.filter(|_| absent).unwrap_or(0);
    // In a distributed run, a trainer ranks with the parameters of a checkpoint, in addition to those that it trains.
    let parameters = match resolved.config().is_distributed() {
        true => model_bytes::parameter_bytes(&blueprint.spec).saturating_mul(3),
        false => 0,
    };
    let ranking = ranking(blueprint, dataset, options)?;
    Ok(memory::sum([table, parameters, memory::total(&ranking)]))
}

pub(crate) fn widest(layout: &Layout) -> usize {
    let widths = layout.types.iter().map(|t| t.dimension);
    widths.max().unwrap_or(1).max(1)
}

pub(super) fn relations(blueprint: &Blueprint) -> u32 {
    match blueprint.spec.dynamic_relations {
        Some(_) => 1,
        None => blueprint.spec.relations.len() as u32,
    }
}

/// Returns the memory for ranking in addition to model and tables.
fn ranking(
    blueprint: &Blueprint,
    dataset: &Dataset,
    options: &EvalOptions,
) -> Result<Vec<(String, u64)>, RunError> {
    let set = dataset.edge_set(&options.edges)?;
    let limit = options.limit.map_or(u64::MAX, |n| n as u64);
    let edges = edge_bytes(&set, limit);
    ranking_of(blueprint, dataset, options, (set.len().min(limit), edges))
}

/// Returns the largest memory needed by [`evaluate_given`](super::evaluate_given) for `count` edges, without their
/// names, by component, in bytes.
///
/// # Errors
/// When the dataset lacks an edge set of the filter.
pub(super) fn given_needs(
    resolved: &ResolvedConfig,
    count: u64,
    options: &EvalOptions,
) -> Result<Vec<(String, u64)>, RunError> {
    let (dataset, blueprint) = (resolved.dataset(), resolved.blueprint());
    let mut parts = reading_needs(resolved);
    let together = count.min(EDGES);
    // Two names to look up per edge, the relation, and the bytes of a ranked edge.
    let edges = together * (2 * 96 + 4 + RANKED_BYTES);
    parts.extend(ranking_of(blueprint, dataset, options, (count, edges))?);
    Ok(parts)
}

/// Returns the memory for ranking a number of edges that take a number of bytes.
fn ranking_of(
    blueprint: &Blueprint,
    dataset: &Dataset,
    options: &EvalOptions,
    (ranked, edges): (u64, u64),
) -> Result<Vec<(String, u64)>, RunError> {
    let filter = options.filter.iter().map(|name| dataset.edge_set(name));
    let filter = filter.collect::<Result<Vec<_>, _>>()?;
    let threads = options.threads.unwrap_or_else(cores).max(1) as u64;
    let width = widest(&blueprint.layout) as u64;
    let block = ranked.min(block_edges(blueprint) as u64);
    let by = match options.by {
        Some(GroupBy::Relation) => Breakdown::bytes(blueprint.relation_names.len()),
        Some(GroupBy::EntityType) => Breakdown::bytes(blueprint.layout.types.len()),
        None => 0,
    };
    Ok(vec![
        ("ranked edges".to_owned(), edges + by),
        (
            "their embeddings and queries".to_owned(),
            query_bytes(blueprint, block, width),
        ),
        (
            "known answers".to_owned(),
            answer_bytes(dataset, &filter, block),
        ),
        (
            format!("{threads} threads, a block of candidates each"),
            threads * thread_bytes(blueprint, width) + sampled_bytes(dataset, options),
        ),
    ])
}

/// Returns the bytes of a record batch of a bucket, both encoded and as columns.
fn batch_bytes(set: &EdgeSet) -> u64 {
    let rows = set.largest_bucket().min(READ_ROWS);
    2 * rows * if set.has_weight() { 16 } else { 12 }
}

fn edge_bytes(set: &EdgeSet, limit: u64) -> u64 {
    let read = set.len().min(limit).min(EDGES);
    let edges = read * RANKED_BYTES;
    let sample = match set.len() {
        len if limit >= len => 0,
        len if len <= SHUFFLED => 4 * len + 8 * limit,
        _ => 40 * limit,
    };
    edges + sample + batch_bytes(set)
}

fn query_bytes(blueprint: &Blueprint, block: u64, width: u64) -> u64 {
    // Every group of queries is padded.
    let groups = u64::from(relations(blueprint)).min(block);
    let queries = block + groups * (PreparedQueries::GROUP as u64 - 1);
    let gathered = 2 * block * (4 * width + 20);
    // A question with its number, positions, positives and counts.
    let bookkeeping = 2 * (block * (96 + 80) + groups * 320);
    let part = block.min(PART as u64) * 5 * 4 * width;
    gathered + 2 * queries * (4 * width + 12) + bookkeeping + part
}

pub(super) fn answer_bytes(dataset: &Dataset, filter: &[EdgeSet], block: u64) -> u64 {
    let edges = filter.iter().map(EdgeSet::len).sum();
    let counts = dataset.manifest().entities.values();
    let most = counts.flat_map(|info| info.counts.iter().copied()).max();
    let entries = known_answers::most_entries(edges, most.map_or(0, u64::from)) as u64;
    let read = filter.iter().map(batch_bytes).max();
    let batch = edges.min(READ_ROWS);
    // Each edge of a record batch may answer two questions; the threads' parts are joined.
    8 * entries + read.unwrap_or(0) + 2 * 2 * 8 * batch + 2 * 8 * block
}

pub(super) fn thread_bytes(blueprint: &Blueprint, width: u64) -> u64 {
    let operators = blueprint.spec.relations.iter();
    let packed = operators.map(|r| parameter_width(r.operator, width as usize) as u64);
    // Candidates three times (as copied, as prepared, and in panels), and scores.
    let block = CANDIDATE_BLOCK as u64 * (3 * 4 * width + 64);
    let scores = 4 * (Ranker::query_step() * CANDIDATE_BLOCK) as u64;
    let formulas = formula_bytes(&blueprint.spec) as u64;
    block + scores + 4 * packed.max().unwrap_or(0) + formulas
}

fn sampled_bytes(dataset: &Dataset, options: &EvalOptions) -> u64 {
    let CandidateSet::Sample(count) = options.candidates else {
        return 0;
    };
    let types = dataset.manifest().entities.values();
    let drawn = types.map(|info| info.total().min(u64::from(count)));
    drawn.map(|drawn| 32 * drawn).sum()
}
