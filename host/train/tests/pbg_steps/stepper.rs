//! The step on the cores, and the step of a device.

use std::sync::Arc;

use pbg_kernels::device::{DeviceTrainer, Place};
use pbg_kernels::spec::ModelSpec;
use pbg_kernels::step::{BatchStats, Execution, Job, ScoreObserver, StepError, Trainer};
use pbg_kernels::table::Table;

/// Where a batch is trained.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Where {
    Cores,
    Device(Place),
}

/// What trains it.
pub(crate) enum Stepper {
    Cores(Box<Trainer>),
    Device(Box<DeviceTrainer>, Place),
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
                let trainer = Trainer::new(spec).expect("a trainer");
                Self::Cores(Box::new(trainer.with_execution(execution)))
            }
            Where::Device(place) => {
                let trainer = DeviceTrainer::new(spec, execution, place);
                Self::Device(Box::new(trainer.expect("a trainer")), place)
            }
        }
    }

    pub(crate) fn begin(&self, table: &mut Table) {
        if let Self::Device(_, place) = self {
            table.upload(*place).expect("room on the device");
        }
    }

    pub(crate) fn train(
        &mut self,
        job: &Job<'_>,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError> {
        match self {
            Self::Cores(trainer) => trainer.train_observed(job, observer),
            Self::Device(trainer, _) => {
                let stats = trainer.train_observed(job, observer)?;
                job.tables.lhs.download()?;
                trainer.download(job.params)?;
                Ok(stats)
            }
        }
    }
}
