//! The beginning of a run: everything checked, opened, and as its checkpoint left it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pbg_core::batch_graph::pipeline::{Pipeline, STORAGE};
use pbg_core::event::Event;
use pbg_core::schedule::Extent;
use pbg_core::strategy::Loss as _;
use pbg_kernels::device::Place;
use pbg_kernels::params::Params;
use pbg_kernels::step::StepWorker;
use pbg_store::checkpoint::Checkpoint;
use pbg_store::dataset::EdgeSet;

use super::{Run, Strategies, validation};
use crate::buffer::BufferSize;
use crate::commit::{self, Commits, Start};
use crate::coordinator::Alone;
use crate::edges::EdgeSource;
use crate::error::{Mismatch, RunError};
use crate::executor::{self, executors};
use crate::grow::NewRows;
use crate::identity::Allowed;
use crate::line::Line;
use crate::memory;
use crate::pace::Pace;
use crate::resolved::Resolved;
use crate::state::RunState;
use crate::tables::{DiskTables, Initial};

impl<'a> Run<'a> {
    /// Checks that the run fits model, data, machine and checkpoint before it changes anything.
    pub(super) fn open(
        resolved: &'a Resolved,
        strategies: Strategies,
        allowed: Allowed,
        place: Option<Arc<dyn Place>>,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, RunError> {
        let (config, blueprint) = (resolved.config(), resolved.blueprint());
        executor::allow(resolved, place.is_some())?;
        let edge_sets = Arc::new(resolved.edge_sets()?);
        validation::check(config, resolved.dataset())?;
        let needs = resolved.check(Some(&strategies.loss))?;
        memory::require("training", needs.taken())?;
        let extent = resolved.extent(&edge_sets)?;
        let checkpoint = Checkpoint::open_or_create(Path::new(&config.checkpoint_path))?;
        let initial = Initial::new(resolved, checkpoint.run().is_none())?;
        let mut params = Params::new(&blueprint.spec);
        if let Some(init) = initial.checkpoint() {
            commit::read_model(init.model()?, &mut params)?;
        }
        let commits = Commits::new(resolved, &strategies, allowed)?;
        let Start {
            mut state,
            resumed,
            admitted,
        } = commits.resume(resolved, &checkpoint, &mut params)?;
        check_state(resolved, extent, &state, &strategies)?;
        if let Some(earlier) = &admitted.earlier {
            NewRows::behind(earlier, resolved)?.add_to(&checkpoint, &blueprint.layout.types)?;
        }
        let tables = DiskTables::new(resolved, checkpoint, initial, place.clone())?;
        let mut line = line(resolved, &needs.execution, tables, &edge_sets, extent)?;
        line.buffer.restore(&state.resident, &state.changed)?;
        let spec = validation::with_rates_of(&state.plateau, &blueprint.spec);
        let workers = resolved.settings().workers;
        let pace = Pace::new(config.checkpoint_interval, workers);
        let schedule = std::mem::take(&mut state.schedule);
        Ok(Self {
            resolved,
            config,
            trainers: executors(resolved, &spec, place.as_deref())?,
            place,
            earlier: Default::default(),
            evaluators: evaluators(resolved)?,
            losses: (0..workers).map(|_| strategies.loss.worker()).collect(),
            strategies,
            blueprint,
            edge_sets,
            extent,
            coordinator: Box::new(Alone::new(schedule, pace)),
            line,
            params: Arc::new(params),
            state,
            commits,
            resumed,
            admitted,
            totals: Default::default(),
            sink,
        })
    }
}

/// What ranks the edges that are held out, if any are.
fn evaluators(resolved: &Resolved) -> Result<Vec<StepWorker>, RunError> {
    match resolved.config().eval_fraction > 0.0 {
        true => Ok(executor::trainers(resolved, &resolved.eval_spec())?),
        false => Ok(Vec::new()),
    }
}

/// Whether what the checkpoint remembers fits this run; its loss goes on from there.
fn check_state(
    resolved: &Resolved,
    extent: Extent,
    state: &RunState,
    strategies: &Strategies,
) -> Result<(), RunError> {
    let checkpoint = || PathBuf::from(&resolved.config().checkpoint_path);
    let fits = state.check(extent, &resolved.blueprint().layout);
    fits.map_err(|what| Mismatch::Position {
        checkpoint: checkpoint(),
        what,
    })?;
    if let Some(remembered) = &state.loss {
        let restored = strategies.loss.restore(remembered);
        restored.map_err(|reason| Mismatch::Loss {
            checkpoint: checkpoint(),
            reason,
        })?;
    }
    Ok(())
}

/// The threads and pipes of `pipeline`, with tables at one end and edges at the other.
fn line(
    resolved: &Resolved,
    pipeline: &Pipeline,
    tables: DiskTables,
    edge_sets: &Arc<Vec<EdgeSet>>,
    extent: Extent,
) -> Result<Line<DiskTables>, RunError> {
    let config = resolved.config();
    let layout = resolved.blueprint().layout.clone();
    let size = BufferSize {
        slots: config.buffer_partitions as usize,
        copies: layout.copies(pipeline.pipe(STORAGE).is_some()),
    };
    let source = EdgeSource {
        edge_sets: Arc::clone(edge_sets),
        chunks: extent.edge_chunks,
        seed: config.seed,
        eval_fraction: config.eval_fraction,
    };
    Line::new(pipeline, layout, size, tables, source)
}
