//! Creation of a machine: its tables, threads and workers.

use std::sync::Arc;

use pbg_core::batch_graph::pipeline::{Pipeline, STORAGE};
use pbg_core::event::Event;
use pbg_core::schedule::RunExtent;
use pbg_core::strategy::Loss as _;
use pbg_dataset::EdgeSet;
use pbg_kernels::device::OpenDevice;
use pbg_kernels::step::StepWorker;
use pbg_model::error::RunError;
use pbg_model::resolved::ResolvedConfig;
use pbg_rows::params::Params;

use crate::buffer::{BufferSize, TableStore};
use crate::disk_limit::DiskLimit;
use crate::edge_prefetch::EdgeSource;
use crate::executor::{self, executors};
use crate::learning_rates::LearningRates;
use crate::negatives::NegativeTables;
use crate::run_length::run_length;
use crate::running_pipeline::RunningPipeline;
use crate::scheduled_factors::ScheduledFactors;
use crate::selection::ChunkSelectors;
use crate::strategies::{NegativeStrategy, Strategies};
use crate::workers;

use super::BucketTrainer;
/// Parts of a machine.
pub struct MachineParts<'a, S> {
    /// Strategies of the run.
    pub strategies: Strategies,
    /// Edge sets that an epoch trains, in order.
    pub edge_sets: Arc<Vec<EdgeSet>>,
    /// Extent of the loops over epochs, edge sets and edge chunks.
    pub extent: RunExtent,
    /// Threads and pipes, which connect `tables` and edges with training.
    pub pipeline: &'a Pipeline,
    /// Storage of the tables.
    pub tables: S,
    /// Parameters of operators, and global embeddings.
    pub params: Params,
    /// Device that trains, if not the processor cores.
    pub place: Option<Arc<dyn OpenDevice>>,
    /// Factor of the learning rates, as set by validation.
    pub lr_factor: f32,
    /// Factors of the learning rates, as set by the schedule; `None` if it is the same in all passes.
    pub scheduled: Option<ScheduledFactors>,
}

impl<'a, S: TableStore> BucketTrainer<'a, S> {
    /// Creates the machine, starts its threads and loads the fixed tables. `sink` receives its events.
    ///
    /// # Errors
    /// When a worker or a thread cannot be created, or a fixed table cannot be loaded.
    pub fn new(
        resolved: &'a ResolvedConfig,
        parts: MachineParts<'_, S>,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, RunError> {
        let MachineParts {
            mut strategies,
            edge_sets,
            extent,
            pipeline,
            tables,
            params,
            place,
            lr_factor,
            scheduled,
        } = parts;
        let line = line(resolved, pipeline, tables, &edge_sets, extent)?;
        let spec = &resolved.blueprint().spec;
        let workers = resolved.settings().workers;
        let executors = executors(resolved, spec, place.as_deref(), line.planning.as_ref())?;
        let shares = workers::shares(spec, executors.len());
        strategies.begin_run(run_length(resolved, &edge_sets, extent, shares));
        Ok(Self {
            resolved,
            executors,
            rates: LearningRates::new(scheduled, lr_factor),
            evaluators: evaluators(resolved)?,
            negatives: NegativeTables::new(strategies.required_data()),
            selectors: selectors(resolved, &strategies),
            losses: (0..workers).map(|_| strategies.loss.worker()).collect(),
            strategies,
            edge_sets,
            extent,
            pipeline: line,
            params: Arc::new(params),
            gate: None,
            sink,
        })
    }
}

/// Creates the selectors of negatives, if a plugin selects them.
fn selectors(resolved: &ResolvedConfig, strategies: &Strategies) -> Option<ChunkSelectors> {
    match &strategies.negatives {
        Some(NegativeStrategy::Selection(selector)) => Some(ChunkSelectors::new(
            Arc::clone(selector),
            &resolved.blueprint().spec,
            resolved.settings().execution,
            strategies.fallbacks.negatives.is_some(),
        )),
        Some(NegativeStrategy::Distribution(_)) | None => None,
    }
}

/// Creates the workers that rank held-out edges, if any edges are held out.
fn evaluators(resolved: &ResolvedConfig) -> Result<Vec<StepWorker>, RunError> {
    match resolved.config().eval_fraction > 0.0 {
        true => Ok(executor::trainers(resolved, &resolved.eval_spec())?),
        false => Ok(Vec::new()),
    }
}

fn line<S: TableStore>(
    resolved: &ResolvedConfig,
    pipeline: &Pipeline,
    tables: S,
    edge_sets: &Arc<Vec<EdgeSet>>,
    extent: RunExtent,
) -> Result<RunningPipeline<S>, RunError> {
    let config = resolved.config();
    let layout = resolved.blueprint().layout.clone();
    let size = BufferSize {
        slots: config.buffer_partitions as usize,
        copies: layout.copies(pipeline.pipe(STORAGE).is_some()),
        limit: DiskLimit::new(&config.execution),
    };
    let source = EdgeSource {
        edge_sets: Arc::clone(edge_sets),
        chunks: extent.edge_chunks,
        seed: config.seed,
        eval_fraction: config.eval_fraction,
    };
    RunningPipeline::new(pipeline, layout, size, tables, source)
}
