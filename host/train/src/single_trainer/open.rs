//! The start of a single trainer's run: checks everything, opens everything, and restores the state of the checkpoint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pbg_checkpoint::Checkpoint;
use pbg_core::event::{DiskIo, Event};
use pbg_core::schedule::RunExtent;
use pbg_core::strategy::Loss as _;
use pbg_kernels::device::OpenDevice;
use pbg_model::compatibility::AllowedChanges;
use pbg_model::error::{CheckpointMismatch, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::state::RunState;
use pbg_model::trained::UntrainedNames;
use pbg_model::{memory, process_io};
use pbg_rows::params::Params;

use crate::bucket_trainer::{BucketTrainer, MachineParts};
use crate::check::check;
use crate::commit_metadata::{CommitMetadata, StartingPoint};
use crate::commit_pacer::CommitPacer;
use crate::disk_tables::{DiskTables, InitialTables};
use crate::new_rows::NewRows;
use crate::scheduled_factors::ScheduledFactors;
use crate::strategies::Strategies;
use crate::{executor, own_vectors, validation};

use super::SingleTrainer;
impl<'a> SingleTrainer<'a> {
    /// Opens a run. Checks that the run fits the model, the data, the machine and the checkpoint before it changes
    /// anything. The function is one list, longer than a screen: each step needs the steps before it, and this order
    /// guarantees that a refused run has changed nothing.
    pub(crate) fn open(
        resolved: &'a ResolvedConfig,
        mut strategies: Strategies,
        allowed: AllowedChanges,
        place: Option<Arc<dyn OpenDevice>>,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, RunError> {
        let (config, blueprint) = (resolved.config(), resolved.blueprint());
        let disk_at_start = DiskIo {
            process: process_io::so_far(),
            ..DiskIo::default()
        };
        resolved.check_checkpoint_path()?;
        executor::check_supported(resolved, place.is_some())?;
        let edge_sets = Arc::new(resolved.edge_sets()?);
        validation::check(config, resolved.dataset())?;
        let needs = check(resolved, Some(&strategies))?;
        memory::require("training", needs.taken(), needs.threads())?;
        let extent = resolved.extent(&edge_sets)?;
        let checkpoint = Checkpoint::open(Path::new(&config.checkpoint_path))?;
        let initial = InitialTables::new(resolved, checkpoint.run().is_none())?;
        let mut params = Params::new(&blueprint.spec, config.seed);
        initial.read_params(&blueprint.layout, &mut params)?;
        let commits = CommitMetadata::new(resolved, &strategies, allowed)?;
        let StartingPoint {
            mut state,
            resumed,
            admitted,
        } = commits.resume(resolved, &checkpoint, &mut params)?;
        check_state(resolved, extent, &state, &strategies)?;
        checkpoint.sweep()?;
        if let Some(earlier) = &admitted.earlier {
            NewRows::since(earlier, resolved)?.add_to(&checkpoint, &blueprint.layout.types)?;
        }
        let drawn = match &admitted.earlier {
            Some(earlier) => UntrainedNames::of(earlier, &resolved.ids()?),
            None => initial.missing.clone(),
        };
        let vectors = match checkpoint.run() {
            Some(run) => own_vectors::ignored(resolved, &run),
            None => initial.own.events(),
        };
        let tables = DiskTables::new(resolved, checkpoint, initial, place.clone())?;
        let workers = resolved.settings().workers;
        let pace = CommitPacer::new(config.checkpoint_interval, workers);
        let disk_before = state.epoch.disk;
        let mut schedule = std::mem::take(&mut state.schedule);
        // Buckets that were held when the run stopped are to be acquired again.
        schedule.release_all();
        let scheduled = ScheduledFactors::of_run(config, &mut strategies, extent)?;
        let parts = MachineParts {
            strategies,
            edge_sets,
            extent,
            pipeline: &needs.execution,
            tables,
            params,
            place,
            lr_factor: state.plateau.lr_factor,
            scheduled,
        };
        let mut machine = BucketTrainer::new(resolved, parts, sink)?;
        let buffer = &mut machine.pipeline.buffer;
        buffer.restore(&state.resident, &state.changed)?;
        Ok(Self {
            machine,
            schedule,
            pace,
            state,
            commits,
            resumed,
            admitted,
            initialized: drawn,
            vectors,
            totals: Default::default(),
            disk_at_start,
            disk_reported: disk_at_start,
            disk_before,
            started: pbg_clock::now(),
        })
    }
}

/// Checks that the state stored in the checkpoint fits this run, and restores the state of its loss.
fn check_state(
    resolved: &ResolvedConfig,
    extent: RunExtent,
    state: &RunState,
    strategies: &Strategies,
) -> Result<(), RunError> {
    let checkpoint = || PathBuf::from(&resolved.config().checkpoint_path);
    let fits = state.check(extent, &resolved.blueprint().layout);
    fits.map_err(|what| CheckpointMismatch::position(checkpoint(), what))?;
    if let Some(remembered) = &state.loss {
        let restored = strategies.loss.restore(remembered);
        restored.map_err(|reason| CheckpointMismatch::Loss {
            checkpoint: checkpoint(),
            reason,
        })?;
    }
    Ok(())
}
