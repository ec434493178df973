//! Execution of a loss graph on rows of scores.

mod schedule;
mod steps;
mod worker;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pbg_core::loss::{LossState, ObservedBatches, SaveFailedRows, TracedLoss};
use pbg_core::strategy::{Loss, LossWorker, RunLength, StrategyError, StrategyId};
use pbg_formula::loss::DerivedLoss;

use super::program::LossProgram;
use super::vectors::{Lane, ROWS, WIDTH};
use schedule::{SharedParameters, UpdateSchedule};
use worker::GraphLossWorker;

/// Number of lanes in a tile, unless a single row has more: 16 KiB, so that a few tiles fit the first-level cache.
const TILE_LANES: usize = 256;

/// [`Loss`] that executes a loss graph and its gradient.
pub struct GraphLoss(Arc<Shared>);

/// State of a loss that its workers share.
struct Shared {
    id: StrategyId,
    derived: Arc<DerivedLoss>,
    program: LossProgram,
    parameters: SharedParameters,
    schedule: Option<Mutex<UpdateSchedule>>,
    keep: Option<SaveFailedRows>,
}

impl GraphLoss {
    /// Derives the gradient of the loss and lowers both to a program.
    #[must_use]
    pub fn new(loss: TracedLoss) -> Self {
        let TracedLoss {
            id,
            graph,
            schedule,
            keep,
        } = loss;
        let parameters = SharedParameters::new(graph.parameters().to_vec());
        let schedule = schedule.zip(graph.update_every());
        let derived = Arc::new(DerivedLoss::of(&graph));
        Self(Arc::new(Shared {
            id,
            program: LossProgram::new(&derived),
            derived,
            parameters,
            schedule: schedule.map(|(guest, every)| Mutex::new(UpdateSchedule::new(guest, every))),
            keep,
        }))
    }

    fn schedule(&self) -> Option<MutexGuard<'_, UpdateSchedule>> {
        let schedule = self.0.schedule.as_ref()?;
        Some(schedule.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the number of lanes per row and of rows per tile, for `columns` negatives per row.
fn shape(columns: usize) -> (usize, usize) {
    let lanes = columns.div_ceil(WIDTH).max(1);
    (lanes, (TILE_LANES / lanes).clamp(1, ROWS))
}

impl Loss for GraphLoss {
    fn id(&self) -> &StrategyId {
        &self.0.id
    }

    fn begin_run(&self, length: RunLength) {
        if let Some(mut schedule) = self.schedule() {
            schedule.begin_run(length);
        }
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        Box::new(GraphLossWorker::new(Arc::clone(&self.0)))
    }

    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        match self.schedule() {
            Some(mut schedule) => schedule.observe(&self.0.id, &self.0.parameters, edges, loss),
            None => Ok(()),
        }
    }

    fn share_parameters(&self) {
        if let Some(mut schedule) = self.schedule() {
            schedule.defer_counting();
        }
    }

    fn take_observed(&self) -> ObservedBatches {
        let schedule = self.schedule();
        schedule.map_or_else(ObservedBatches::default, |mut schedule| {
            schedule.take_observed()
        })
    }

    fn update_shared(&self, observed: &ObservedBatches) -> Result<(), StrategyError> {
        match self.schedule() {
            Some(mut schedule) => schedule.count(&self.0.id, &self.0.parameters, observed),
            None => Ok(()),
        }
    }

    fn state(&self) -> Option<LossState> {
        let schedule = self.schedule()?;
        Some(schedule.state(&self.0.parameters))
    }

    fn restore(&self, state: &LossState) -> Result<(), String> {
        match self.schedule() {
            Some(mut schedule) => schedule.restore(&self.0.parameters, state),
            None => Err(format!("{} has no parameters that change", self.0.id)),
        }
    }

    fn worker_bytes(&self, columns: usize) -> usize {
        let (lanes, rows) = shape(columns);
        let program = &self.0.program;
        let tiles = program.tiles * lanes * rows * size_of::<Lane>();
        tiles + program.vectors * ROWS * size_of::<f32>()
    }
}
