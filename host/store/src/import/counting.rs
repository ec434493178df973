//! What an import counts besides, where that is cheap: what held-out edges have that no trained edge has, and names that
//! several entity types have. `pbg-host describe` counts the rest, whatever it takes.

use std::ops::ControlFlow;

use super::{ImportError, ImportJob, ImportProgress, ImportReport};
use crate::dataset::manifest::Manifest;
use crate::dataset::{Dataset, ReadError};
use crate::describe::{DescribeError, Seen, SharedNames};

/// Bytes that may be taken where nobody says how many.
const ROOM: u64 = 1 << 30;

/// What the first count is of.
const UNSEEN: &str = "what held-out edges have that no trained edge has";

/// Says that an import would take too long or too much memory for `what`.
fn too_much(what: &str) -> String {
    format!("{what}, which takes more memory than an import has; `pbg-host describe` counts it")
}

/// Counts in the dataset that was just written, and whose manifest was not.
pub(super) fn count(
    job: &ImportJob<'_>,
    manifest: &Manifest,
    report: &mut ImportReport,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(), ImportError> {
    let dataset = Dataset::being_made(job.folder, manifest)?;
    // A quarter was for reading, which is over.
    let room = job.options.memory.map_or(ROOM, |memory| memory / 4);
    match count_unseen(job, &dataset, (&mut *report, room), progress) {
        Err(DescribeError::Read(ReadError::Damaged { bucket, what, .. })) => {
            // A set that was kept as it was, and that only a new import of it mends.
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

/// Counts what edge sets that are not trained have that no trained edge has.
fn count_unseen(
    job: &ImportJob<'_>,
    dataset: &Dataset,
    (report, room): (&mut ImportReport, u64),
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(), DescribeError> {
    let (trained, sets) = (&job.options.trained, &dataset.manifest().edge_sets);
    let held_out: Vec<&String> = sets.keys().filter(|name| !trained.contains(name)).collect();
    if held_out.is_empty() || held_out.len() == sets.len() {
        return Ok(());
    }
    // Names may still be in memory, so what is limited is kept small.
    let threads = Some(job.options.memory.map_or(job.threads, |_| 1));
    if Seen::bytes(dataset) + Seen::reading_bytes(dataset, threads) > room {
        report.not_counted.push(too_much(UNSEEN));
        return Ok(());
    }
    let total_edges = sets.values().map(|set| set.edges).sum();
    let mut edges = 0;
    let step = &mut |more: u64| {
        edges += more;
        progress(ImportProgress::Counting { edges, total_edges })
    };
    let seen = Seen::of(dataset, trained, threads, step)?;
    for name in held_out {
        let unseen = seen.unseen(&dataset.edge_set(name)?, step)?;
        report.unseen.insert(name.clone(), unseen);
    }
    Ok(())
}
