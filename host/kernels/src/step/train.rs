//! Training and its common half with evaluation: the walk over passes, slices and directions.

use pbg_core::batch_graph::{Cluster, Negatives, Pass, Step};
use pbg_core::graph::Side;
use pbg_core::model::{Operator, Precision};

use crate::comparators::Comparison;
use crate::optimizer;
use crate::regularizer::N3;
use crate::spec::ModelSpec;
use crate::step::backward::{self, Sink};
use crate::step::direction::Direction;
use crate::step::job::Job;
use crate::step::parameters::ParameterValues;
use crate::step::plan::{Plan, Slice};
use crate::step::side::{self, Layout, SideBuffers, SliceEntities, Source, Transform, pair};
use crate::step::{BatchStats, ScoreObserver, StepError, Trainer};

/// What the steps of a batch share.
struct Walk<'a, 'o> {
    plan: &'a Plan,
    job: &'a Job<'a>,
    stats: BatchStats,
    observer: &'a mut ScoreObserver<'o>,
}

impl Trainer {
    /// Trains one batch: all gradients from the values before, summed, applied at the end.
    ///
    /// # Errors
    /// When the batch does not fit the model, the loss fails, or a value is not finite; nothing of the
    /// batch was applied then, except that a gradient that alone is not finite is left out of
    /// an otherwise complete update. `max_norm` acts when rows are looked up, as in PBG, and stays.
    pub fn train(&mut self, job: &Job<'_>) -> Result<BatchStats, StepError> {
        self.train_observed(job, &mut |_, _, _, _| {})
    }

    /// As [`Trainer::train`]; `observer` sees the scores before they become gradients.
    ///
    /// # Errors
    /// As [`Trainer::train`].
    pub fn train_observed(
        &mut self,
        job: &Job<'_>,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError> {
        let Job {
            batch,
            tables,
            params,
            ..
        } = *job;
        let stats = BatchStats {
            count: batch.len(),
            ..BatchStats::default()
        };
        if batch.is_empty() {
            return Ok(stats);
        }
        self.times.start();
        let plan = self.start(job)?;
        self.gradients
            .reset(&self.spec, batch.spec_index(), params, batch.len())?;
        for side in Side::BOTH {
            let embeddings = &tables.side(side).embeddings;
            // A table on both sides has one sum per row.
            let rows = if tables.shared() && side == Side::Rhs {
                0
            } else {
                embeddings.rows()
            };
            let expected = plan.sizes.touched[side as usize];
            self.rows[side as usize].reset(rows, embeddings.width(), expected);
        }
        let mut walk = Walk {
            plan: &plan,
            job,
            stats,
            observer,
        };
        for each in &plan.graph.loops {
            self.once(&each.before, Some(&each.pass), &mut walk)?;
            for slice in plan.slices() {
                for step in &each.slice {
                    self.step(step, &each.pass, &slice, &mut walk)?;
                    self.times.book(step.cluster);
                }
            }
            self.once(&each.after, Some(&each.pass), &mut walk)?;
        }
        let stats = walk.stats;
        if !(stats.loss() + stats.reg).is_finite() {
            return Err(StepError::NonFinite("loss"));
        }
        self.once(&plan.graph.end, None, &mut walk)?;
        Ok(stats)
    }

    /// Checks a batch and plans it.
    pub(super) fn start(&mut self, job: &Job<'_>) -> Result<Plan, StepError> {
        crate::use_one_torch_thread();
        self.graphs.plan(&self.spec, &self.execution, job)
    }

    /// Steps that run once: before the slices of a pass, after them, or at the end of the batch.
    fn once(
        &mut self,
        steps: &[Step],
        pass: Option<&Pass>,
        walk: &mut Walk<'_, '_>,
    ) -> Result<(), StepError> {
        for step in steps {
            match (step.cluster, pass) {
                (Cluster::Gather, Some(pass)) => self.gather_once(walk.plan, pass, walk.job)?,
                (Cluster::Scatter, Some(pass)) => {
                    self.back_all(walk.plan, pass, walk.job)?;
                    walk.stats.reg += self.regularize_parameters(walk.plan, pass, walk.job);
                }
                (Cluster::Update, None) => self.apply(walk.job)?,
                // What they work on belongs to slices.
                (Cluster::Score | Cluster::Loss | Cluster::Differentiate, _)
                | (Cluster::Gather | Cluster::Scatter, None)
                | (Cluster::Update, Some(_)) => {}
            }
            self.times.book(step.cluster);
        }
        Ok(())
    }

    /// One step of one slice.
    fn step(
        &mut self,
        step: &Step,
        pass: &Pass,
        slice: &Slice,
        walk: &mut Walk<'_, '_>,
    ) -> Result<(), StepError> {
        let (plan, job) = (walk.plan, walk.job);
        let side = step.direction.unwrap_or(Side::Lhs);
        let direction = self.direction(plan, pass, job, slice, side);
        let (candidates, queries) = pair(&mut self.sides, side);
        match step.cluster {
            Cluster::Gather => self.fill_slice(plan, pass, job, slice)?,
            Cluster::Score => {
                direction.score(candidates, queries, &mut self.scores)?;
                let (positive, negative) = self.scores.of(slice);
                (walk.observer)(side, slice.rows.start, positive, negative);
            }
            Cluster::Loss => {
                let weight = self.spec.relations[job.batch.spec_index()].weight;
                let weights = job.batch.weight.map(|w| &w[slice.rows.clone()]);
                let sums = direction.lose(&mut self.scores, job.loss, weight, weights)?;
                walk.stats.add(side, sums.loss, sums.violators);
            }
            Cluster::Differentiate => {
                direction.differentiate(candidates, queries, &mut self.scores)?;
            }
            Cluster::Scatter => {
                for side in Side::BOTH {
                    walk.stats.reg += self.back_slice(plan, pass, job, slice, side)?;
                }
            }
            Cluster::Update => self.apply_rows(job)?,
        }
        Ok(())
    }

    fn regularize_parameters(&mut self, plan: &Plan, pass: &Pass, job: &Job<'_>) -> f64 {
        let side = pass.operator_side;
        let tensors = job.params.operator(job.batch.spec_index(), side);
        match n3(&self.spec, plan) {
            Some(n3) if !tensors.is_empty() => self.gradients.regularize(
                n3,
                &self.values,
                tensors,
                side,
                plan.parameter_weight,
                job.relations(),
            ),
            _ => 0.0,
        }
    }

    fn comparison(&self) -> Comparison {
        Comparison {
            comparator: self.spec.comparator,
            bias: self.spec.bias,
        }
    }

    pub(super) fn direction<'a>(
        &self,
        plan: &'a Plan,
        pass: &Pass,
        job: &Job<'a>,
        slice: &'a Slice,
        side: Side,
    ) -> Direction<'a> {
        Direction {
            plan,
            slice,
            side,
            layouts: Side::BOTH.map(|side| layout(plan, pass, slice, side)),
            comparison: self.comparison(),
            precision: self.execution.precision,
            truth: &job.batch.side(side)[slice.rows.clone()],
            entities: job.tables.side(side).entities(),
        }
    }

    /// Copies the parameters of the relation, and with all negatives prepares every entity that may
    /// replace a side.
    pub(super) fn gather_once(
        &mut self,
        plan: &Plan,
        pass: &Pass,
        job: &Job<'_>,
    ) -> Result<(), StepError> {
        let relation = job.batch.spec_index();
        self.values.read(&self.spec, relation, job.params)?;
        for &side in pass.replaced {
            if plan.negatives[side as usize] != Negatives::All {
                continue;
            }
            let table = job.tables.side(side);
            let transform = transform(&self.spec, &self.values, plan, pass, job, side);
            let buffers = &mut self.sides[side as usize];
            side::fill_all(&mut buffers.all, table, &transform, &mut self.scratch)?;
            if self.execution.precision == Precision::Bf16 {
                buffers.all.round(table.entities() * plan.dimension)?;
            }
            buffers
                .all_gradients
                .start(table.entities(), plan.dimension)?;
        }
        Ok(())
    }

    /// Gathers and prepares both sides of a slice.
    pub(super) fn fill_slice(
        &mut self,
        plan: &Plan,
        pass: &Pass,
        job: &Job<'_>,
        slice: &Slice,
    ) -> Result<(), StepError> {
        for side in Side::BOTH {
            let layout = layout(plan, pass, slice, side);
            let transform = transform(&self.spec, &self.values, plan, pass, job, side);
            let buffers = &mut self.sides[side as usize];
            let entities = slice_entities(job, slice, side, layout.uniform);
            let source = Source {
                own: job.tables.side(side),
                beyond: job.tables.beyond(&self.spec, job.batch.spec_index(), side),
            };
            side::fill(
                &mut buffers.rows,
                layout,
                slice,
                source,
                entities,
                &transform,
                &mut self.scratch,
            )?;
            if self.execution.precision == Precision::Bf16 {
                buffers
                    .rows
                    .round(slice.chunks * layout.rows() * plan.dimension)?;
            }
            buffers.positives.start(slice.padded(), plan.dimension)?;
            let columns = if pass.replaced.contains(&side) {
                plan.columns(side)
            } else {
                0
            };
            buffers
                .candidates
                .start(slice.chunks * columns, plan.dimension)?;
        }
        Ok(())
    }

    fn back_slice(
        &mut self,
        plan: &Plan,
        pass: &Pass,
        job: &Job<'_>,
        slice: &Slice,
        side: Side,
    ) -> Result<f64, StepError> {
        let layout = layout(plan, pass, slice, side);
        self.with_sink(plan, pass, job, side, |buffers, transform, sink| {
            let entities = slice_entities(job, slice, side, layout.uniform);
            backward::slice(
                buffers,
                layout,
                slice,
                plan.own(side),
                entities,
                transform,
                sink,
            )
        })
    }

    fn back_all(&mut self, plan: &Plan, pass: &Pass, job: &Job<'_>) -> Result<(), StepError> {
        for &side in pass.replaced {
            if plan.negatives[side as usize] == Negatives::All {
                let entities = job.tables.side(side).entities();
                self.with_sink(plan, pass, job, side, |buffers, transform, sink| {
                    backward::all(buffers, entities, transform, sink)
                })?;
            }
        }
        Ok(())
    }

    /// Runs `work` with one side's buffers, what was applied to them, and where their gradients go.
    fn with_sink<T>(
        &mut self,
        plan: &Plan,
        pass: &Pass,
        job: &Job<'_>,
        side: Side,
        work: impl FnOnce(&mut SideBuffers, &Transform<'_>, &mut Sink<'_>) -> Result<T, tch::TchError>,
    ) -> Result<T, StepError> {
        let transform = transform(&self.spec, &self.values, plan, pass, job, side);
        let index = side as usize;
        let (rows, other) = pair(&mut self.rows, side);
        let (rows, beyond) = match (job.tables.shared(), side) {
            (true, Side::Rhs) => (other, None),
            (true, Side::Lhs) => (rows, None),
            (false, _) => (rows, Some(other)),
        };
        let mut sink = Sink {
            rows,
            beyond,
            table: job.tables.side(side),
            global: &mut self.gradients.globals[index],
            operator: &mut self.gradients.operators[index],
        };
        Ok(work(&mut self.sides[index], &transform, &mut sink)?)
    }

    /// Applies the summed gradients.
    fn apply(&mut self, job: &Job<'_>) -> Result<(), StepError> {
        let finite = self
            .gradients
            .apply(&self.spec, job.batch.spec_index(), job.params);
        self.apply_rows(job)?;
        if finite {
            Ok(())
        } else {
            Err(StepError::NonFinite("gradient"))
        }
    }

    /// Applies the summed gradients of the tables' rows.
    fn apply_rows(&mut self, job: &Job<'_>) -> Result<(), StepError> {
        let mut finite = true;
        for side in Side::BOTH {
            let table = job.tables.side(side);
            finite &= optimizer::apply_rows(&mut self.rows[side as usize], table, self.spec.lr);
        }
        if finite {
            Ok(())
        } else {
            Err(StepError::NonFinite("gradient"))
        }
    }
}

/// What happens to one side's embeddings before they are compared.
fn transform<'a>(
    spec: &ModelSpec,
    values: &'a ParameterValues,
    plan: &Plan,
    pass: &Pass,
    job: &Job<'a>,
    side: Side,
) -> Transform<'a> {
    let operator = if side == pass.operator_side {
        plan.operator
    } else {
        Operator::None
    };
    Transform {
        dimension: plan.dimension,
        comparison: Comparison {
            comparator: spec.comparator,
            bias: spec.bias,
        },
        max_norm: spec.max_norm,
        global: &values.globals[side as usize],
        operator,
        parameters: values.view(
            job.params.operator(job.batch.spec_index(), side),
            job.relations(),
        ),
        regularizer: n3(spec, plan),
    }
}

fn n3(spec: &ModelSpec, plan: &Plan) -> Option<N3> {
    let coefficient = spec.regularization_coef;
    (coefficient > 0.0).then_some(N3 {
        coefficient,
        complex: plan.operator == Operator::ComplexDiagonal,
    })
}

/// Rows per chunk of one side: uniform negatives only where they are compared in this pass.
fn layout(plan: &Plan, pass: &Pass, slice: &Slice, side: Side) -> Layout {
    let uniform = if pass.replaced.contains(&side) {
        plan.uniform(side)
    } else {
        0
    };
    Layout {
        chunk: slice.chunk,
        uniform,
    }
}

/// The entities of one side of a slice.
fn slice_entities<'a>(
    job: &Job<'a>,
    slice: &Slice,
    side: Side,
    uniform: usize,
) -> SliceEntities<'a> {
    let first = slice.first_chunk * uniform;
    SliceEntities {
        positives: &job.batch.side(side)[slice.rows.clone()],
        draws: &job.draws.side(side)[first..first + slice.chunks * uniform],
    }
}
