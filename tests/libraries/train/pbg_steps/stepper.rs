//! The step on the cores, and the step of a device.

use std::sync::Arc;

use pbg_core::strategy::LossWorker;
use pbg_kernels::device::{DeviceWorker, OpenDevice as _};
use pbg_kernels::step::{BatchJob, BatchStats, Execution, ScoreObserver, StepError, StepWorker};
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use pbg_torch::TorchDevice;

/// Place where a batch is trained.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Where {
    Cores,
    Device(TorchDevice),
}

/// Step that trains a batch.
pub(crate) enum Stepper {
    Cores(Box<StepWorker>),
    Device(Box<dyn DeviceWorker>, TorchDevice),
}

impl Stepper {
    pub(crate) fn new(spec: &Arc<ModelSpec>, slice_bytes: usize, at: Where) -> Self {
        let execution = Execution {
            slice_bytes,
            ..Execution::default()
        };
        let spec = Arc::clone(spec);
        match at {
            Where::Cores => {
                let worker = StepWorker::new(spec).expect("a worker");
                Self::Cores(Box::new(worker.with_execution(execution)))
            }
            Where::Device(place) => {
                let worker = place.worker(spec, execution);
                Self::Device(worker.expect("a worker"), place)
            }
        }
    }

    pub(crate) fn begin(&self, table: &mut Table) {
        if let Self::Device(_, place) = self {
            place.upload(table).expect("room on the device");
        }
    }

    pub(crate) fn train(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError> {
        match self {
            Self::Cores(worker) => worker.train_observed(job, loss, observer),
            Self::Device(worker, _) => {
                let stats = worker.train_observed(job, loss, observer)?;
                job.tables.lhs.download()?;
                worker.download(job.params)?;
                Ok(stats)
            }
        }
    }
}
