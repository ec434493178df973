//! How much memory predictions take at most.

use super::PredictOptions;
use crate::error::RunError;
use crate::evaluate::EDGES;
use crate::evaluate::block::PART;
use crate::evaluate::needs::{answer_bytes, relations, thread_bytes, widest};
use crate::index::{Index, needs as index};
use crate::memory;
use crate::model::Blueprint;
use crate::resolved::Resolved;
use crate::settings::cores;

/// What the questions of a block and their answers may take, where one question alone does not take more.
const ROOM: u64 = 64 << 20;
/// Bytes that the names in the questions of a block may have.
pub(super) const TEXT: usize = 16 << 20;
/// Questions that are walked from the disk where it is known that there are no more.
const FEW: usize = 4;
/// A question with what is kept to look up its names, beside the names.
const QUESTION: u64 = 320;
/// A candidate that may be one of the best, twice; one that is, with its place among names.
const ANSWER: u64 = 2 * 12 + 12 + 80;

/// Entities that an answer has at most.
pub(super) fn count(resolved: &Resolved, options: &PredictOptions) -> usize {
    let types = resolved.dataset().manifest().entities.values();
    let most = types.map(|info| info.total()).max().unwrap_or(0).max(1);
    u64::from(options.count).min(most) as usize
}

/// Questions that are answered together.
pub(super) fn block(resolved: &Resolved, options: &PredictOptions) -> usize {
    let question = question_bytes(resolved.blueprint(), count(resolved, options));
    let room = (ROOM / question).clamp(1, EDGES) as usize;
    options
        .questions
        .map_or(room, |asked| room.min(asked).max(1))
}

fn question_bytes(blueprint: &Blueprint, count: usize) -> u64 {
    let width = widest(&blueprint.layout) as u64;
    // Its embedding, its query, and what pads the group of queries that it may be alone in.
    let rows = 4 * width * (2 + pbg_kernels::rank::Queries::GROUP as u64);
    QUESTION + rows + ANSWER * count as u64
}

impl Resolved {
    /// Memory that [`Resolved::predictor`] and what is asked of it take at most, by component, in bytes.
    ///
    /// # Errors
    /// When the dataset lacks an edge set.
    pub fn predict_needs(&self, options: &PredictOptions) -> Result<Vec<(String, u64)>, RunError> {
        Ok(self.needs_and_room(options)?.0)
    }

    /// What predictions need, and whether tables may be read where there is an index: not for few questions, for which
    /// that never pays, and not where there is too little memory.
    pub(super) fn needs_and_room(
        &self,
        options: &PredictOptions,
    ) -> Result<(Vec<(String, u64)>, bool), RunError> {
        if let Some(with) = options.index
            && Index::looks_at_all(self, with)
        {
            return Ok((self.needs_of(options, true)?, true));
        }
        let walks = self.needs_of(options, false)?;
        let few = options.questions.is_some_and(|questions| questions <= FEW);
        if options.index.is_none() || few {
            return Ok((walks, false));
        }
        let with_tables = self.needs_of(options, true)?;
        let threads = options.threads.unwrap_or_else(cores).max(1);
        Ok(
            match memory::require("prediction", memory::total(&with_tables), threads) {
                Ok(()) => (with_tables, true),
                Err(_) => (walks, false),
            },
        )
    }

    /// The needs; with an index those of `tables` only if they are read beside it.
    fn needs_of(
        &self,
        options: &PredictOptions,
        tables: bool,
    ) -> Result<Vec<(String, u64)>, RunError> {
        let (dataset, blueprint) = (self.dataset(), self.blueprint());
        let sets = options.filter.iter().map(|name| dataset.edge_set(name));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let threads = options.threads.unwrap_or_else(cores).max(1) as u64;
        let width = widest(&blueprint.layout) as u64;
        let count = count(self, options);
        let questions = block(self, options) as u64;
        let parts = 5 * 4 * width * questions.min(PART as u64);
        let files = &dataset.manifest().files;
        let types = dataset.manifest().entities.values();
        let dictionaries = types.filter_map(|info| files.get(&info.file));
        let all = options.index.is_none() || tables;
        let mut needs = match all {
            true => self.reading_needs(),
            false => self.needs_beside_tables(),
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
        if all {
            let what = format!("{threads} threads, a block of candidates each");
            let tasks = 32 * tasks(self, questions);
            needs.push((what, threads * thread_bytes(blueprint, width) + tasks));
        }
        if options.index.is_some() {
            needs.extend([index::sums(self), index::walks(threads)]);
        }
        Ok(needs)
    }
}

/// Parts of the comparison of one partition.
fn tasks(resolved: &Resolved, questions: u64) -> u64 {
    let blueprint = resolved.blueprint();
    let layout = &blueprint.layout;
    let most = layout.types.iter().flat_map(|t| &t.rows).max();
    let blocks = most
        .copied()
        .unwrap_or(0)
        .div_ceil(pbg_kernels::rank::BLOCK as u64);
    blocks * questions.min(2 * u64::from(relations(blueprint)))
}
