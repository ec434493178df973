//! Training and its common half with evaluation: the walk over passes, slices and directions.

use pbg_core::config::{Operator, Precision, Update};
use pbg_core::graph::Side;
use pbg_core::strategy::Loss;

use crate::batch::{Batch, Relations, Tables, check_below};
use crate::comparators::Comparison;
use crate::negatives::Draws;
use crate::optimizer;
use crate::params::Params;
use crate::regularizer::N3;
use crate::spec::ModelSpec;
use crate::step::backward::{self, Sink};
use crate::step::direction::Direction;
use crate::step::parameters::ParameterValues;
use crate::step::plan::{Negatives, Pass, Plan, Slice};
use crate::step::side::{self, Layout, SideBuffers, SliceEntities, Source, Transform, pair};
use crate::step::{BatchStats, ScoreObserver, Stage, StepError, Trainer};

/// What one batch is worked on with.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) batch: &'a Batch<'a>,
    pub(super) tables: &'a Tables<'a>,
    pub(super) params: &'a Params,
    pub(super) loss: &'a dyn Loss,
    pub(super) draws: &'a Draws,
}

impl<'a> Job<'a> {
    pub(super) fn relations(&self) -> Option<&'a [u32]> {
        match self.batch.relation {
            Relations::One(_) => None,
            Relations::PerEdge(relations) => Some(relations),
        }
    }
}

impl Trainer {
    /// Trains one batch: all gradients from the values before, summed, applied at the end.
    ///
    /// # Errors
    /// When the batch does not fit the model, the loss fails, or a value is not finite; nothing of the
    /// batch was applied then, except that a gradient that alone is not finite is left out of
    /// an otherwise complete update. `max_norm` acts when rows are looked up, as in PBG, and stays.
    pub fn train(
        &mut self,
        batch: &Batch<'_>,
        tables: &Tables<'_>,
        params: &Params,
        loss: &dyn Loss,
        draws: &Draws,
    ) -> Result<BatchStats, StepError> {
        self.train_observed(batch, tables, params, loss, draws, &mut |_, _, _, _| {})
    }

    /// As [`Trainer::train`]; `observer` sees the scores before they become gradients.
    ///
    /// # Errors
    /// As [`Trainer::train`].
    pub fn train_observed(
        &mut self,
        batch: &Batch<'_>,
        tables: &Tables<'_>,
        params: &Params,
        loss: &dyn Loss,
        draws: &Draws,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError> {
        let job = Job {
            batch,
            tables,
            params,
            loss,
            draws,
        };
        let mut stats = BatchStats {
            count: batch.len(),
            ..BatchStats::default()
        };
        if batch.is_empty() {
            return Ok(stats);
        }
        self.times.start();
        let plan = self.start(&job)?;
        self.gradients
            .reset(&self.spec, batch.spec_index(), params)?;
        for side in Side::BOTH {
            let embeddings = &tables.side(side).embeddings;
            let beyond = tables.beyond(&self.spec, batch.spec_index(), side);
            let expected = plan.touched(tables.shared(), beyond.is_some(), side);
            // A table on both sides has one sum per row.
            let rows = if tables.shared() && side == Side::Rhs {
                0
            } else {
                embeddings.rows()
            };
            self.rows[side as usize].reset(rows, embeddings.width(), expected);
        }
        for pass in plan.passes {
            self.train_pass(&plan, pass, &job, &mut stats, observer)?;
        }
        if !(stats.loss() + stats.reg).is_finite() {
            return Err(StepError::NonFinite("loss"));
        }
        self.times.book(Stage::Scatter);
        self.apply(&job)?;
        self.times.book(Stage::Update);
        Ok(stats)
    }

    /// Checks a batch and copies the parameters it needs.
    pub(super) fn start(&mut self, job: &Job<'_>) -> Result<Plan, StepError> {
        crate::use_one_torch_thread();
        job.batch.check(&self.spec, job.tables)?;
        let relation = job.batch.spec_index();
        let entities = Side::BOTH.map(|side| job.tables.side(side).entities());
        let plan = Plan::new(
            &self.spec,
            relation,
            job.batch.len(),
            entities,
            self.execution.slice_bytes.max(1),
        );
        for side in Side::BOTH {
            let draws = job.draws.side(side);
            let wanted = match plan.negatives[side as usize] {
                Negatives::Sampled { uniform, .. } => plan.chunks() * uniform,
                Negatives::None | Negatives::All => 0,
            };
            if draws.len() != wanted {
                let found = draws.len();
                return Err(StepError::Batch(format!(
                    "{found} negatives drawn for the {side:?} side, not {wanted}"
                )));
            }
            let beyond = job.tables.beyond(&self.spec, relation, side);
            let limit = entities[side as usize] + beyond.map_or(0, |table| table.entities());
            check_below("drawn negative", draws, limit)?;
        }
        self.values.read(&self.spec, relation, job.params)?;
        Ok(plan)
    }

    fn train_pass(
        &mut self,
        plan: &Plan,
        pass: &Pass,
        job: &Job<'_>,
        stats: &mut BatchStats,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<(), StepError> {
        self.fill_all(plan, pass, job)?;
        let relation = self.spec.relations[job.batch.spec_index()].clone();
        for slice in plan.slices() {
            self.fill_slice(plan, pass, job, &slice)?;
            self.times.book(Stage::Gather);
            for &side in pass.replaced {
                let direction = self.direction(plan, pass, job, &slice, side);
                let (candidates, queries) = pair(&mut self.sides, side);
                direction.score(candidates, queries, &mut self.scores)?;
                self.times.book(Stage::Score);
                let (positive, negative) = self.scores.of(&slice);
                observer(side, slice.rows.start, positive, negative);
                let weights = job.batch.weight.map(|w| &w[slice.rows.clone()]);
                let sums = direction.lose(&mut self.scores, job.loss, relation.weight, weights)?;
                stats.add(side, sums.loss, sums.violators);
                self.times.book(Stage::Loss);
                direction.differentiate(candidates, queries, &mut self.scores)?;
                self.times.book(Stage::Differentiate);
            }
            for side in Side::BOTH {
                stats.reg += self.back_slice(plan, pass, job, &slice, side)?;
            }
            self.times.book(Stage::Scatter);
            if self.execution.update == Update::Slice {
                self.apply_rows(job)?;
                self.times.book(Stage::Update);
            }
        }
        self.back_all(plan, pass, job)?;
        let tensors = job
            .params
            .operator(job.batch.spec_index(), pass.operator_side);
        if let (Some(n3), false) = (self.n3(plan), tensors.is_empty()) {
            let (side, relations) = (pass.operator_side, job.relations());
            stats.reg += self.gradients.regularize(
                n3,
                &self.values,
                tensors,
                side,
                plan.parameter_weight,
                relations,
            );
        }
        Ok(())
    }

    fn n3(&self, plan: &Plan) -> Option<N3> {
        let coefficient = self.spec.regularization_coef;
        (coefficient > 0.0).then_some(N3 {
            coefficient,
            complex: plan.operator == Operator::ComplexDiagonal,
        })
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

    /// With all negatives: prepares every entity that may replace a side.
    pub(super) fn fill_all(
        &mut self,
        plan: &Plan,
        pass: &Pass,
        job: &Job<'_>,
    ) -> Result<(), StepError> {
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
        let mut reg = 0.0;
        if let Some(n3) = self.n3(plan) {
            let transform = transform(&self.spec, &self.values, plan, pass, job, side);
            reg = backward::regularize(
                n3,
                &mut self.sides[side as usize],
                layout,
                slice,
                &transform,
            );
        }
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
        })?;
        Ok(reg)
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
    fn with_sink(
        &mut self,
        plan: &Plan,
        pass: &Pass,
        job: &Job<'_>,
        side: Side,
        work: impl FnOnce(&mut SideBuffers, &Transform<'_>, &mut Sink<'_>) -> Result<(), tch::TchError>,
    ) -> Result<(), StepError> {
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
    }
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
