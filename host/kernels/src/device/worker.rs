//! A worker that trains on a device.

use std::sync::{Arc, MutexGuard};

use pbg_core::graph::Side;
use pbg_core::model::Precision;
use tch::Tensor;

use super::parameters::Parameters;
use super::place::Place;
use super::step::DeviceStep;
use super::sums::Sums;
use super::tables::Rows;
use super::touched::Touch;
use super::transfer;
use super::working_set::WorkingSet;
use crate::batch::Tables;
use crate::error::{StepError, WorkerError};
use crate::params::Params;
use crate::spec::ModelSpec;
use crate::step::executor::{self, Memory};
use crate::step::job::{Job, Programs};
use crate::step::{BatchStats, ClusterTimes, Execution, ScoreObserver};

/// Bytes of buffers that a slice aims at unless told otherwise: enough to keep a GPU busy, little beside
/// its memory.
pub const DEFAULT_SLICE_BYTES: usize = 256 << 20;

/// Trains batches on a device, as [`StepWorker`](crate::step::StepWorker) does on a core: the same arguments, the
/// same results up to rounding. Tables must be resident there ([`Table::upload`](crate::table::Table::upload)).
pub struct DeviceWorker {
    spec: Arc<ModelSpec>,
    execution: Execution,
    place: Place,
    programs: Programs,
    touch: Touch,
    /// Resident from the first batch on.
    parameters: Option<Parameters>,
    times: ClusterTimes,
}

impl DeviceWorker {
    /// A worker of `spec` on `place`.
    ///
    /// # Errors
    /// When the specification breaks a rule.
    pub fn new(
        spec: Arc<ModelSpec>,
        execution: Execution,
        place: Place,
    ) -> Result<Self, WorkerError> {
        spec.validate()?;
        Ok(Self {
            programs: programs(&spec, &execution)?,
            spec,
            execution,
            place,
            touch: Touch::default(),
            parameters: None,
            times: ClusterTimes::new(),
        })
    }

    /// Why `spec` cannot be trained on a device, if so.
    #[must_use]
    pub fn refusal(spec: &ModelSpec, precision: Precision) -> Option<String> {
        let execution = Execution::with_precision(precision);
        let refused = programs(spec, &execution).err();
        refused.map(|error| error.to_string())
    }

    /// Where training spent its time so far, as this thread saw it: it hands work to the device and only
    /// waits for it before gradients are applied.
    #[must_use]
    pub fn cluster_times(&self) -> &ClusterTimes {
        &self.times
    }

    /// Brings `params` up to date with the device.
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn download(&self, params: &Params) -> Result<(), StepError> {
        match &self.parameters {
            Some(parameters) => Ok(parameters.download(params)?),
            None => Ok(()),
        }
    }

    /// Trains one batch, as [`StepWorker::train`](crate::step::StepWorker::train).
    ///
    /// # Errors
    /// As there, or when a table is not resident.
    pub fn train(&mut self, job: &Job<'_>) -> Result<BatchStats, StepError> {
        self.work(job, None)
    }

    /// As [`DeviceWorker::train`]; `observer` sees the scores before they become gradients.
    ///
    /// # Errors
    /// As [`DeviceWorker::train`].
    pub fn train_observed(
        &mut self,
        job: &Job<'_>,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError> {
        self.work(job, Some(observer))
    }

    fn work(
        &mut self,
        job: &Job<'_>,
        observer: Option<&mut ScoreObserver<'_>>,
    ) -> Result<BatchStats, StepError> {
        if job.batch.is_empty() {
            return Ok(BatchStats::default());
        }
        crate::use_one_torch_thread();
        self.times.start();
        let (spec, execution) = (&*self.spec, &self.execution);
        let (program, plan) = self.programs.plan::<DeviceStep<'_>>(spec, execution, job)?;
        let tables = lock(job.tables)?;
        let touched = self.touch.batch(job, &plan, self.place)?;
        let parameters = match &mut self.parameters {
            Some(parameters) => parameters,
            empty => empty.insert(Parameters::new(job.params, self.place)?),
        };
        let relation = job.batch.spec_index();
        let [lhs, rhs] = &tables;
        let step = DeviceStep {
            set: WorkingSet::load([lhs.as_deref(), rhs.as_deref()], &touched)?,
            read: parameters.read(spec, relation, job.params, &touched)?,
            weights: weights(job, spec.relations[relation].weight, self.place)?,
            formula: job.loss.formula(),
            sums: Sums::new(self.place)?,
            spec,
            plan: &plan,
            job,
            place: self.place,
            touched,
            tables,
            parameters,
        };
        let memory = Memory {
            pass: &mut (),
            slice: &mut (),
        };
        executor::train(step, (&program, &plan), memory, &mut self.times, observer)
    }
}

/// The compiled steps of all relations.
fn programs(spec: &ModelSpec, execution: &Execution) -> Result<Programs, WorkerError> {
    let mut programs = Programs::default();
    for relation in 0..spec.relations.len() {
        programs.of::<DeviceStep<'_>>(spec, execution, relation)?;
    }
    Ok(programs)
}

impl std::fmt::Debug for DeviceWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceWorker {{ place: {} }}", self.place)
    }
}

/// The rows of both tables; none of the right one if it is the left one.
fn lock<'a>(tables: &Tables<'a>) -> Result<[Option<MutexGuard<'a, Rows>>; 2], StepError> {
    let of = |side: Side| {
        let resident = tables.side(side).resident.as_ref();
        resident
            .map(|resident| Some(resident.lock()))
            .ok_or_else(|| StepError::Batch(format!("the {side:?} table is not on the device")))
    };
    let rhs = match tables.shared() {
        true => None,
        false => of(Side::Rhs)?,
    };
    Ok([of(Side::Lhs)?, rhs])
}

/// The factor of each edge's loss, if any is not 1.
fn weights(job: &Job<'_>, relation: f32, place: Place) -> Result<Option<Tensor>, StepError> {
    let weights = match job.batch.weight {
        Some(weights) => transfer::floats(weights, place)?,
        None if relation == 1.0 => return Ok(None),
        None => Tensor::f_ones([job.batch.len() as i64], place.floats())?,
    };
    Ok(Some(weights.f_mul_scalar(f64::from(relation))?))
}
