//! Verification of the dataset and the checkpoint, and the cost of the first pass.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use pbg_checkpoint::CheckpointError;
use pbg_core::plan::{self, PlanCost};
use pbg_core::schedule::PassId;
use pbg_core::strategy::{BucketOrder, Pass};
use pbg_dataset::describe::{TrainedVocabulary, UnseenCounts};
use pbg_model::compatibility::{AllowedChanges, OpenPurpose, check_compatibility};
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::model_bytes::READ_ROWS;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::trained::UntrainedNames;

use super::{require_plans, too_large_to_ask};
use crate::disk_tables::InitialTables;
use crate::strategies::Strategies;

/// A verification needs little memory besides the data that it checks, so one thread is enough.
const ONE_THREAD: Option<usize> = Some(1);

/// Result of verifying a checkpoint: what training would do first with it.
#[derive(Clone, Debug, Default)]
pub struct CheckpointVerification {
    /// Rows and relations that training would initialize because the dataset has grown.
    pub missing: UntrainedNames,
    /// Differences between the recorded edges and those that training would go on with.
    pub changes: Vec<String>,
}

/// Reads every file of the dataset, including files that training does not read, and compares it with its checksum.
/// Returns by name, for the edge sets that are not trained, the entities and relations that occur in no trained
/// edge.
///
/// # Errors
/// The first file that is missing or damaged.
pub fn verify(resolved: &ResolvedConfig) -> Result<BTreeMap<String, UnseenCounts>, RunError> {
    let dataset = resolved.dataset();
    for (name, entity) in &resolved.config().entities {
        if entity.featurized {
            dataset.verify_features(name)?;
        }
        dataset.visit_entities(name, &mut |_, _| {})?;
    }
    let (trained, sets) = (&resolved.config().edge_sets, &dataset.manifest().edge_sets);
    let held_out: Vec<&String> = sets.keys().filter(|name| !trained.contains(name)).collect();
    if held_out.is_empty() || !can_count(resolved) {
        verify_edges(resolved)?;
        return Ok(BTreeMap::new());
    }
    // Both functions read every edge once and compare the file with its checksum.
    let go_on = &mut |_| ControlFlow::Continue(());
    let seen = TrainedVocabulary::of(dataset, trained, ONE_THREAD, go_on)?;
    let mut unseen = BTreeMap::new();
    for name in held_out {
        let set = dataset.edge_set(name)?;
        unseen.insert(name.clone(), seen.unseen(&set, go_on)?);
    }
    Ok(unseen)
}

/// Whether there is enough memory to mark the entities and relations of every edge.
fn can_count(resolved: &ResolvedConfig) -> bool {
    let free = memory::free_bytes();
    free.is_none_or(|free| TrainedVocabulary::bytes(resolved.dataset()) < free / 4)
}

/// Reads all edges.
fn verify_edges(resolved: &ResolvedConfig) -> Result<(), RunError> {
    let dataset = resolved.dataset();
    for name in dataset.manifest().edge_sets.keys() {
        let set = dataset.edge_set(name)?;
        for bucket in set.filled_buckets() {
            for start in (0..set.bucket_len(bucket)).step_by(READ_ROWS as usize) {
                set.read(
                    bucket,
                    start..(start + READ_ROWS).min(set.bucket_len(bucket)),
                )?;
            }
        }
    }
    Ok(())
}

/// Compares the checkpoint with the configuration and the dataset, as resuming would, and reads every file of it.
/// If there is no checkpoint, compares that of `init_path`.
///
/// # Errors
/// The reason why training would refuse the checkpoint, or the first damaged file.
pub fn verify_checkpoint(
    resolved: &ResolvedConfig,
    strategies: &Strategies,
    allowed: AllowedChanges,
) -> Result<CheckpointVerification, RunError> {
    let checkpoint = match resolved.version() {
        Ok(checkpoint) => checkpoint,
        Err(CheckpointError::Missing { .. }) => {
            InitialTables::new(resolved, true)?;
            return Ok(CheckpointVerification::default());
        }
        Err(error) => return Err(error.into()),
    };
    let strategies = &strategies.ids();
    let purpose = OpenPurpose::Resume {
        strategies,
        allowed,
    };
    let admitted = check_compatibility(resolved, checkpoint.path(), checkpoint.run(), &purpose)?;
    checkpoint.verify()?;
    Ok(CheckpointVerification {
        missing: match &admitted.earlier {
            Some(earlier) => UntrainedNames::of(earlier, &resolved.ids()?),
            None => UntrainedNames::default(),
        },
        changes: admitted.changes,
    })
}

/// Returns the bytes that asking an order for the plan of a pass takes, if they are too many for `check`.
#[must_use]
pub fn too_large_to_plan(resolved: &ResolvedConfig) -> Option<u64> {
    too_large_to_ask(&resolved.blueprint().layout)
}

/// Returns the cost of the first pass of `order`.
///
/// # Errors
/// When the order fails or its plan is not a permutation of the grid.
pub fn first_plan(
    resolved: &ResolvedConfig,
    order: &mut dyn BucketOrder,
) -> Result<PlanCost, RunError> {
    let pass = first_pass(resolved)?;
    let buckets = order.plan(&pass)?;
    plan::check(&pass, &buckets).map_err(|source| RunError::Plan {
        strategy: order.id().clone(),
        source,
    })?;
    Ok(plan::cost(&pass, &buckets))
}

/// Returns the pass that an order plans first when training begins.
///
/// # Errors
/// When the dataset lacks the edge set, or there is too little memory for a plan with so many buckets.
pub fn first_pass(resolved: &ResolvedConfig) -> Result<Pass, RunError> {
    let (config, blueprint) = (resolved.config(), resolved.blueprint());
    let layout = &blueprint.layout;
    require_plans([layout.lhs_partitions, layout.rhs_partitions], 1)?;
    let set = resolved
        .dataset()
        .edge_set(config.edge_sets.first().map_or("train", String::as_str))?;
    let edges = blueprint
        .layout
        .grid()
        .map(|bucket| set.bucket_len(bucket))
        .collect();
    Ok(blueprint
        .layout
        .pass(config, PassId::default(), edges, Vec::new()))
}
