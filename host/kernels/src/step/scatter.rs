//! Scattering: propagates gradients of prepared rows back to sums per table row and per parameter.

mod runs;

use std::ops::Range;

use pbg_core::batch_graph::RegularizedRows;
use pbg_core::model::Operator;
use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::gradient_rows::{GradientRows, ROWS_AHEAD};
use pbg_rows::regularizer::RowPenalty;
use pbg_rows::table::Table;
use pbg_rows::vector;

use crate::error::StepError;
use crate::matmul::{Factor, MatrixBlock, product};
use crate::operators;
use crate::operators::formula::{Evaluators, ParameterSums};
use crate::score_function::RowExtras;
use crate::step::buffers::{EntityBuffers, SliceSide};
use crate::step::gather::{OperatorParameters, RowTransform, SideOfSlice};
use crate::step::operator_gradients::OperatorGradients;
use crate::step::prepared_rows::{PreparedRows, RowGradients};
use crate::step::relation_products::RelationProducts;

use self::runs::{ScatterRun, draws, positives};

/// Sums of gradients per table row, for the entities of one side.
pub(crate) struct RowSums<'a> {
    pub(crate) table: &'a Table,
    /// Sums of the side's own table.
    pub(crate) rows: &'a mut GradientRows,
    /// Sums of the other side's table, if offsets continue into it.
    pub(crate) other: Option<&'a mut GradientRows>,
}

impl RowSums<'_> {
    /// Returns the sums that contain `entity`, and its row there.
    #[inline]
    fn locate(&mut self, entity: u32) -> (&mut GradientRows, u32) {
        match (
            &mut self.other,
            entity.checked_sub(self.table.entities() as u32),
        ) {
            (Some(other), Some(row)) => (other, row),
            _ => (self.rows, entity),
        }
    }

    #[inline]
    fn prefetch(&mut self, entity: Option<&u32>) {
        if let Some(&entity) = entity
            && self.table.features.is_none()
        {
            let (sums, row) = self.locate(entity);
            sums.prefetch(row);
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, entity: u32, gradient: &[f32]) {
        match &self.table.features {
            None => {
                let (sums, row) = self.locate(entity);
                sums.add(row, gradient);
            }
            Some(features) => {
                let ids = features.of(entity);
                ids.iter()
                    .for_each(|&id| self.rows.add_scaled(id, 1.0 / ids.len() as f32, gradient));
            }
        }
    }
}

/// Adds the gradients of one side's rows to their sums.
pub(crate) struct Scatterer<'a> {
    pub(crate) transform: RowTransform<'a>,
    pub(crate) sums: RowSums<'a>,
    /// Sum of the global embedding's gradients; empty if there is none.
    pub(crate) global: &'a mut [f32],
    pub(crate) operator: &'a mut OperatorGradients,
    pub(crate) evaluators: &'a mut Evaluators,
    pub(crate) products: &'a mut RelationProducts,
}

impl Scatterer<'_> {
    /// Adds the gradient of the penalty on a slice's positives to their gradients, adds these and the gradients of sampled
    /// candidates to their sums, and returns the value of the regularizer. `joined`: the positives were in-batch
    /// negatives too.
    pub(crate) fn slice(
        &mut self,
        buffers: &mut SliceSide,
        side: &SideOfSlice<'_>,
        joined: bool,
    ) -> Result<f64, StepError> {
        let joined = joined && buffers.candidates.started;
        if joined {
            join(buffers, side, self.transform.dimension);
        }
        if self.transform.regularizer.is_some() {
            let padded = side.slice.padded();
            buffers.positives.ensure(padded, self.transform.dimension);
        }
        let mut penalty = 0.0;
        if buffers.positives.started {
            for run in positives(side, self.transform.rows_at_once(side.slice.chunk)) {
                penalty += self.positives(buffers, run)?;
            }
        }
        if buffers.candidates.started && side.layout.uniform > 0 {
            let skipped = if joined { side.layout.chunk } else { 0 };
            for run in draws(side, skipped) {
                self.backpropagate(&buffers.rows, &mut buffers.candidates, run)?;
                self.sum(&buffers.candidates, run);
            }
        }
        Ok(penalty)
    }

    /// Adds the gradients of consecutive entities, all or a share, to their sums at the end of a pass.
    pub(crate) fn entities(
        &mut self,
        buffers: &mut EntityBuffers,
        entities: Range<usize>,
    ) -> Result<(), StepError> {
        if !buffers.gradients.started {
            return Ok(());
        }
        let run = ScatterRun {
            first: 0,
            from: 0,
            count: entities.len(),
            entities: None,
            entity: entities.start,
            edge: 0,
        };
        self.backpropagate(&buffers.rows, &mut buffers.gradients, run)?;
        self.sum(&buffers.gradients, run);
        Ok(())
    }

    /// Adds the gradients of a run of positives, with the penalty, to their sums, and returns its value.
    fn positives(
        &mut self,
        buffers: &mut SliceSide,
        run: ScatterRun<'_>,
    ) -> Result<f64, StepError> {
        let penalty_on = |rows: RegularizedRows| match self.transform.regularizer {
            Some((penalty, regularized)) if regularized == rows => Some(penalty),
            _ => None,
        };
        let (compared, looked_up) = (
            penalty_on(RegularizedRows::Compared),
            penalty_on(RegularizedRows::LookedUp),
        );
        let mut value = compared.map_or(0.0, |penalty| self.regularize(penalty, buffers, run));
        self.backpropagate(&buffers.rows, &mut buffers.positives, run)?;
        if let Some(penalty) = looked_up {
            value += self.regularize_input(penalty, buffers, run);
        }
        self.sum(&buffers.positives, run);
        Ok(value)
    }

    /// Adds the gradient of the penalty on positives before the operator to their gradients, and returns its value.
    fn regularize_input(
        &self,
        penalty: RowPenalty,
        buffers: &mut SliceSide,
        run: ScatterRun<'_>,
    ) -> f64 {
        let dimension = self.transform.dimension;
        let of = |first: usize| first * dimension..(first + run.count) * dimension;
        let inputs = buffers.rows.input.as_slice()[of(run.first)].chunks_exact(dimension);
        let gradients = &mut buffers.positives.values.as_mut_slice()[of(run.from)];
        let gradients = gradients.chunks_exact_mut(dimension);
        inputs
            .zip(gradients)
            .map(|(row, gradient)| penalty.add(row, gradient))
            .sum()
    }

    /// Adds the gradient of the penalty on positives as compared to their gradients, and returns its value.
    fn regularize(&self, penalty: RowPenalty, buffers: &mut SliceSide, run: ScatterRun<'_>) -> f64 {
        let (dimension, bias) = (self.transform.dimension, self.transform.comparison.bias);
        let mut value = 0.0;
        for i in 0..run.count {
            let (row, from) = (run.from + i, run.first + i);
            let gradients = buffers.positives.values.as_mut_slice();
            let gradient = &mut gradients[row * dimension..(row + 1) * dimension];
            let range = from * dimension..(from + 1) * dimension;
            let prepared = &mut buffers.rows.values.as_mut_slice()[range];
            // A bias counts like any coordinate; during comparison a zero is in its place.
            if bias {
                prepared[0] = buffers.rows.extras[from].bias;
            }
            value += penalty.add(prepared, gradient);
            if bias {
                prepared[0] = 0.0;
            }
        }
        value
    }

    /// Propagates the gradients of a run back through comparison and operator.
    fn backpropagate(
        &mut self,
        rows: &PreparedRows,
        gradients: &mut RowGradients,
        run: ScatterRun<'_>,
    ) -> Result<(), StepError> {
        if !self.transform.comparison.is_plain() {
            self.undo_preparation(rows, gradients, run);
        }
        if self.transform.transforms() {
            self.undo_operator(rows, &mut gradients.values, run)?;
        }
        Ok(())
    }

    /// Adds the gradients of a run to the sums of their table rows.
    fn sum(&mut self, gradients: &RowGradients, run: ScatterRun<'_>) {
        let dimension = self.transform.dimension;
        let range = run.from * dimension..(run.from + run.count) * dimension;
        let values = &gradients.values.as_slice()[range];
        for (i, gradient) in values.chunks_exact(dimension).enumerate() {
            if !self.global.is_empty() {
                vector::add(self.global, gradient);
            }
            let ahead = run.entities.and_then(|ids| ids.get(i + ROWS_AHEAD));
            self.sums.prefetch(ahead);
            let following = || (run.entity + i) as u32;
            let entity = run.entities.map_or_else(following, |entities| entities[i]);
            self.sums.add(entity, gradient);
        }
    }

    /// Replaces gradients of prepared rows by those of the rows before preparation.
    fn undo_preparation(
        &self,
        rows: &PreparedRows,
        gradients: &mut RowGradients,
        run: ScatterRun<'_>,
    ) {
        let (dimension, comparison) = (self.transform.dimension, self.transform.comparison);
        let range = run.from * dimension..(run.from + run.count) * dimension;
        let values = &mut gradients.values.as_mut_slice()[range];
        for (i, gradient) in values.chunks_exact_mut(dimension).enumerate() {
            let prepared = rows.row(run.first + i, dimension);
            let extras: RowExtras = rows.extras[run.first + i];
            if comparison.is_distance() {
                vector::axpy(gradient, -gradients.row_factors[run.from + i], prepared);
            }
            let bias = gradients.bias[run.from + i];
            comparison.prepare_backward(prepared, extras, gradient, bias);
        }
    }

    /// Replaces gradients of `y = f(x)` by those of `x`, and sums those of the parameters.
    fn undo_operator(
        &mut self,
        rows: &PreparedRows,
        gradients: &mut FloatBuffer,
        run: ScatterRun<'_>,
    ) -> Result<(), StepError> {
        let (dimension, operator) = (self.transform.dimension, self.transform.operator);
        let width = self.transform.packed_width();
        let inputs = &rows.input.as_slice()[run.first * dimension..][..run.count * dimension];
        let range = run.from * dimension..(run.from + run.count) * dimension;
        let sums = &mut *self.operator;
        if let Operator::Traced(formula) = operator {
            let given = self.transform.parameters.given(width, run.edge);
            let sums = match self.transform.parameters {
                OperatorParameters::Shared(_) => {
                    ParameterSums::Shared(&mut sums.shared.as_mut_slice()[..width])
                }
                OperatorParameters::PerEdge(_, relations) => {
                    ParameterSums::PerRow(&mut sums.per_edge, &relations[run.edge..])
                }
            };
            let gradients = &mut gradients.as_mut_slice()[range];
            let evaluator = self.evaluators.get_or_create(formula);
            evaluator.backward(given, sums, inputs, gradients, dimension);
            return Ok(());
        }
        if let Some(matrices) = self.transform.matrices(run.edge) {
            let gradients = &mut gradients.as_mut_slice()[range];
            self.products
                .backward(matrices, inputs, gradients, &mut sums.per_edge);
            return Ok(());
        }
        match self.transform.parameters {
            OperatorParameters::Shared(packed) if self.transform.is_matrix() => {
                return self.undo_matrix(rows, gradients, run, packed);
            }
            OperatorParameters::Shared(packed) => {
                let packed = &packed.as_slice()[..width];
                let sum = &mut sums.shared.as_mut_slice()[..width];
                for (g, x) in gradients.as_mut_slice()[range]
                    .chunks_exact_mut(dimension)
                    .zip(inputs.chunks_exact(dimension))
                {
                    operators::backward(operator, packed, x, g, sum);
                }
            }
            OperatorParameters::PerEdge(tensors, relations) => {
                sums.packed.resize(width, 0.0);
                let gradients = gradients.as_mut_slice()[range].chunks_exact_mut(dimension);
                for ((g, x), &relation) in gradients
                    .zip(inputs.chunks_exact(dimension))
                    .zip(&relations[run.edge..])
                {
                    operators::read_packed(tensors, relation as usize, &mut sums.packed);
                    let sum = sums.per_edge.row_mut(relation);
                    operators::backward(operator, &sums.packed, x, g, sum);
                }
            }
        }
        Ok(())
    }

    /// Replaces gradients for an operator whose matrix all rows share, with matrix products.
    fn undo_matrix(
        &mut self,
        rows: &PreparedRows,
        gradients: &mut FloatBuffer,
        run: ScatterRun<'_>,
        packed: &FloatBuffer,
    ) -> Result<(), StepError> {
        let dimension = self.transform.dimension;
        let sums = &mut *self.operator;
        let matrix = MatrixBlock::one(0, dimension, dimension);
        let outer = MatrixBlock::one(run.from * dimension, run.count, dimension);
        let inputs = MatrixBlock::one(run.first * dimension, run.count, dimension);
        let (g, x) = (
            Factor::transposed(gradients, outer),
            Factor::plain(&rows.input, inputs),
        );
        product(&mut sums.shared, matrix, g, x, true)?;
        let range = outer.offset..outer.offset + outer.floats();
        if self.transform.operator == Operator::Affine {
            let translation = &mut sums.shared.as_mut_slice()[dimension * dimension..][..dimension];
            for g in gradients.as_slice()[range.clone()].chunks_exact(dimension) {
                vector::add(translation, g);
            }
        }
        sums.block.reserve(outer.floats());
        let inner = MatrixBlock::one(0, run.count, dimension);
        let (g, m) = (
            Factor::plain(gradients, outer),
            Factor::plain(packed, matrix),
        );
        product(&mut sums.block, inner, g, m, false)?;
        gradients.as_mut_slice()[range].copy_from_slice(&sums.block.as_slice()[..inner.floats()]);
        Ok(())
    }
}

/// Adds the gradients that positives have as candidates to those that they have as positives.
fn join(buffers: &mut SliceSide, side: &SideOfSlice<'_>, dimension: usize) {
    let (slice, columns) = (side.slice, side.layout.rows());
    let started = buffers.positives.started;
    let positives = &mut buffers.positives;
    let target = positives
        .values
        .as_mut_slice()
        .chunks_exact_mut(slice.chunk * dimension);
    let source = buffers
        .candidates
        .values
        .as_slice()
        .chunks_exact(columns * dimension);
    if buffers.candidates.first_row < slice.chunk {
        for (target, source) in target.zip(source).take(slice.chunks) {
            let source = &source[..slice.chunk * dimension];
            if started {
                vector::add(target, source);
            } else {
                target.copy_from_slice(source);
            }
        }
        positives.started = true;
    }
    for row in 0..slice.rows.len() {
        let from = (row / slice.chunk) * columns + row % slice.chunk;
        positives.bias[row] += buffers.candidates.bias[from];
        positives.row_factors[row] += buffers.candidates.row_factors[from];
    }
}
