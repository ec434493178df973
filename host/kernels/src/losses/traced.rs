//! Execution of a loss that is a graph, on rows of scores.

mod schedule;
mod steps;
mod worker;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pbg_core::loss::{Derived, KeepRows, LossState, Observed, TracedLoss};
use pbg_core::strategy::{Loss, LossWorker, RunLength, StrategyError, StrategyId};

use super::program::Program;
use super::rows::{Lane, ROWS, WIDTH};
use schedule::{Parameters, Schedule};
use worker::Worker;

/// Lanes of a tile, unless a single row has more: 16 KiB, so that a few tiles fit the first-level cache.
const TILE_LANES: usize = 256;

/// A [`Loss`] that executes a graph and its derived gradient.
pub struct Traced(Arc<Shared>);

/// State that workers share.
struct Shared {
    id: StrategyId,
    derived: Arc<Derived>,
    program: Program,
    parameters: Parameters,
    schedule: Option<Mutex<Schedule>>,
    keep: Option<KeepRows>,
}

impl Traced {
    /// Derives the gradient of the loss and lowers both to a program.
    #[must_use]
    pub fn new(loss: TracedLoss) -> Self {
        let TracedLoss {
            id,
            graph,
            schedule,
            keep,
        } = loss;
        let parameters = Parameters::new(graph.parameters().to_vec());
        let schedule = schedule.zip(graph.update_every());
        let derived = Arc::new(Derived::of(&graph));
        Self(Arc::new(Shared {
            id,
            program: Program::new(&derived),
            derived,
            parameters,
            schedule: schedule.map(|(guest, every)| Mutex::new(Schedule::new(guest, every))),
            keep,
        }))
    }

    fn schedule(&self) -> Option<MutexGuard<'_, Schedule>> {
        let schedule = self.0.schedule.as_ref()?;
        Some(schedule.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the lanes per row and the rows per tile.
fn shape(columns: usize) -> (usize, usize) {
    let lanes = columns.div_ceil(WIDTH).max(1);
    (lanes, (TILE_LANES / lanes).clamp(1, ROWS))
}

impl Loss for Traced {
    fn id(&self) -> &StrategyId {
        &self.0.id
    }

    fn begin_run(&self, length: RunLength) {
        if let Some(mut schedule) = self.schedule() {
            schedule.begin_run(length);
        }
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        Box::new(Worker::new(Arc::clone(&self.0)))
    }

    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        match self.schedule() {
            Some(mut schedule) => schedule.observe(&self.0.id, &self.0.parameters, edges, loss),
            None => Ok(()),
        }
    }

    fn observe_apart(&self) {
        if let Some(mut schedule) = self.schedule() {
            schedule.observe_apart();
        }
    }

    fn take_observed(&self) -> Observed {
        let schedule = self.schedule();
        schedule.map_or_else(Observed::default, |mut schedule| schedule.take_observed())
    }

    fn count(&self, observed: &Observed) -> Result<(), StrategyError> {
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
