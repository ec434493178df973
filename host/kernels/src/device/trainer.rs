//! The walk over the passes, slices and clusters of a batch on a device.

use std::sync::{Arc, MutexGuard};

use pbg_core::batch_graph::{Cluster, Pass, Step};
use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Precision};
use tch::Tensor;

use super::parameters::Parameters;
use super::place::Place;
use super::step::Work;
use super::sums::Sums;
use super::tables::Rows;
use super::touched::Touch;
use super::transfer;
use super::working_set::WorkingSet;
use crate::batch::Tables;
use crate::params::Params;
use crate::spec::ModelSpec;
use crate::step::job::{Graphs, Job};
use crate::step::plan::Slice;
use crate::step::{BatchStats, ClusterTimes, Execution, ScoreObserver, StepError, TrainerError};

/// Bytes of buffers that a slice aims at unless told otherwise: enough to keep a GPU busy, little beside
/// its memory.
pub const DEFAULT_SLICE_BYTES: usize = 256 << 20;

/// Trains batches on a device, as [`Trainer`](crate::step::Trainer) does on a core: the same arguments, the
/// same results up to rounding. Tables must be resident there ([`Table::upload`](crate::table::Table::upload)).
pub struct DeviceTrainer {
    spec: Arc<ModelSpec>,
    execution: Execution,
    place: Place,
    graphs: Graphs,
    touch: Touch,
    /// Resident from the first batch on.
    parameters: Option<Parameters>,
    times: ClusterTimes,
}

impl DeviceTrainer {
    /// A trainer of `spec` on `place`.
    ///
    /// # Errors
    /// When the specification breaks a rule.
    pub fn new(
        spec: Arc<ModelSpec>,
        execution: Execution,
        place: Place,
    ) -> Result<Self, TrainerError> {
        spec.validate()?;
        Ok(Self {
            spec,
            execution,
            place,
            graphs: Graphs::default(),
            touch: Touch::default(),
            parameters: None,
            times: ClusterTimes::new(),
        })
    }

    /// Why `spec` cannot be trained on a device, if so.
    #[must_use]
    pub fn refusal(spec: &ModelSpec, precision: Precision) -> Option<&'static str> {
        if spec.entities.iter().any(|entity| entity.featurized) {
            return Some(
                "featurized entity types are trained on the cores only; use execution.device = \"cpu\"",
            );
        }
        let distances = matches!(spec.comparator, Comparator::L2 | Comparator::SquaredL2);
        (distances && precision == Precision::Bf16).then_some(
            "bf16 would lose small distances in the difference of large numbers; with the comparators l2 and squared_l2 use fp32",
        )
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

    /// Trains one batch, as [`Trainer::train`](crate::step::Trainer::train).
    ///
    /// # Errors
    /// As there, or when a table is not resident.
    pub fn train(&mut self, job: &Job<'_>) -> Result<BatchStats, StepError> {
        self.work(job, None)
    }

    /// As [`DeviceTrainer::train`]; `observer` sees the scores before they become gradients.
    ///
    /// # Errors
    /// As [`DeviceTrainer::train`].
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
        mut observer: Option<&mut ScoreObserver<'_>>,
    ) -> Result<BatchStats, StepError> {
        if job.batch.is_empty() {
            return Ok(BatchStats::default());
        }
        crate::use_one_torch_thread();
        self.times.start();
        let spec = Arc::clone(&self.spec);
        let plan = self.graphs.plan(&spec, &self.execution, job)?;
        let mut tables = lock(job.tables)?;
        let touched = self.touch.batch(job, &plan, self.place)?;
        let parameters = match &mut self.parameters {
            Some(parameters) => parameters,
            empty => empty.insert(Parameters::new(job.params, self.place)?),
        };
        let relation = job.batch.spec_index();
        let [lhs, rhs] = &tables;
        let resident = [lhs.as_deref(), rhs.as_deref()];
        let mut work = Work {
            set: WorkingSet::load(resident, &touched)?,
            read: parameters.read(&spec, relation, job.params, &touched)?,
            weights: weights(job, spec.relations[relation].weight, self.place)?,
            formula: job.loss.formula(),
            half: self.execution.precision == Precision::Bf16,
            all: [None, None],
            current: None,
            sums: Sums::new(self.place)?,
            spec: &spec,
            plan: &plan,
            job,
            place: self.place,
            touched,
        };
        for each in &plan.graph.loops {
            for step in &each.before {
                once(&mut work, step, &each.pass)?;
                self.times.book(step.cluster);
            }
            for slice in plan.slices() {
                for step in &each.slice {
                    run(&mut work, step, &each.pass, &slice, observer.as_deref_mut())?;
                    self.times.book(step.cluster);
                }
            }
            for step in &each.after {
                once(&mut work, step, &each.pass)?;
                self.times.book(step.cluster);
            }
        }
        let stats = work.sums.stats(job.batch.len())?;
        let finite = finish(work, parameters, &mut tables)?;
        self.times.book(Cluster::Update);
        match finite {
            true => Ok(stats),
            false => Err(StepError::NonFinite("gradient")),
        }
    }
}

impl std::fmt::Debug for DeviceTrainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceTrainer {{ place: {} }}", self.place)
    }
}

/// Steps before the slices of a pass or after them.
fn once(work: &mut Work<'_>, step: &Step, pass: &Pass) -> Result<(), StepError> {
    match step.cluster {
        Cluster::Gather => work.gather_all(pass)?,
        Cluster::Scatter => work.scatter_all(pass)?,
        // What they work on belongs to slices, or to the end of the batch.
        Cluster::Score | Cluster::Loss | Cluster::Differentiate | Cluster::Update => {}
    }
    Ok(())
}

/// One step of one slice.
fn run(
    work: &mut Work<'_>,
    step: &Step,
    pass: &Pass,
    slice: &Slice,
    observer: Option<&mut ScoreObserver<'_>>,
) -> Result<(), StepError> {
    let side = step.direction.unwrap_or(Side::Lhs);
    match step.cluster {
        Cluster::Gather => work.gather(pass, slice)?,
        Cluster::Score => work.score(slice, side, observer)?,
        Cluster::Loss => work.lose(slice, side)?,
        Cluster::Differentiate => work.differentiate(slice, side)?,
        Cluster::Scatter => work.scatter(pass, slice)?,
        Cluster::Update => {
            // Nothing is applied that is not finite.
            work.sums.stats(0)?;
            let finite = work.set.update(work.spec.lr)?;
            if !truth(&[finite])? {
                return Err(StepError::NonFinite("gradient"));
            }
        }
    }
    Ok(())
}

/// The end of a batch: applies what was summed. Returns whether all of it was finite.
fn finish(
    mut work: Work<'_>,
    parameters: &mut Parameters,
    tables: &mut [Option<MutexGuard<'_, Rows>>; 2],
) -> Result<bool, StepError> {
    let lr = work.spec.relation_lr;
    let mut finite = parameters.update(work.read, &work.touched, lr)?;
    finite.push(work.set.update(work.spec.lr)?);
    let [lhs, rhs] = tables;
    work.set
        .store([lhs.as_deref_mut(), rhs.as_deref_mut()], &work.touched)?;
    truth(&finite)
}

/// Whether all hold. Waits for the device: when a batch has ended, its tables may be carried over another
/// stream ([`stream`](super::stream)).
fn truth(flags: &[Tensor]) -> Result<bool, StepError> {
    let all = Tensor::f_stack(flags, 0)?.f_all()?;
    Ok(all.f_int64_value(&[])? != 0)
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
