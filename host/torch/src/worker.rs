//! Worker that trains batches on a device.

use std::sync::{Arc, MutexGuard};

use pbg_core::graph::Side;
use pbg_core::strategy::LossWorker;
use pbg_kernels::device::{self, BatchPlanner, DevicePlan, DeviceWorker, StepBuffers};
use pbg_kernels::step::{
    BatchJob, BatchStats, BatchTables, Execution, ScoreObserver, StageTimes, StepError, WorkerError,
};
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use tch::Tensor;

use super::device::TorchDevice;
use super::error::{DeviceError, failed, message_of};
use super::fused::CudaKernels;
use super::one_thread::on_this_thread;
use super::parameters::DeviceParameters;
use super::pending_sums::PendingSums;
use super::planner::{PlannedDeviceBatch, TorchPlanner};
use super::step::DeviceStep;
use super::sums::BatchSums;
use super::tables::{TableRows, TorchRows};
use super::transfer;
use super::working_set::WorkingSet;

/// Worker that trains batches with libtorch's operations.
pub(super) struct TorchWorker {
    spec: Arc<ModelSpec>,
    execution: Execution,
    place: TorchDevice,
    /// Plans batches that were not planned ahead.
    planner: TorchPlanner,
    /// Parameters on the device, from the first batch on.
    parameters: Option<DeviceParameters>,
    /// Kernels; `None` without a GPU.
    kernels: Option<CudaKernels>,
    /// Result of the last planned batch, if it was not returned yet.
    last: Option<PendingStats>,
    times: StageTimes,
}

/// Result of a batch.
enum PendingStats {
    Known(BatchStats),
    Later(PendingSums),
}

impl PendingStats {
    fn stats(self) -> Result<BatchStats, DeviceError> {
        match self {
            Self::Known(stats) => Ok(stats),
            Self::Later(later) => later.stats(),
        }
    }
}

impl TorchWorker {
    /// Creates a worker for `spec` on `place`.
    ///
    /// # Errors
    /// When the specification is invalid.
    pub(super) fn new(
        spec: Arc<ModelSpec>,
        execution: Execution,
        place: TorchDevice,
    ) -> Result<Self, WorkerError> {
        spec.validate()?;
        Ok(Self {
            planner: TorchPlanner::new(Arc::clone(&spec), execution, place)?,
            spec,
            execution,
            place,
            last: None,
            parameters: None,
            kernels: CudaKernels::new(place).map_err(|e| WorkerError::Tensor(message_of(&e)))?,
            times: StageTimes::default(),
        })
    }

    fn work(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
        observer: Option<&mut ScoreObserver<'_>>,
    ) -> Result<BatchStats, DeviceError> {
        if job.batch.is_empty() {
            return Ok(BatchStats::default());
        }
        self.times.start();
        let planned = self.planner.planned(job)?;
        self.work_as_planned(job, planned, loss, observer, None)
    }

    fn work_as_planned(
        &mut self,
        job: &BatchJob<'_>,
        PlannedDeviceBatch { plan, offsets }: PlannedDeviceBatch,
        loss: &mut dyn LossWorker,
        observer: Option<&mut ScoreObserver<'_>>,
        later: Option<&mut Option<PendingSums>>,
    ) -> Result<BatchStats, DeviceError> {
        on_this_thread();
        let spec = &*self.spec;
        let tables = lock(job.tables)?;
        let touched = offsets.upload(self.place)?;
        let parameters = match &mut self.parameters {
            Some(parameters) => parameters,
            empty => empty.insert(DeviceParameters::new(job.params, self.place)?),
        };
        let relation = job.batch.spec_index();
        let [lhs, rhs] = &tables;
        let step = DeviceStep {
            set: WorkingSet::load([lhs.as_deref(), rhs.as_deref()], &touched)?,
            read: parameters.read(spec, relation, job.params, &touched)?,
            weights: weights(job, spec.relations[relation].weight, self.place)?,
            formula: loss.formula().cloned(),
            loss,
            sums: BatchSums::new(self.place)?,
            spec,
            plan: &plan,
            job,
            place: self.place,
            touched,
            tables,
            parameters,
            kernels: self.kernels.as_ref(),
            later,
        };
        let memory = StepBuffers {
            pass: &mut (),
            slice: &mut (),
        };
        device::train(step, &plan, memory, &mut self.times, observer)
    }
}

impl DeviceWorker for TorchWorker {
    fn set_rates(&mut self, spec: Arc<ModelSpec>) {
        self.spec = spec;
    }

    fn train(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
    ) -> Result<BatchStats, StepError> {
        Ok(self.work(job, loss, None)?)
    }

    fn train_observed(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError> {
        Ok(self.work(job, loss, Some(observer))?)
    }

    fn planner(&self) -> Result<Box<dyn BatchPlanner>, WorkerError> {
        let planner = TorchPlanner::new(Arc::clone(&self.spec), self.execution, self.place)?;
        Ok(Box::new(planner))
    }

    fn train_planned(
        &mut self,
        job: &BatchJob<'_>,
        planned: DevicePlan,
        loss: &mut dyn LossWorker,
    ) -> Result<Option<BatchStats>, StepError> {
        let foreign = |_| StepError::Batch("the batch was planned for another device".to_owned());
        let planned = planned.downcast::<PlannedDeviceBatch>().map_err(foreign)?;
        self.times.start();
        let mut later = None;
        let trained = self.work_as_planned(job, *planned, loss, None, Some(&mut later));
        let trained =
            trained.map(|stats| later.map_or(PendingStats::Known(stats), PendingStats::Later));
        let before = self.last.take().map(PendingStats::stats).transpose();
        match (before, trained) {
            (Ok(before), Ok(trained)) => {
                self.last = Some(trained);
                Ok(before)
            }
            // `finish` returns the result of the batch before, which is complete.
            (Ok(before), Err(error)) => {
                self.last = before.map(PendingStats::Known);
                Err(error.into())
            }
            (Err(error), trained) => {
                // The device must be done with the batch before its tables are freed.
                let _also = trained.map(PendingStats::stats);
                Err(error.into())
            }
        }
    }

    fn finish(&mut self) -> Result<Option<BatchStats>, StepError> {
        Ok(self.last.take().map(PendingStats::stats).transpose()?)
    }

    fn download(&self, params: &Params) -> Result<(), StepError> {
        on_this_thread();
        match &self.parameters {
            Some(parameters) => parameters.download(params).map_err(failed),
            None => Ok(()),
        }
    }

    fn cluster_times(&self) -> &StageTimes {
        &self.times
    }
}

impl std::fmt::Debug for TorchWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TorchWorker {{ place: {} }}", self.place)
    }
}

/// Locks the rows of both tables; `None` for the right one if it is the same as the left one.
fn lock<'a>(tables: &BatchTables<'a>) -> Result<[Option<MutexGuard<'a, TableRows>>; 2], StepError> {
    let of = |side: Side| {
        let resident = tables.side(side).resident.as_deref();
        resident
            .and_then(TorchRows::of)
            .map(|resident| Some(resident.lock()))
            .ok_or_else(|| StepError::Batch(format!("the {side:?} table is not on the device")))
    };
    let rhs = match tables.shared() {
        true => None,
        false => of(Side::Rhs)?,
    };
    Ok([of(Side::Lhs)?, rhs])
}

/// Returns the factor of each edge's loss, `[edges]`, unless all are 1.
fn weights(
    job: &BatchJob<'_>,
    relation: f32,
    place: TorchDevice,
) -> Result<Option<Tensor>, DeviceError> {
    let weights = match job.batch.weight {
        Some(weights) => transfer::floats(weights, place)?,
        None if relation == 1.0 => return Ok(None),
        None => Tensor::f_ones([job.batch.len() as i64], place.floats())?,
    };
    Ok(Some(weights.f_mul_scalar(f64::from(relation))?))
}

#[cfg(test)]
mod tests;
