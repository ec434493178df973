//! Executors of batches: the kernels of a processor core, or a device.

use std::sync::Arc;

use pbg_core::model::{Device, EmbeddingFormat, Optimizer, Precision};
use pbg_core::strategy::LossWorker;
use pbg_kernels::device::{DevicePlan, DeviceWorker, OpenDevice, OpenError};
use pbg_kernels::libtorch;
use pbg_kernels::step::{BatchJob, BatchStats, StageTimes, StepError, StepWorker, WorkerError};
use pbg_model::error::{RunError, SettingError};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::on_device;
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;

use crate::planning::BatchPrefetcher;
use crate::stage_threads::StageClock;
/// Trains batches on one thread.
#[derive(Debug)]
pub enum Executor {
    /// The core that runs the thread.
    Core(Box<StepWorker>),
    /// A device that the thread controls.
    Device(Box<dyn DeviceWorker>, Option<BatchPrefetcher>),
}

impl Executor {
    /// Trains one batch.
    ///
    /// # Errors
    /// As [`StepWorker::train`].
    pub fn train(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
    ) -> Result<BatchStats, StepError> {
        match self {
            Self::Core(worker) => worker.train(job, loss),
            Self::Device(worker, _) => worker.train(job, loss),
        }
    }

    /// Replaces the specification by one that differs from it in the learning rates only.
    pub(crate) fn set_rates(&mut self, spec: Arc<ModelSpec>) {
        match self {
            Self::Core(worker) => worker.set_rates(spec),
            Self::Device(worker, _) => worker.set_rates(spec),
        }
    }

    /// Trains one batch on all of `executors`. There is more than one only if the model [shares
    /// batches](ModelSpec::shares_batches).
    ///
    /// # Errors
    /// As [`StepWorker::train`].
    pub(crate) fn train_together(
        executors: &mut [Self],
        losses: &mut [Box<dyn LossWorker>],
        job: &BatchJob<'_>,
    ) -> Result<BatchStats, StepError> {
        match executors {
            [one] => one.train(job, losses[0].as_mut()),
            many => {
                let cores = many.iter_mut().filter_map(|executor| match executor {
                    Self::Core(worker) => Some(worker.as_mut()),
                    Self::Device(..) => None,
                });
                let mut workers: Vec<&mut StepWorker> = cores.collect();
                StepWorker::train_together(&mut workers, losses, job)
            }
        }
    }

    /// Starts to train a batch that [`BatchPrefetcher`] has planned, and returns the results of the batch before it.
    ///
    /// # Errors
    /// As [`DeviceWorker::train_planned`].
    pub(crate) fn train_planned(
        executors: &mut [Self],
        losses: &mut [Box<dyn LossWorker>],
        job: &BatchJob<'_>,
        planned: DevicePlan,
    ) -> Result<Option<BatchStats>, StepError> {
        match executors {
            [Self::Device(worker, _)] => worker.train_planned(job, planned, losses[0].as_mut()),
            _ => Self::train_together(executors, losses, job).map(Some),
        }
    }

    /// Returns the results of the last planned batch.
    ///
    /// # Errors
    /// As [`DeviceWorker::finish`].
    pub(crate) fn finish(executors: &mut [Self]) -> Result<Option<BatchStats>, StepError> {
        match executors {
            [Self::Device(worker, _)] => worker.finish(),
            _ => Ok(None),
        }
    }

    /// Takes out the planner, which plans batches ahead. [`Executor::put_back_planner`] puts it back.
    pub(crate) fn planning(executors: &mut [Self]) -> Option<BatchPrefetcher> {
        match executors {
            [Self::Device(_, planning)] => planning.take(),
            _ => None,
        }
    }

    /// Puts the planner back.
    pub(crate) fn put_back_planner(executors: &mut [Self], planner: BatchPrefetcher) {
        if let [Self::Device(_, planning)] = executors {
            *planning = Some(planner);
        }
    }

    /// Updates `params` in main memory with the trained values.
    ///
    /// # Errors
    /// When the device fails.
    pub(crate) fn settle(&self, params: &Params) -> Result<(), StepError> {
        match self {
            Self::Core(_) => Ok(()),
            Self::Device(worker, _) => worker.download(params),
        }
    }

    /// Returns the time spent in each stage of training so far.
    pub(crate) fn cluster_times(&self) -> &StageTimes {
        match self {
            Self::Core(worker) => worker.cluster_times(),
            Self::Device(worker, _) => worker.cluster_times(),
        }
    }
}

/// Creates the executors of the training threads: one for a device, otherwise one per worker. `planning` is the clock
/// of the group that plans batches, if there is one.
pub(crate) fn executors(
    resolved: &ResolvedConfig,
    spec: &ModelSpec,
    place: Option<&dyn OpenDevice>,
    planning: Option<&Arc<StageClock>>,
) -> Result<Vec<Executor>, WorkerError> {
    let Some(place) = place else {
        let cores = trainers(resolved, spec)?;
        let on_core = |worker| Executor::Core(Box::new(worker));
        return Ok(cores.into_iter().map(on_core).collect());
    };
    let execution = on_device(resolved.config(), resolved.settings().execution);
    let worker = place.worker(Arc::new(spec.clone()), execution)?;
    let ahead = resolved.config().execution.batches_ahead();
    let planning = match planning {
        Some(clock) => {
            let planner = worker.planner()?;
            Some(BatchPrefetcher::new(planner, ahead, Arc::clone(clock)))
        }
        None => None,
    };
    Ok(vec![Executor::Device(worker, planning)])
}

/// Creates one worker per core that trains or evaluates.
pub(crate) fn trainers(
    resolved: &ResolvedConfig,
    spec: &ModelSpec,
) -> Result<Vec<StepWorker>, WorkerError> {
    let spec = Arc::new(spec.clone());
    let settings = resolved.settings();
    let mut execution = settings.execution;
    if settings.device != Device::Cpu {
        // The cores may not support the precision that is configured for the device.
        execution.precision = Precision::Fp32;
    }
    let worker = |_| Ok(StepWorker::new(Arc::clone(&spec))?.with_execution(execution));
    (0..settings.workers).map(worker).collect()
}

/// Opens the configured device. Returns `None` for the processor cores.
///
/// # Errors
/// When the device cannot be opened, or cannot train what is configured.
pub fn open_device(resolved: &ResolvedConfig) -> Result<Option<Arc<dyn OpenDevice>>, RunError> {
    match resolved.settings().device {
        Device::Cpu => Ok(None),
        Device::Cuda(index) => libtorch::installed()
            .map_err(OpenError::LibtorchNotLoaded)
            .and_then(|libtorch| libtorch.open(index))
            .map(|place| Some(Arc::from(place)))
            .map_err(|source| RunError::Device {
                device: resolved.config().execution.device.clone(),
                source,
            }),
    }
}

/// Checks that the configured device can be used, and that it can train the model.
///
/// # Errors
/// When the device cannot be opened, or as for [`check_supported`].
pub fn check_device(resolved: &ResolvedConfig) -> Result<(), RunError> {
    let place = open_device(resolved)?;
    Ok(check_supported(resolved, place.is_some())?)
}

/// Checks that the processor cores can train the model as configured, unless a device is to train it. Unlike
/// [`check_device`], it opens no device.
///
/// # Errors
/// When the precision does not support the model or the machine.
pub fn check_cores(resolved: &ResolvedConfig) -> Result<(), RunError> {
    match resolved.settings().device {
        Device::Cpu => Ok(check_supported(resolved, false)?),
        Device::Cuda(_) => Ok(()),
    }
}

/// Checks that the model can be trained as configured.
///
/// # Errors
/// When the device or the precision does not support the model.
pub fn check_supported(resolved: &ResolvedConfig, on_device: bool) -> Result<(), SettingError> {
    let (spec, execution) = (&resolved.blueprint().spec, resolved.settings().execution);
    if on_device {
        let reason = match libtorch::installed() {
            Ok(libtorch) => libtorch.refusal(spec, execution.precision),
            Err(error) => Some(OpenError::LibtorchNotLoaded(error).to_string()),
        };
        if resolved.config().storage == EmbeddingFormat::Bf16 {
            let reason = "embeddings are rounded on the CPU only";
            return refused("storage", Some(reason.to_owned()));
        }
        if resolved.config().optimizer != Optimizer::RowAdagrad {
            let reason = "a GPU supports only row_adagrad";
            return refused("optimizer", Some(reason.to_owned()));
        }
        if resolved
            .config()
            .entities
            .values()
            .any(|entity| entity.frozen)
        {
            let reason = "a GPU trains the embeddings of all types; train on the processor cores, or do not freeze any";
            return refused("entities.*.frozen", Some(reason.to_owned()));
        }
        return refused("execution.device", reason);
    }
    refused(
        "execution.precision",
        execution.refusal(spec).map(str::to_owned),
    )
}

fn refused(key: &'static str, reason: Option<String>) -> Result<(), SettingError> {
    reason.map_or(Ok(()), |reason| Err(SettingError::Executor { key, reason }))
}
