//! Conversion between the state of a checkpoint and the work in the ledger, in both directions: a single machine can
//! continue from a checkpoint of several trainers, and several trainers from a checkpoint of a single machine.

use pbg_checkpoint::{CheckpointManifest, shared};
use pbg_core::graph::{Side, SidePartition};
use pbg_core::schedule::{RunExtent, Schedule};
use pbg_core::strategy::StrategyId;
use pbg_ledger::{
    BucketState, BucketStates, EpochProgress, Grid, LedgerRecord, LedgerSums, PROTOCOL,
    PartitionFile, PartitionVersion, PluginTerm, RunTerms, TrainedState, ValidationTerms,
    plan_digest,
};
use pbg_model::error::{CheckpointMismatch, RunError};
use pbg_model::layout::Layout;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::state::{EpochSums, RunState};

use crate::cluster_options::ClusterOptions;

/// Reads the run's position and state from a manifest.
pub(super) fn stored_state(
    manifest: &CheckpointManifest,
    checkpoint: &str,
) -> Result<RunState, RunError> {
    let state = serde_json::from_value(manifest.run.state.clone());
    state.map_err(|e| CheckpointMismatch::position(checkpoint, e).into())
}

/// Returns the grid of a run's buckets and partitions.
pub(super) fn grid(layout: &Layout) -> Grid {
    let tables = |side| {
        let keys = layout.group_tables((side, 0));
        keys.map(|(t, _)| layout.types[t].name.clone()).collect()
    };
    Grid {
        lhs: layout.lhs_partitions,
        rhs: layout.rhs_partitions,
        shared: layout.shared,
        tables: match layout.shared {
            true => [tables(Side::Lhs), Vec::new()],
            false => [tables(Side::Lhs), tables(Side::Rhs)],
        },
    }
}

/// Returns the terms that all trainers of the run must have in common.
pub(super) fn terms(
    resolved: &ResolvedConfig,
    cluster: &ClusterOptions,
    strategies: &[StrategyId],
    extent: RunExtent,
    validation: Option<ValidationTerms>,
) -> RunTerms {
    let plugin = |id: &StrategyId| PluginTerm {
        name: id.to_string(),
        sha256: id.sha256.clone(),
    };
    RunTerms {
        protocol: PROTOCOL,
        training: resolved.training_hash().to_owned(),
        dataset: u32::from_str_radix(resolved.dataset().identity(), 16).unwrap_or_default(),
        plugins: strategies.iter().map(plugin).collect(),
        extent,
        grid: grid(&resolved.blueprint().layout),
        tree_init: cluster.tree_init,
        validation,
        polls: !cluster.live.carries_questions(),
        servers: cluster.servers.as_ref().map(|servers| servers.terms),
    }
}

/// Returns the work of a checkpoint with `manifest` and the run state `state`.
pub(super) fn work_of(
    manifest: &CheckpointManifest,
    state: &RunState,
    layout: &Layout,
) -> TrainedState {
    let grid = grid(layout);
    let mut states = vec![BucketState::ToDo; grid.buckets()];
    for bucket in state.schedule.done_buckets() {
        if let Some(index) = grid.index(bucket) {
            states[index] = BucketState::Done;
        }
    }
    let plan = state.schedule.plan();
    let partition = |group: SidePartition| {
        let file = |(entity, partition): (usize, u32)| {
            shared::ledger_file(manifest, &layout.types[entity].name, partition)
        };
        let files: Option<Vec<PartitionFile>> = layout.group_tables(group).map(file).collect();
        PartitionVersion {
            generation: 0,
            files: files.unwrap_or_default(),
        }
    };
    let EpochSums {
        stats,
        eval_before,
        io,
        // Trainers together have no such figures.
        disk: _,
        seconds,
        calls,
    } = state.epoch;
    TrainedState {
        pass: state.schedule.pass(),
        plan: (!plan.is_empty()).then(|| plan_digest(plan)),
        buckets: BucketStates::of(&states),
        partitions: grid.groups().map(partition).collect(),
        progress: EpochProgress {
            sums: LedgerSums {
                train: stats,
                eval_before,
                io,
                seconds,
                calls,
            },
            plateau: state.plateau,
            finished: None,
            loss: state.loss.clone(),
        },
        told: Default::default(),
        enough: false,
    }
}

/// Returns the run state of `record`, for a checkpoint of it.
pub(super) fn state_of(record: &LedgerRecord, layout: &Layout) -> RunState {
    let work = record.work();
    let extent = record.terms().extent;
    let is_done = |bucket| {
        matches!(
            record.state(bucket),
            Some(BucketState::Done | BucketState::Empty)
        )
    };
    // The original plan does not matter for continuing. Any order of the remaining buckets will do.
    let plan = match work.plan {
        Some(_) => layout.grid().collect(),
        None => Vec::new(),
    };
    let passes = u64::from(work.pass.epoch) * u64::from(extent.edge_sets * extent.edge_chunks)
        + u64::from(work.pass.edge_set * extent.edge_chunks + work.pass.edge_chunk);
    let schedule = Schedule::resume_in_pass(work.pass, plan, is_done);
    let LedgerSums {
        train,
        eval_before,
        io,
        seconds,
        calls,
    } = work.progress.sums;
    RunState {
        index: passes * layout.buckets() + schedule.done() as u64,
        schedule,
        resident: Vec::new(),
        changed: Vec::new(),
        within: None,
        epoch: EpochSums {
            stats: train,
            eval_before,
            io,
            disk: Default::default(),
            seconds,
            calls,
        },
        loss: work.progress.loss.clone(),
        plateau: work.progress.plateau,
    }
}
