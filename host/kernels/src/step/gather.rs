//! Gathering: looks up the rows of one side of a slice, transforms them, and prepares them for comparison.

use std::ops::Range;

use pbg_core::batch_graph::RegularizedRows;
use pbg_core::model::Operator;
use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::gradient_rows::ROWS_AHEAD;
use pbg_rows::params::ParamTensor;
use pbg_rows::regularizer::RowPenalty;
use pbg_rows::table::{LookUp, Table};
use pbg_rows::vector;

use crate::error::StepError;
use crate::matmul::{Factor, MatrixBlock, product};
use crate::operators;
use crate::operators::formula::{Evaluators, FormulaParameters};
use crate::score_function::{RowExtras, ScoreFunction};
use crate::step::plan::Slice;
use crate::step::prepared_rows::PreparedRows;
use crate::step::relation_products::{MatrixOperator, RelationProducts};

/// Transformation of embeddings between look-up and comparison.
#[derive(Clone, Copy)]
pub(crate) struct RowTransform<'a> {
    pub(crate) dimension: usize,
    pub(crate) comparison: ScoreFunction,
    /// Global embedding; empty if there is none.
    pub(crate) global: &'a [f32],
    /// Operator; `Operator::None` on the side that is not transformed.
    pub(crate) operator: Operator,
    pub(crate) parameters: OperatorParameters<'a>,
    /// Regularizer of the positives, and the form of the rows to which it applies.
    pub(crate) regularizer: Option<(RowPenalty, RegularizedRows)>,
}

/// Parameters of an operator for the rows of a slice.
#[derive(Clone, Copy)]
pub(crate) enum OperatorParameters<'a> {
    /// Static relations: one packed row for all rows.
    Shared(&'a FloatBuffer),
    /// Dynamic relations: the operator's tensors, and the relation type of each edge. Only positives pass through the
    /// operator.
    PerEdge(&'a [ParamTensor], &'a [u32]),
}

impl<'a> OperatorParameters<'a> {
    /// Converts the parameters for a formula: `width` floats are packed, and the first row belongs to edge `edge`.
    pub(crate) fn given(self, width: usize, edge: usize) -> FormulaParameters<'a> {
        match self {
            Self::Shared(packed) => FormulaParameters::Shared(&packed.as_slice()[..width]),
            Self::PerEdge(tensors, relations) => {
                FormulaParameters::PerRow(tensors, &relations[edge..])
            }
        }
    }
}

impl<'a> RowTransform<'a> {
    /// Returns the matrices that the relation types of the edges from `edge` on have; `None` if the operator is no matrix,
    /// or all edges share it.
    pub(crate) fn matrices(&self, edge: usize) -> Option<MatrixOperator<'a>> {
        match self.parameters {
            OperatorParameters::PerEdge(tensors, relations) if self.is_matrix() => {
                Some(MatrixOperator {
                    operator: self.operator,
                    tensors,
                    relations: &relations[edge..],
                    dimension: self.dimension,
                })
            }
            _ => None,
        }
    }

    pub(crate) fn transforms(&self) -> bool {
        self.operator != Operator::None
    }

    pub(crate) fn is_matrix(&self) -> bool {
        self.operator.is_matrix()
    }

    /// Returns the floats of the operator's packed parameters.
    pub(crate) fn packed_width(&self) -> usize {
        operators::packed_width(self.operator, self.dimension)
    }

    /// Returns the number of rows of a chunk that pass through all steps together, so that they stay in the cache. A
    /// matrix operator multiplies a whole chunk at once.
    pub(crate) fn rows_at_once(&self, chunk: usize) -> usize {
        const FLOATS: usize = 16 << 10;
        match self.is_matrix() {
            true => chunk,
            false => (FLOATS / self.dimension).max(1),
        }
    }
}

/// Position of a chunk's positives and uniform negatives in the buffers of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkLayout {
    /// Positives per chunk.
    pub(crate) chunk: usize,
    /// Uniform negatives per chunk.
    pub(crate) uniform: usize,
}

impl ChunkLayout {
    /// Returns the number of rows per chunk.
    pub(crate) fn rows(&self) -> usize {
        self.chunk + self.uniform
    }

    /// Returns the first row of chunk `chunk`.
    pub(crate) fn first(&self, chunk: usize) -> usize {
        chunk * self.rows()
    }
}

/// The entities of one side of a slice, and the layout of their rows.
#[derive(Clone, Copy)]
pub(crate) struct SideOfSlice<'a> {
    pub(crate) slice: &'a Slice,
    pub(crate) layout: ChunkLayout,
    /// Positives of the slice, without padding.
    pub(crate) positives: &'a [u32],
    /// Uniform negatives of the slice's chunks.
    pub(crate) draws: &'a [u32],
}

impl<'a> SideOfSlice<'a> {
    /// Returns the uniform negatives of chunk `chunk`.
    pub(crate) fn drawn(&self, chunk: usize) -> &'a [u32] {
        let uniform = self.layout.uniform;
        &self.draws[chunk * uniform..(chunk + 1) * uniform]
    }
}

/// The tables of one side's rows. Offsets beyond the side's own table continue into the other one.
#[derive(Clone, Copy)]
pub(crate) struct RowSource<'a> {
    pub(crate) table: &'a Table,
    /// Table of the other side, if it holds other entities of the same type.
    pub(crate) other: Option<&'a Table>,
}

impl<'a> RowSource<'a> {
    /// Returns the table of `entity`, and its offset there.
    #[inline]
    fn locate(&self, entity: u32) -> (&'a Table, u32) {
        match (self.other, entity.checked_sub(self.table.entities() as u32)) {
            (Some(other), Some(offset)) => (other, offset),
            _ => (self.table, entity),
        }
    }
}

/// Entities of consecutive rows of a buffer.
#[derive(Clone, Copy)]
enum Entities<'a> {
    Listed(&'a [u32]),
    /// Consecutive entities: the first, and their number.
    From(usize, usize),
}

impl Entities<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Listed(ids) => ids.len(),
            Self::From(_, count) => *count,
        }
    }

    fn get(&self, index: usize) -> u32 {
        match self {
            Self::Listed(ids) => ids[index],
            Self::From(first, _) => (first + index) as u32,
        }
    }
}

/// Rows that pass through all steps together.
#[derive(Clone, Copy)]
struct GatherRun<'a> {
    /// First row in the buffers.
    first: usize,
    entities: Entities<'a>,
    /// First edge, for parameters per edge.
    edge: usize,
}

/// Fills the buffers of one side.
pub(crate) struct Gatherer<'a> {
    pub(crate) rows: &'a mut PreparedRows,
    pub(crate) source: RowSource<'a>,
    pub(crate) look_up: LookUp,
    pub(crate) transform: RowTransform<'a>,
    pub(crate) scratch: &'a mut Vec<f32>,
    pub(crate) evaluators: &'a mut Evaluators,
    pub(crate) products: &'a mut RelationProducts,
}

impl Gatherer<'_> {
    /// Gathers the positives and uniform negatives of a slice. Padding is zero.
    pub(crate) fn slice(&mut self, side: &SideOfSlice<'_>) -> Result<(), StepError> {
        let &SideOfSlice { slice, layout, .. } = side;
        let dimension = self.transform.dimension;
        self.rows.reserve(
            slice.chunks * layout.rows(),
            dimension,
            self.transform.transforms(),
        );
        let at_once = self.transform.rows_at_once(slice.chunk);
        for chunk in 0..slice.chunks {
            let (first, filled) = (layout.first(chunk), slice.filled(chunk));
            let from = chunk * slice.chunk;
            for row in (0..filled).step_by(at_once) {
                let listed = from + row..from + (row + at_once).min(filled);
                self.run(GatherRun {
                    first: first + row,
                    entities: Entities::Listed(&side.positives[listed]),
                    edge: slice.rows.start + from + row,
                })?;
            }
            self.pad(first + filled, first + layout.chunk);
            self.run(GatherRun {
                first: first + layout.chunk,
                entities: Entities::Listed(side.drawn(chunk)),
                edge: slice.rows.start + from,
            })?;
        }
        Ok(())
    }

    /// Gathers consecutive entities of the side's table.
    pub(crate) fn entities(&mut self, entities: Range<usize>) -> Result<(), StepError> {
        let dimension = self.transform.dimension;
        self.rows
            .reserve(entities.len(), dimension, self.transform.transforms());
        self.run(GatherRun {
            first: 0,
            entities: Entities::From(entities.start, entities.len()),
            edge: 0,
        })
    }

    fn pad(&mut self, first: usize, end: usize) {
        let dimension = self.transform.dimension;
        let padding = first * dimension..end * dimension;
        self.rows.values.as_mut_slice()[padding.clone()].fill(0.0);
        if self.transform.transforms() {
            self.rows.input.as_mut_slice()[padding].fill(0.0);
        }
        self.rows.extras[first..end].fill(RowExtras::default());
    }

    fn run(&mut self, run: GatherRun<'_>) -> Result<(), StepError> {
        let dimension = self.transform.dimension;
        let range = run.first * dimension..(run.first + run.entities.len()) * dimension;
        self.look_up(run, range.clone());
        if self.transform.transforms() {
            self.apply_operator(run, range.clone())?;
        }
        let comparison = self.transform.comparison;
        if !comparison.is_plain() {
            let values = &mut self.rows.values.as_mut_slice()[range];
            for (row, extras) in values
                .chunks_exact_mut(dimension)
                .zip(&mut self.rows.extras[run.first..])
            {
                *extras = comparison.prepare(row);
            }
        }
        Ok(())
    }

    fn look_up(&mut self, run: GatherRun<'_>, range: Range<usize>) {
        let source = self.source;
        let target = if self.transform.transforms() {
            &mut self.rows.input
        } else {
            &mut self.rows.values
        };
        for (i, row) in target.as_mut_slice()[range]
            .chunks_exact_mut(self.transform.dimension)
            .enumerate()
        {
            if let Entities::Listed(ids) = run.entities
                && let Some(&ahead) = ids.get(i + ROWS_AHEAD)
                && source.table.features.is_none()
            {
                let (table, offset) = source.locate(ahead);
                table.embeddings.prefetch(offset as usize);
            }
            let (table, offset) = source.locate(run.entities.get(i));
            self.look_up.row(table, offset, row, self.scratch);
            if !self.transform.global.is_empty() {
                vector::add(row, self.transform.global);
            }
        }
    }

    /// Computes `values = f(input)` for the rows of a run, which are `range` of the buffers' floats.
    fn apply_operator(&mut self, run: GatherRun<'_>, range: Range<usize>) -> Result<(), StepError> {
        let RowTransform {
            dimension,
            operator,
            parameters,
            ..
        } = self.transform;
        let width = self.transform.packed_width();
        if let Operator::Traced(formula) = operator {
            let inputs = &self.rows.input.as_slice()[range.clone()];
            let values = &mut self.rows.values.as_mut_slice()[range];
            let given = parameters.given(width, run.edge);
            let evaluator = self.evaluators.get_or_create(formula);
            evaluator.forward(given, inputs, values, dimension);
            return Ok(());
        }
        if let Some(matrices) = self.transform.matrices(run.edge) {
            let inputs = &self.rows.input.as_slice()[range.clone()];
            let values = &mut self.rows.values.as_mut_slice()[range];
            self.products.forward(matrices, inputs, values);
            return Ok(());
        }
        match parameters {
            OperatorParameters::Shared(packed) if self.transform.is_matrix() => {
                return self.multiply(run, packed);
            }
            OperatorParameters::Shared(packed) => {
                let packed = &packed.as_slice()[..width];
                let inputs = self.rows.input.as_slice()[range.clone()].chunks_exact(dimension);
                let values = self.rows.values.as_mut_slice()[range].chunks_exact_mut(dimension);
                for (y, x) in values.zip(inputs) {
                    operators::forward(operator, packed, x, y);
                }
            }
            OperatorParameters::PerEdge(tensors, relations) => {
                self.scratch.resize(width, 0.0);
                let inputs = self.rows.input.as_slice()[range.clone()].chunks_exact(dimension);
                let values = self.rows.values.as_mut_slice()[range].chunks_exact_mut(dimension);
                for ((y, x), &relation) in values.zip(inputs).zip(&relations[run.edge..]) {
                    operators::read_packed(tensors, relation as usize, self.scratch);
                    operators::forward(operator, self.scratch, x, y);
                }
            }
        }
        Ok(())
    }

    /// Applies an operator whose matrix all rows share, and its translation if it has one.
    fn multiply(&mut self, run: GatherRun<'_>, packed: &FloatBuffer) -> Result<(), StepError> {
        let dimension = self.transform.dimension;
        let block = MatrixBlock::one(run.first * dimension, run.entities.len(), dimension);
        let matrix = Factor::transposed(packed, MatrixBlock::one(0, dimension, dimension));
        let inputs = Factor::plain(&self.rows.input, block);
        product(&mut self.rows.values, block, inputs, matrix, false)?;
        if self.transform.operator == Operator::Affine {
            let range = block.offset..block.offset + block.floats();
            let translation = &packed.as_slice()[dimension * dimension..][..dimension];
            for row in self.rows.values.as_mut_slice()[range].chunks_exact_mut(dimension) {
                vector::add(row, translation);
            }
        }
        Ok(())
    }
}
