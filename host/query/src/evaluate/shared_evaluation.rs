//! Evaluation by several processes: each ranks blocks of the edges, and all of them report the same result.
//!
//! The processes share a folder in the checkpoint's folder. It is named after a digest of the evaluation, so another
//! version of the checkpoint, other edges or other options are another evaluation. No process has to be started first,
//! wait for the others or know their number, and the blocks that a killed process has ranked remain usable.

use std::path::Path;
use std::time::Duration;

use super::shared_work::{NextStep, SharedWork};
use pbg_checkpoint::CheckpointError;
use pbg_core::seed::{self, StreamPurpose};
use pbg_files::FileError;
use pbg_ledger::Token;
use pbg_model::error::{JoinError, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::trained::TrainedModel;
use serde::{Deserialize, Serialize};

use super::blocks::block_count;
use super::breakdown::{Breakdown, SumsBy};
use super::seen_coverage::SeenCoverage;
use super::stats::RankSums;
use super::view::{CommittedTables, ModelView};
use super::{EvalOptions, EvalReport, PartialEvaluation, model_to_rank, report};

/// Prefix of the folders' names.
const EVALUATION: &str = "evaluation.";
/// Number of blocks for each process. A process that started later or is slower ranks fewer.
const EACH: u64 = 2;
/// Interval at which a process without a block to rank checks whether the others have finished.
const LOOK: Duration = Duration::from_millis(100);

/// Result of a block.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockResult {
    sums: [RankSums; 2],
    by: SumsBy,
}

/// Evaluates as [`evaluate`](super::evaluate) does, in parallel with other processes that make the same call. The
/// edges are divided for `machines` processes. The ranks are the same as those of a single process; their means may
/// differ in the last digits.
///
/// # Errors
/// As for [`evaluate`](super::evaluate), and when the checkpoint's folder cannot be written.
pub fn evaluate_together(
    resolved: &ResolvedConfig,
    options: &EvalOptions,
    machines: u32,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<EvalReport, RunError> {
    let started = pbg_clock::now();
    let model = model_to_rank(resolved, options)?;
    let met = SeenCoverage::of(resolved, options)?;
    let view = ModelView::of(&model).with_seen(met.required(options));
    let set = view.dataset.edge_set(&options.edges)?;
    let mut parts = PartialEvaluation::new(view, &set, options, resolved.config().seed)?;
    let count = block_count(parts.len(), EACH * u64::from(machines));
    let digest = digest(resolved, &model, options, count)?;
    let name = format!("{EVALUATION}{digest:016x}");
    let folder = Path::new(&resolved.config().checkpoint_path).join(name);
    let bits = pbg_clock::random_u64().map_err(|e| JoinError::NoRandomBits(e.to_string()))?;
    SharedWork::sweep(&folder, EVALUATION).map_err(file)?;
    let mut shared = SharedWork::open(&folder, count, Token(bits)).map_err(file)?;
    let ranked = rank_blocks(&mut shared, &mut parts, &model, count, progress);
    let results = ranked.and_then(|()| shared.results().map_err(file));
    shared.leave().map_err(file)?;

    let mut sums = [RankSums::default(), RankSums::default()];
    let mut by = options.by.map(Breakdown::new);
    for (block, result) in results?.iter().enumerate() {
        let found = read(result, &folder, block)?;
        for (sum, more) in sums.iter_mut().zip(&found.sums) {
            sum.add(more);
        }
        if let Some(by) = &mut by {
            by.merge(&found.by);
        }
    }
    let mut report = report(options, &view, parts.counts(), &sums, by);
    report.unseen = met.unseen;
    report.version = model.checkpoint.version();
    report.missing = model.missing.clone();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Returns a digest of everything that two evaluations must have in common to be the same: the checkpoint's files,
/// the edges, the options and the version of the program.
fn digest(
    resolved: &ResolvedConfig,
    model: &TrainedModel<'_>,
    options: &EvalOptions,
    count: u32,
) -> Result<u64, RunError> {
    let EvalOptions {
        edges,
        filter,
        candidates,
        threads: _,
        limit,
        by,
        seen,
    } = options;
    let path = model.checkpoint.path();
    let manifest = serde_json::to_string(model.checkpoint.manifest());
    let manifest =
        manifest.map_err(|e| file(FileError::new("read the manifest of", path, e.into())))?;
    let what = format!(
        "{} {manifest} {} {edges} {filter:?} {candidates:?} {limit:?} {by:?} {seen} {} {count}",
        env!("CARGO_PKG_VERSION"),
        resolved.dataset().identity(),
        resolved.config().seed,
    );
    Ok(seed::of_text(0, StreamPurpose::Candidates, what.as_bytes()))
}

/// Ranks blocks until all are ranked by some process.
fn rank_blocks(
    shared: &mut SharedWork,
    parts: &mut PartialEvaluation<'_>,
    model: &TrainedModel<'_>,
    count: u32,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), RunError> {
    let tables = &mut CommittedTables::new(model);
    let size = parts.len().div_ceil(u64::from(count));
    let all = 2 * parts.len();
    loop {
        let before = (u64::from(shared.finished()) * 2 * size).min(all);
        progress(before, all);
        match shared.take().map_err(file)? {
            NextStep::Done => return Ok(()),
            NextStep::Wait => pbg_clock::sleep(LOOK),
            NextStep::Block(block) => {
                let start = u64::from(block) * size;
                let part = start..(start + size).min(parts.len());
                let mut step = |done: u64, _| progress((before + done).min(all), all);
                let sums = parts.sums(tables, part, &mut step)?;
                let by = parts.take_breakdown();
                let found = serde_json::to_vec(&BlockResult { sums, by });
                let path = model.checkpoint.path();
                let failed = |e: serde_json::Error| {
                    file(FileError::new("serialize the ranks of", path, e.into()))
                };
                let found = found.map_err(failed)?;
                shared.finish(&found).map_err(file)?;
            }
        }
    }
}

/// Parses the result of a block, which another process may have written long ago.
fn read(result: &[u8], folder: &Path, block: usize) -> Result<BlockResult, RunError> {
    let found = serde_json::from_slice::<BlockResult>(result).map_err(|error| error.to_string());
    let is_possible = |sums: &RankSums| sums.raw.is_possible() && sums.filtered.is_possible();
    let found = found.and_then(|found| {
        let mut all = found.sums.iter().chain(found.by.values().flatten());
        match all.all(is_possible) {
            true => Ok(found),
            false => Err("the sums of its ranks are impossible".to_owned()),
        }
    });
    found.map_err(|what| {
        let path = folder.join(format!("block.{block}"));
        let cause = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
        file(FileError::new("use the ranks in", &path, cause))
    })
}

fn file(error: FileError) -> RunError {
    CheckpointError::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_left_is_looked_at_before_it_is_used() {
        let found = BlockResult {
            sums: Default::default(),
            by: SumsBy::new(),
        };
        let good = serde_json::to_string(&found).unwrap();
        read(good.as_bytes(), Path::new("x"), 7).unwrap();
        for wrong in ["", "{}", &good.replacen("\"n\":0", "\"n\":9", 1)] {
            let error = read(wrong.as_bytes(), Path::new("x"), 7).unwrap_err();
            assert!(error.to_string().contains("x/block.7"), "{error}");
        }
    }
}
