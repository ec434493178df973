//! Upper bounds of the memory for predictions.

use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;

use super::options::PredictOptions;
use crate::evaluate::block::PART;
use crate::evaluate::edges::EDGES;
use crate::evaluate::memory_needs::{
    answer_bytes, needs_beside_tables, reading_needs, relations, thread_bytes, widest,
};
use crate::index::OpenIndex;
use crate::index::query_needs::{sums, walks};

/// Limit of the memory for the questions of a block and their answers, in bytes, unless a single question exceeds it.
const ROOM: u64 = 64 << 20;
/// Largest number of bytes of the names in the questions of a block.
pub(super) const TEXT: usize = 16 << 20;
/// Largest number of questions that always walk on disk, if it is known that there are no more.
const FEW: usize = 4;
/// Limit of the memory for the known relations of the questions that are answered together, in bytes.
pub(super) const KNOWN_BYTES: u64 = 16 << 20;
/// Bytes of a question with the data for looking up its names, without the names.
const QUESTION: u64 = 320;
/// Bytes of a candidate that may be one of the best, twice; of one that is; and of its entry in the table of names.
const ANSWER: u64 = 2 * 12 + 12 + 80;

/// Returns the largest number of entities in an answer.
pub(super) fn count(resolved: &ResolvedConfig, options: &PredictOptions) -> usize {
    let types = resolved.dataset().manifest().entities.values();
    let most = types.map(|info| info.total()).max().unwrap_or(0).max(1);
    u64::from(options.count).min(most) as usize
}

/// Returns the number of questions that are answered together.
pub(super) fn block(resolved: &ResolvedConfig, options: &PredictOptions) -> usize {
    let question = question_bytes(resolved.blueprint(), count(resolved, options));
    let room = (ROOM / question).clamp(1, EDGES) as usize;
    let asked = options.questions;
    asked.map_or(room, |asked| room.min(asked).max(1))
}

/// Returns the bytes of the known relations of a question.
pub(super) const fn known_bytes(relations: u64) -> u64 {
    relations.div_ceil(64) * 8
}

fn question_bytes(blueprint: &Blueprint, count: usize) -> u64 {
    let width = widest(&blueprint.layout) as u64;
    // Its embedding, its query, and the padding of its group of queries, in which it may be the only one.
    let rows = 4 * width * (2 + pbg_kernels::rank::PreparedQueries::GROUP as u64);
    QUESTION + rows + ANSWER * count as u64
}

/// Returns the largest memory needed by [`Predictor::open`](super::Predictor::open) and its answers, by component, in
/// bytes.
///
/// # Errors
/// When the dataset lacks an edge set.
pub fn predict_needs(
    resolved: &ResolvedConfig,
    options: &PredictOptions,
) -> Result<Vec<(String, u64)>, RunError> {
    Ok(needs_and_room(resolved, options)?.0)
}

/// Returns the memory for predictions, and whether tables may be read in addition to an index. They are not read
/// for few questions, for which that is never faster, or if there is too little memory.
pub(super) fn needs_and_room(
    resolved: &ResolvedConfig,
    options: &PredictOptions,
) -> Result<(Vec<(String, u64)>, bool), RunError> {
    if let Some(with) = options.index
        && OpenIndex::compares_all(resolved, with)
    {
        return Ok((needs_of(resolved, options, true)?, true));
    }
    let walks = needs_of(resolved, options, false)?;
    let few = options.questions.is_some_and(|questions| questions <= FEW);
    if options.index.is_none() || few {
        return Ok((walks, false));
    }
    let with_tables = needs_of(resolved, options, true)?;
    let threads = options.threads.unwrap_or_else(cores).max(1);
    let needed = memory::total(&with_tables);
    match memory::require("prediction", needed, threads) {
        Ok(()) => Ok((with_tables, true)),
        Err(_) => Ok((walks, false)),
    }
}

/// Returns the memory for predictions. With an index, the memory for tables is included only if `tables` is set.
fn needs_of(
    resolved: &ResolvedConfig,
    options: &PredictOptions,
    tables: bool,
) -> Result<Vec<(String, u64)>, RunError> {
    let (dataset, blueprint) = (resolved.dataset(), resolved.blueprint());
    let sets = options.filter.iter().map(|name| dataset.edge_set(name));
    let sets = sets.collect::<Result<Vec<_>, _>>()?;
    let threads = options.threads.unwrap_or_else(cores).max(1) as u64;
    let width = widest(&blueprint.layout) as u64;
    let count = count(resolved, options);
    let questions = block(resolved, options) as u64;
    let parts = 5 * 4 * width * questions.min(PART as u64);
    let files = &dataset.manifest().files;
    let types = dataset.manifest().entities.values();
    let dictionaries = types.filter_map(|info| files.get(&info.file));
    let all = options.index.is_none() || tables;
    let mut needs = match all {
        true => reading_needs(resolved),
        false => needs_beside_tables(resolved),
    };
    needs.extend([
        (
            match questions {
                1 => "1 question and the best answers".to_owned(),
                n => format!("{n} questions and the best answers"),
            },
            TEXT as u64 + questions * question_bytes(blueprint, count) + parts,
        ),
        (
            "names of answers".to_owned(),
            dictionaries.map(|file| file.size).sum(),
        ),
        (
            "known edges".to_owned(),
            answer_bytes(dataset, &sets, questions),
        ),
    ]);
    let known = known_bytes(blueprint.relation_names.len() as u64);
    needs.push((
        "known relations".to_owned(),
        (questions * known).min(KNOWN_BYTES.max(known)),
    ));
    if all {
        let what = format!("{threads} threads, a block of candidates each");
        let tasks = 32 * tasks(resolved, questions);
        needs.push((what, threads * thread_bytes(blueprint, width) + tasks));
    }
    if options.index.is_some() {
        needs.extend([sums(resolved), walks(threads)]);
    }
    Ok(needs)
}

/// Returns the number of tasks in the comparison of one partition.
fn tasks(resolved: &ResolvedConfig, questions: u64) -> u64 {
    let blueprint = resolved.blueprint();
    let layout = &blueprint.layout;
    let most = layout.types.iter().flat_map(|t| &t.rows).max();
    let most = most.copied().unwrap_or(0);
    let blocks = most.div_ceil(pbg_kernels::rank::CANDIDATE_BLOCK as u64);
    blocks * questions.min(2 * u64::from(relations(blueprint)))
}
