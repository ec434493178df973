//! Settings that the configuration leaves to the machine or derives from other keys.

use pbg_config::Config;
use pbg_core::batching;
use pbg_core::model::Device;
use pbg_core::schedule::RunExtent;
use pbg_dataset::EdgeSet;
use pbg_kernels::device::DEFAULT_SLICE_BYTES;
use pbg_kernels::step::Execution;

use crate::error::{RunError, SettingError};

/// Settings that are decided before any file is opened.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Device that trains batches.
    pub device: Device,
    /// Number of Hogwild workers: as configured, otherwise one per core.
    pub workers: usize,
    /// Execution settings of the workers.
    pub execution: Execution,
    /// Execution settings of training, on the workers or on a device.
    pub training_execution: Execution,
    /// Edges of an evaluation batch: `batch_size`, rounded up to whole chunks.
    pub eval_batch_size: usize,
}

impl RunSettings {
    /// Derives the settings from `config` and the number of cores.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let device = Device::parse(&config.execution.device).unwrap_or_default();
        let execution = execution(config);
        Self {
            device,
            workers: config.workers.map_or_else(cores, |n| n as usize).max(1),
            execution,
            training_execution: match device {
                Device::Cpu => execution,
                Device::Cuda(_) => on_device(config, execution),
            },
            eval_batch_size: eval_batch_size(config),
        }
    }

    /// Returns the number of training threads: one if a device trains.
    pub fn training_threads(&self) -> usize {
        match self.device {
            Device::Cpu => self.workers,
            Device::Cuda(_) => 1,
        }
    }
}

fn execution(config: &Config) -> Execution {
    let default = Execution::with_precision(config.execution.precision);
    Execution {
        slice_bytes: wanted_slice_bytes(config).unwrap_or(default.slice_bytes),
        update: config.execution.update,
        ..default
    }
}

/// Returns the execution settings for a device.
pub fn on_device(config: &Config, execution: Execution) -> Execution {
    Execution {
        slice_bytes: wanted_slice_bytes(config).unwrap_or(DEFAULT_SLICE_BYTES),
        ..execution
    }
}

fn wanted_slice_bytes(config: &Config) -> Option<usize> {
    let bytes = config.execution.slice_bytes?;
    Some(usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn eval_batch_size(config: &Config) -> usize {
    let chunk = match config.eval_num_batch_negs {
        0 => config.eval_num_uniform_negs.max(1),
        n => n,
    };
    config.batch_size.div_ceil(chunk) as usize * chunk as usize
}

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the extent of the training loops after checking that each edge chunk can be indexed.
pub fn extent(config: &Config, edge_sets: &[EdgeSet]) -> Result<RunExtent, RunError> {
    let largest = edge_sets.iter().map(EdgeSet::largest_bucket).max();
    let largest = largest.unwrap_or(0);
    let edge_chunks = config
        .num_edge_chunks
        .unwrap_or_else(|| batching::derive_edge_chunks(largest, config.max_edges_per_chunk));
    if largest.div_ceil(u64::from(edge_chunks.max(1))) > u64::from(u32::MAX) {
        return Err(SettingError::EdgeChunks {
            edge_chunks,
            largest,
        }
        .into());
    }
    Ok(RunExtent {
        epochs: config.num_epochs,
        edge_sets: edge_sets.len() as u32,
        edge_chunks,
    })
}
