//! What must hold for a simulated run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use pbg_checkpoint::{CheckpointError, ReadCheckpoint};
use pbg_core::event::{Event, EventLine};
use pbg_core::graph::Bucket;
use pbg_core::schedule::PassId;
use pbg_core::strategy::{BucketOrder, Pass, StrategyError, StrategyId};
use pbg_files::STAGED_SUFFIX;
use pbg_model::compatibility::AllowedChanges;
use pbg_model::error::{JoinError, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_train::Strategies;

use crate::graph::{self, SimSettings};

/// Whether a trainer may end with this error. Its connections may be bad while the run `is_disturbed`; all trainers have
/// the same folder at any time.
pub(crate) fn is_expected(error: &RunError, is_disturbed: bool) -> bool {
    match error {
        RunError::Interrupted => true,
        RunError::Cluster(JoinError::NotShared { .. }) => false,
        RunError::Cluster(_) => is_disturbed,
        // Requests to an object store are repeated for a while before they fail.
        RunError::Checkpoint(CheckpointError::File(error))
            if error.cause.kind() == io::ErrorKind::TimedOut =>
        {
            is_disturbed
        }
        error => is_disturbed && (error.is_disk_full() || error.is_silent_server()),
    }
}

/// A run that has ended.
pub(crate) struct FinishedRun {
    /// What it violates, a line each.
    pub(crate) violations: String,
    /// Number of buckets in its history.
    pub(crate) buckets: u64,
}

/// Checks a run that has ended.
///
/// # Errors
/// When the run's files cannot be read.
pub(crate) fn finished_run(
    resolved: &ResolvedConfig,
    settings: &SimSettings,
    folder: &Path,
) -> Result<FinishedRun> {
    let mut violations = String::new();
    let order = history(resolved, settings, &mut violations)?;
    let buckets = order.values().map(|buckets| buckets.len() as u64).sum();
    leftovers(resolved, &mut violations)?;
    // Updates of shared parameters are exchanged between buckets, which one machine cannot repeat.
    if violations.is_empty() && !settings.shares_parameters {
        replay(resolved, order, folder, &mut violations)?;
    }
    Ok(FinishedRun {
        violations,
        buckets,
    })
}

/// Checks that the folder has no incomplete file, and no table in more than two versions: those of the newest checkpoint
/// and of the one before.
fn leftovers(resolved: &ResolvedConfig, violations: &mut String) -> Result<()> {
    let mut versions = BTreeMap::<String, u32>::new();
    for entry in fs::read_dir(&resolved.config().checkpoint_path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(STAGED_SUFFIX) {
            writeln!(violations, "{name} is left over")?;
        }
        if let Some((table, _)) = name
            .split_once(".v")
            .filter(|_| name.ends_with(".safetensors"))
        {
            *versions.entry(table.to_owned()).or_default() += 1;
        }
    }
    for (table, count) in versions.iter().filter(|(_, count)| **count > 2) {
        writeln!(violations, "{table} is left over in {count} versions")?;
    }
    Ok(())
}

/// Buckets of each pass, in the order in which they were trained.
type History = BTreeMap<PassId, Vec<Bucket>>;

/// Reads the history, and checks that it contains every bucket of every pass once.
fn history(
    resolved: &ResolvedConfig,
    settings: &SimSettings,
    violations: &mut String,
) -> Result<History> {
    let path = Path::new(&resolved.config().checkpoint_path).join("metrics.jsonl");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut history = History::new();
    for line in text.lines() {
        let line: EventLine = serde_json::from_str(line)?;
        if let Event::BucketFinished { pass, bucket, .. } = line.event {
            history.entry(pass).or_default().push(bucket);
        }
    }
    let passes = settings.epochs * settings.chunks;
    if history.len() != passes as usize {
        writeln!(
            violations,
            "{} passes of {passes} were trained",
            history.len()
        )?;
    }
    for (pass, buckets) in &history {
        let mut sorted = buckets.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let expected = resolved.blueprint().layout.buckets() as usize;
        if (sorted.len(), buckets.len()) != (expected, expected) {
            writeln!(
                violations,
                "{pass:?}: {} buckets were trained, {} of them different, of {expected}",
                buckets.len(),
                sorted.len()
            )?;
        }
    }
    Ok(history)
}

/// Trains the same buckets in the same order on one machine, and compares the embeddings.
fn replay(
    resolved: &ResolvedConfig,
    order: History,
    folder: &Path,
    violations: &mut String,
) -> Result<()> {
    let alone = folder.join("alone").to_string_lossy().into_owned();
    let resolved_alone = resolved.with(|config| config.checkpoint_path = alone)?;
    let strategies = Strategies {
        order: Box::new(Recorded {
            id: graph::strategies().order.id().clone(),
            order,
        }),
        ..graph::strategies()
    };
    let (allowed, stop) = (AllowedChanges::default(), Arc::new(AtomicBool::new(false)));
    pbg_train::train(&resolved_alone, strategies, allowed, &stop, &mut drop)?;
    let [together, alone] = [resolved, &resolved_alone]
        .map(|resolved| ReadCheckpoint::open(Path::new(&resolved.config().checkpoint_path)));
    let (together, alone) = (together?, alone?);
    together.verify()?;
    for (name, entity) in &resolved.config().entities {
        for partition in 0..entity.num_partitions {
            let [together, alone] =
                [&together, &alone].map(|checkpoint| checkpoint.read_partition(name, partition));
            if together? != alone? {
                writeln!(
                    violations,
                    "partition {partition} of {name} differs from the replay"
                )?;
            }
        }
    }
    Ok(())
}

/// Order of buckets that was recorded.
struct Recorded {
    id: StrategyId,
    order: History,
}

impl BucketOrder for Recorded {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let id = PassId {
            epoch: pass.epoch,
            edge_set: pass.edge_set,
            edge_chunk: pass.edge_chunk,
        };
        Ok(self.order.get(&id).cloned().unwrap_or_default())
    }

    fn pick(&mut self, _: &Pass, _: &[Bucket], _: &[Bucket]) -> Result<usize, StrategyError> {
        Ok(0)
    }
}
