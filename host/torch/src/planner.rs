//! Planning of batches on the host, while a device may train the batch before: the planned step, the division into
//! slices, and the rows that a batch touches.

use std::sync::Arc;

use pbg_core::model::Precision;
use pbg_kernels::device::{BatchPlan, BatchPlanner, DevicePlan, StepPlans};
use pbg_kernels::step::{BatchJob, Execution, StepError, WorkerError};
use pbg_rows::spec::ModelSpec;

use super::device::TorchDevice;
use super::error::failed;
use super::step::DeviceStep;
use super::touched::{RowNumbering, TouchedOffsets};

/// Planner for batches of one model.
#[derive(Debug)]
pub(super) struct TorchPlanner {
    spec: Arc<ModelSpec>,
    execution: Execution,
    plans: StepPlans,
    touch: RowNumbering,
    /// Device that trains the batches.
    place: TorchDevice,
}

/// A planned batch.
#[derive(Debug)]
pub(super) struct PlannedDeviceBatch {
    pub(super) plan: BatchPlan,
    pub(super) offsets: TouchedOffsets,
}

impl TorchPlanner {
    /// Creates a planner for batches of `spec`.
    ///
    /// # Errors
    /// When the step cannot be executed on a device.
    pub(super) fn new(
        spec: Arc<ModelSpec>,
        execution: Execution,
        place: TorchDevice,
    ) -> Result<Self, WorkerError> {
        Ok(Self {
            plans: plans(&spec, &execution)?,
            spec,
            execution,
            touch: RowNumbering::default(),
            place,
        })
    }

    /// Checks a batch and plans it.
    ///
    /// # Errors
    /// When it does not fit the model or the tables.
    pub(super) fn planned(&mut self, job: &BatchJob<'_>) -> Result<PlannedDeviceBatch, StepError> {
        let (spec, execution) = (&*self.spec, &self.execution);
        let plan = self.plans.plan::<DeviceStep<'_>>(spec, execution, job)?;
        Ok(PlannedDeviceBatch {
            offsets: self.touch.batch(job, &plan, self.place).map_err(failed)?,
            plan,
        })
    }
}

impl BatchPlanner for TorchPlanner {
    fn plan(&mut self, job: &BatchJob<'_>) -> Result<DevicePlan, StepError> {
        Ok(Box::new(self.planned(job)?))
    }
}

/// Returns the reason why `spec` cannot be trained on a device, if there is one.
pub(super) fn refusal(spec: &ModelSpec, precision: Precision) -> Option<String> {
    let execution = Execution::with_precision(precision);
    let refused = plans(spec, &execution).err();
    refused.map(|error| error.to_string())
}

/// Plans the steps of all relations.
fn plans(spec: &ModelSpec, execution: &Execution) -> Result<StepPlans, WorkerError> {
    let mut plans = StepPlans::default();
    for relation in 0..spec.relations.len() {
        plans.of_relation::<DeviceStep<'_>>(spec, execution, relation)?;
    }
    Ok(plans)
}
