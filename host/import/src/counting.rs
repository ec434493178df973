//! Statistics that an import computes where that is cheap: entities and relations that only held-out edges have, and
//! names that several entity types have. `pbg-host describe` computes all statistics, whatever they cost.

use std::ops::ControlFlow;

use super::job::ImportJob;
use super::{ImportError, ImportProgress, ImportReport};
use pbg_dataset::describe::{DescribeError, SharedNames, TrainedVocabulary};
use pbg_dataset::manifest::DatasetManifest;
use pbg_dataset::{Dataset, EdgeReadError};

/// Memory limit in bytes if the import has none.
const ROOM: u64 = 1 << 30;

/// Description of the first statistic.
const UNSEEN: &str = "entities and relations that only held-out edges have";

/// Returns the message that `what` was not counted because it takes too much memory.
fn too_much(what: &str) -> String {
    format!(
        "{what}: counting takes more memory than an import may use; `pbg-host describe` counts them"
    )
}

/// Computes the statistics of the dataset that was just written, before its manifest exists.
pub(super) fn count(
    job: &ImportJob<'_>,
    manifest: &DatasetManifest,
    report: &mut ImportReport,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(), ImportError> {
    let dataset = Dataset::open_unsealed(job.folder, manifest)?;
    // A quarter of the limit was reserved for reading, which is complete.
    let room = job.options.memory.map_or(ROOM, |memory| memory / 4);
    match count_unseen(job, &dataset, report, room, progress) {
        Err(DescribeError::Read(EdgeReadError::Damaged { bucket, what, .. })) => {
            // A kept edge set may be damaged; only importing it again repairs it.
            let why = format!("{UNSEEN}: a kept edge set is damaged: {what} in bucket {bucket}");
            report.not_counted.push(why);
        }
        counted => counted?,
    }
    if SharedNames::rounds(&dataset, room) > 1 {
        report
            .not_counted
            .push(too_much("names in several entity types"));
        return Ok(());
    }
    let edges = manifest.edge_sets.values().map(|set| set.edges).sum();
    let counting = ImportProgress::Counting {
        edges,
        total_edges: edges,
    };
    let go_on = &mut || progress(counting.clone()).is_continue();
    report.shared_names = SharedNames::of(&dataset, room, go_on)?;
    Ok(())
}

/// Counts the entities and relations of held-out sets that no trained edge has.
fn count_unseen(
    job: &ImportJob<'_>,
    dataset: &Dataset,
    report: &mut ImportReport,
    room: u64,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(), DescribeError> {
    let (trained, sets) = (&job.options.trained, &dataset.manifest().edge_sets);
    let held_out: Vec<&String> = sets.keys().filter(|name| !trained.contains(name)).collect();
    if held_out.is_empty() || held_out.len() == sets.len() {
        return Ok(());
    }
    // Names may still be in memory, so an import with a memory limit uses only one thread.
    let threads = Some(job.options.memory.map_or(job.threads, |_| 1));
    if TrainedVocabulary::bytes(dataset) + TrainedVocabulary::reading_bytes(dataset, threads) > room
    {
        report.not_counted.push(too_much(UNSEEN));
        return Ok(());
    }
    let total_edges = sets.values().map(|set| set.edges).sum();
    let mut edges = 0;
    let step = &mut |more: u64| {
        edges += more;
        progress(ImportProgress::Counting { edges, total_edges })
    };
    let seen = TrainedVocabulary::of(dataset, trained, threads, step)?;
    for name in held_out {
        let unseen = seen.unseen(&dataset.edge_set(name)?, step)?;
        report.unseen.insert(name.clone(), unseen);
    }
    Ok(())
}
