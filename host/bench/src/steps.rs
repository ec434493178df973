//! Training steps of a single thread on generated edges.

use std::sync::Arc;
use std::time::Duration;

use pbg_core::strategy::{Loss, LossWorker};
use pbg_gemm::pages;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{
    Batch, BatchJob, BatchRelations, BatchTables, Execution, Stage, StageTimes, StepError,
    StepWorker,
};
use pbg_model::RunError;
use pbg_model::error::SettingError;
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::clocks::{page_faults, thread_cpu_seconds};
/// Smallest number of batches that are measured.
const LEAST: usize = 5;

/// Measured speed of training steps.
#[derive(Clone, Debug)]
pub(crate) struct StepRate {
    /// Edges per CPU-second.
    pub(crate) edges: f64,
    /// CPU time of each stage, in microseconds per edge.
    pub(crate) stages: Vec<(Stage, f64)>,
    /// Size of the worker's buffers in bytes.
    pub(crate) bytes: usize,
    /// Minor page faults per batch, or `None` if the system does not report them.
    pub(crate) page_faults: Option<f64>,
}

/// Sizes of training steps.
#[derive(Clone, Copy, Debug)]
pub struct StepSizes {
    /// Entities of the partition.
    pub entities: usize,
    /// Edges of a batch.
    pub edges: usize,
}

/// Training steps on batches of uniformly drawn edges between the entities of one partition.
pub struct StepBench {
    spec: Arc<ModelSpec>,
    sizes: StepSizes,
    table: Table,
    params: Params,
    loss: Box<dyn LossWorker>,
    worker: StepWorker,
    rng: Xoshiro256PlusPlus,
    columns: [Vec<u32>; 3],
    draws: NegativeDraws,
}

impl StepBench {
    /// Prepares steps of a model with one entity type.
    pub(crate) fn new(
        spec: &ModelSpec,
        sizes: StepSizes,
        loss: &dyn Loss,
        execution: Execution,
    ) -> Result<Self, RunError> {
        if let Some(reason) = execution.refusal(spec) {
            return Err(SettingError::Executor {
                key: "execution.precision",
                reason: reason.to_owned(),
            }
            .into());
        }
        let (spec, dimension) = (Arc::new(spec.clone()), spec.entities[0].dimension);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let numbers = sizes.entities * dimension;
        let mut values = pages::with_capacity(numbers);
        values.extend((0..numbers).map(|_| rng.random::<f32>() * 0.02 - 0.01));
        let steps = Self {
            sizes,
            table: Table::new(values, dimension),
            params: Params::new(&spec, 0),
            loss: loss.worker(),
            worker: StepWorker::new(Arc::clone(&spec))?.with_execution(execution),
            rng,
            columns: Default::default(),
            draws: NegativeDraws::default(),
            spec,
        };
        Ok(steps)
    }

    /// Trains `batches` batches.
    ///
    /// # Errors
    /// When libtorch or the loss fails.
    pub fn train(&mut self, batches: usize) -> Result<(), RunError> {
        (0..batches).try_for_each(|_| self.step())
    }

    /// Trains at least five batches, for at least `duration`. Returns the number of batches and their CPU seconds.
    ///
    /// # Errors
    /// When libtorch or the loss fails.
    pub fn run(&mut self, duration: Duration) -> Result<(usize, f64), RunError> {
        let (start, cpu) = (pbg_clock::now(), thread_cpu_seconds());
        let mut batches = 0;
        while batches < LEAST || start.elapsed() < duration {
            self.step()?;
            batches += 1;
        }
        Ok((batches, thread_cpu_seconds() - cpu))
    }

    /// Measures the speed for about `duration`.
    pub(crate) fn rate(mut self, duration: Duration) -> Result<StepRate, RunError> {
        let before = *self.worker.cluster_times();
        let had = page_faults();
        let (batches, seconds) = self.run(duration)?;
        let faulted = page_faults().zip(had).map(|(after, had)| after - had);
        let edges = (batches * self.sizes.edges) as f64;
        Ok(StepRate {
            edges: edges / seconds,
            stages: shares(self.worker.cluster_times(), &before, seconds / edges),
            bytes: self.worker.bytes(),
            page_faults: faulted.map(|count| count as f64 / batches as f64),
        })
    }

    fn step(&mut self) -> Result<(), RunError> {
        let StepSizes { entities, edges } = self.sizes;
        let limits = [entities, entities, self.spec.relation_count()];
        for (column, limit) in self.columns.iter_mut().zip(limits) {
            column.clear();
            column.extend((0..edges).map(|_| self.rng.random_range(0..limit as u32)));
        }
        let [lhs, rhs, relations] = &self.columns;
        let dynamic = self.spec.is_dynamic();
        let first = if dynamic { 0 } else { relations[0] };
        let template = self.spec.relation(first);
        let candidates = [entities; 2];
        self.draws
            .draw(&self.spec, template, edges, candidates, &mut self.rng);
        let batch = Batch {
            lhs,
            rhs,
            relation: match dynamic {
                true => BatchRelations::PerEdge(relations),
                false => BatchRelations::One(first),
            },
            weight: None,
        };
        let tables = BatchTables {
            lhs: &self.table,
            rhs: &self.table,
        };
        let job = BatchJob {
            batch: &batch,
            tables: &tables,
            params: &self.params,
            draws: &self.draws,
        };
        let trained = self.worker.train(&job, self.loss.as_mut());
        match trained {
            Ok(_) => Ok(()),
            Err(StepError::Strategy(error)) => Err(RunError::Strategy(error)),
            Err(error) => Err(RunError::Step(error)),
        }
    }
}

/// Divides `per_edge` seconds among the stages in proportion to their measured times. Returns microseconds per edge.
fn shares(after: &StageTimes, before: &StageTimes, per_edge: f64) -> Vec<(Stage, f64)> {
    let of = |stage| (after.of(stage) - before.of(stage)).as_secs_f64();
    let total: f64 = Stage::ALL.into_iter().map(of).sum();
    let share = |stage| 1e6 * per_edge * of(stage) / total.max(f64::MIN_POSITIVE);
    Stage::ALL.map(|stage| (stage, share(stage))).to_vec()
}
