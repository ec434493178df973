//! How fast a training step is, beside what libtorch's own matrix product allows on the same shapes.
//!
//! Rates are per second of CPU time, so that other work on the machine matters little; a ceiling is
//! only worth comparing with what was measured in the same minute.

mod requests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pbg_core::graph::Side;
use pbg_core::model::Precision;
use pbg_core::strategy::Loss;
use pbg_gemm::pages;
use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rustix::time::{ClockId, clock_gettime};
use tch::{Device, Kind, TchError, Tensor};

use crate::negatives::Draws;
use crate::params::Params;
use crate::spec::ModelSpec;
use crate::step::{
    Batch, Cluster, ClusterTimes, Execution, Job, Relations, StepError, StepWorker, Tables,
    WorkerError,
};
use crate::table::Table;

use requests::Counter;
pub use requests::Requests;

/// Shape of a batched matrix product `[batch, rows, inner] x [batch, inner, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductShape {
    /// Matrices.
    pub batch: i64,
    /// Rows of the left factor.
    pub rows: i64,
    /// Columns of the left factor, rows of the right one.
    pub inner: i64,
    /// Columns of the right factor.
    pub columns: i64,
}

impl ProductShape {
    /// Floating-point operations of one product.
    #[must_use]
    pub fn operations(&self) -> f64 {
        2.0 * (self.batch * self.rows * self.inner) as f64 * self.columns as f64
    }
}

/// CPU seconds of this thread.
#[must_use]
pub fn thread_cpu_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

/// CPU seconds of this process, all threads together.
#[must_use]
pub fn process_cpu_seconds() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

/// Most bytes of main memory that this process ever had, where the system says.
#[must_use]
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes << 10)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// Floating-point operations per CPU-second of libtorch's `bmm` on this thread, repeated for at least
/// `duration`, on average.
///
/// # Errors
/// When libtorch fails.
pub fn bmm_rate(
    shape: ProductShape,
    precision: Precision,
    duration: Duration,
) -> Result<f64, TchError> {
    let kind = match precision {
        Precision::Fp32 => Kind::Float,
        Precision::Bf16 => Kind::BFloat16,
    };
    let random = |size: [i64; 3]| {
        let values = Tensor::f_randn(size, (Kind::Float, Device::Cpu))?;
        values.f_to_kind(kind)
    };
    let a = random([shape.batch, shape.rows, shape.inner])?;
    let b = random([shape.batch, shape.inner, shape.columns])?;
    let size = [shape.batch, shape.rows, shape.columns];
    let out = Tensor::f_zeros(size, (kind, Device::Cpu))?;
    // The first product makes libtorch prepare itself.
    let _same = a.f_bmm_out(&out, &b)?;
    let start = Instant::now();
    let begin = thread_cpu_seconds();
    let mut repetitions = 0;
    while start.elapsed() < duration || repetitions < 3 {
        let _same = a.f_bmm_out(&out, &b)?;
        repetitions += 1;
    }
    let seconds = thread_cpu_seconds() - begin;
    Ok(shape.operations() * f64::from(repetitions) / seconds)
}

/// Edges per CPU-second if a step were nothing but its matrix products: for each side that negatives
/// replace, the scores and both their gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// Edges per CPU-second.
    pub edges: f64,
    /// Each product that a chunk needs, with its operations per second.
    pub products: Vec<(ProductShape, f64)>,
}

/// The ceiling of steps of `batch` edges of relation `relation` (its specification) between partitions of
/// `entities` entities.
///
/// # Errors
/// When libtorch fails.
pub fn ceiling(
    spec: &ModelSpec,
    relation: usize,
    batch: usize,
    entities: usize,
    precision: Precision,
) -> Result<Ceiling, TchError> {
    let rules = &spec.relations[relation];
    let chunk = spec.chunk_size(rules, batch).min(batch);
    let dimension = spec.entities[rules.rhs].dimension as i64;
    let mut products = Vec::new();
    let mut seconds = 0.0;
    for side in Side::BOTH.into_iter().filter(|&side| !spec.disabled(side)) {
        let own = if spec.num_batch_negs > 0 { chunk } else { 0 };
        let candidates = match rules.all_negs {
            true => entities,
            false => own + spec.uniform_negatives(rules, side),
        } as i64;
        let rows = chunk as i64;
        for (rows, inner, columns) in [
            (rows, dimension, candidates),
            (rows, candidates, dimension),
            (candidates, rows, dimension),
        ] {
            let shape = ProductShape {
                batch: 1,
                rows,
                inner,
                columns,
            };
            let known = products.iter().find(|(known, _)| *known == shape);
            let rate = match known {
                Some(&(_, rate)) => rate,
                None => bmm_rate(shape, precision, Duration::from_millis(300))?,
            };
            products.push((shape, rate));
            seconds += shape.operations() / rate;
        }
    }
    products.dedup();
    Ok(Ceiling {
        edges: chunk as f64 / seconds,
        products,
    })
}

/// Why a step could not be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// The worker cannot be made.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A step failed.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The machine or the model does not allow it.
    #[error("{0}")]
    Refused(&'static str),
}

/// How fast steps were.
#[derive(Clone, Debug)]
pub struct StepRate {
    /// Edges per CPU-second.
    pub edges: f64,
    /// CPU microseconds per edge of each stage.
    pub stages: Vec<(Cluster, f64)>,
    /// Bytes of the worker's buffers.
    pub bytes: usize,
    /// What a batch asks for once the buffers have grown.
    pub requests: Requests,
}

/// Edges and entities to measure steps with, drawn uniformly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Entities of the only partition.
    pub entities: usize,
    /// Edges per batch.
    pub batch: usize,
}

/// Measures steps of a model with one entity type on this thread, for about `duration`.
///
/// # Errors
/// When the model cannot be trained so.
pub fn step_rate(
    spec: ModelSpec,
    synthetic: Synthetic,
    loss: &dyn Loss,
    execution: Execution,
    duration: Duration,
) -> Result<StepRate, MeasureError> {
    if let Some(reason) = execution.refusal(&spec) {
        return Err(MeasureError::Refused(reason));
    }
    let Synthetic { entities, batch } = synthetic;
    let dimension = spec.entities[0].dimension;
    let spec = Arc::new(spec);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut values = pages::with_capacity(entities * dimension);
    values.extend((0..entities * dimension).map(|_| rng.random::<f32>() * 0.02 - 0.01));
    let table = Table::new(values, dimension);
    let params = Params::new(&spec);
    let mut worker = StepWorker::new(Arc::clone(&spec))?.with_execution(execution);
    let mut steps = Steps::new(&spec, synthetic, &table, &params, loss);
    // The first steps grow the buffers.
    steps.run(&mut worker, &mut rng, Duration::ZERO)?;
    let before = *worker.cluster_times();
    let counter = Counter::start();
    let (trained, seconds) = steps.run(&mut worker, &mut rng, duration)?;
    let requests = counter.per_batch(trained);
    let edges = (trained * batch) as f64;
    Ok(StepRate {
        edges: edges / seconds,
        stages: shares(worker.cluster_times(), &before, seconds / edges),
        bytes: worker.bytes(),
        requests,
    })
}

/// Microseconds per edge of each stage, as shares of `per_edge` seconds.
fn shares(after: &ClusterTimes, before: &ClusterTimes, per_edge: f64) -> Vec<(Cluster, f64)> {
    let of = |stage| (after.of(stage) - before.of(stage)).as_secs_f64();
    let total: f64 = Cluster::ALL.into_iter().map(of).sum();
    let share = |stage| {
        (
            stage,
            1e6 * per_edge * of(stage) / total.max(f64::MIN_POSITIVE),
        )
    };
    Cluster::ALL.into_iter().map(share).collect()
}

/// Batches of random edges.
struct Steps<'a> {
    spec: &'a ModelSpec,
    synthetic: Synthetic,
    table: &'a Table,
    params: &'a Params,
    loss: &'a dyn Loss,
    columns: [Vec<u32>; 3],
    draws: Draws,
}

impl<'a> Steps<'a> {
    fn new(
        spec: &'a ModelSpec,
        synthetic: Synthetic,
        table: &'a Table,
        params: &'a Params,
        loss: &'a dyn Loss,
    ) -> Self {
        Self {
            spec,
            synthetic,
            table,
            params,
            loss,
            columns: Default::default(),
            draws: Draws::default(),
        }
    }

    /// At least five batches, for at least `duration`; gives their number and their CPU seconds.
    fn run(
        &mut self,
        worker: &mut StepWorker,
        rng: &mut impl Rng,
        duration: Duration,
    ) -> Result<(usize, f64), StepError> {
        let (start, cpu) = (Instant::now(), thread_cpu_seconds());
        let mut batches = 0;
        while batches < 5 || start.elapsed() < duration {
            self.step(worker, rng)?;
            batches += 1;
        }
        Ok((batches, thread_cpu_seconds() - cpu))
    }

    fn step(&mut self, worker: &mut StepWorker, rng: &mut impl Rng) -> Result<(), StepError> {
        let Synthetic { entities, batch } = self.synthetic;
        let limits = [entities, entities, self.spec.relation_count()];
        for (column, limit) in self.columns.iter_mut().zip(limits) {
            column.clear();
            column.extend((0..batch).map(|_| rng.random_range(0..limit as u32)));
        }
        let [lhs, rhs, relations] = &self.columns;
        let first = if self.spec.is_dynamic() {
            0
        } else {
            relations[0]
        };
        let template = self.spec.relation(first);
        self.draws
            .draw(self.spec, template, batch, [entities; 2], rng);
        let batch = Batch {
            lhs,
            rhs,
            relation: match self.spec.is_dynamic() {
                true => Relations::PerEdge(relations),
                false => Relations::One(first),
            },
            weight: None,
        };
        let tables = Tables {
            lhs: self.table,
            rhs: self.table,
        };
        worker.train(&Job {
            batch: &batch,
            tables: &tables,
            params: self.params,
            loss: self.loss,
            draws: &self.draws,
        })?;
        Ok(())
    }
}
