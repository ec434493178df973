//! One side of a slice: its rows gathered, transformed and prepared, and their gradients.

use std::ops::Range;

use pbg_core::graph::Side;
use pbg_core::model::Operator;
use tch::TchError;

use crate::accumulate::ROWS_AHEAD;
use crate::buffer::FloatBuffer;
use crate::comparators::{Comparison, RowExtras};
use crate::matmul::{Block, Factor, product};
use crate::operators;
use crate::params::ParamTensor;
use crate::regularizer::N3;
use crate::rows::HalfBuffer;
use crate::step::plan::Slice;
use crate::table::Table;
use crate::vector;

/// Rows ready for comparison, and what is needed to go back from their gradients.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Prepared rows.
    pub(crate) values: FloatBuffer,
    /// The same in bf16; only kept where products want it.
    pub(crate) half: HalfBuffer,
    /// Rows before the operator; only kept where one is applied.
    pub(crate) input: FloatBuffer,
    /// What preparing took out of each row.
    pub(crate) extras: Vec<RowExtras>,
}

/// Gradients of rows.
#[derive(Debug)]
pub(crate) struct Gradients {
    /// With respect to the prepared rows.
    pub(crate) values: FloatBuffer,
    /// With respect to the biases.
    pub(crate) bias: Vec<f32>,
    /// For distances: sums of the factors with which a row itself is subtracted.
    pub(crate) pull: Vec<f32>,
    /// Whether `values` holds this slice's gradients yet.
    pub(crate) started: bool,
}

impl Rows {
    pub(crate) fn new() -> Result<Self, TchError> {
        Ok(Self {
            values: FloatBuffer::zeros(0),
            half: HalfBuffer::zeros(0)?,
            input: FloatBuffer::zeros(0),
            extras: Vec::new(),
        })
    }

    pub(crate) fn reserve(
        &mut self,
        rows: usize,
        dimension: usize,
        input: bool,
    ) -> Result<(), TchError> {
        self.values.reserve(rows * dimension);
        if input {
            self.input.reserve(rows * dimension);
        }
        if self.extras.len() < rows {
            // Exactly, so that the memory is what was announced.
            self.extras.reserve_exact(rows - self.extras.len());
            self.extras.resize(rows, RowExtras::default());
        }
        Ok(())
    }

    /// Keeps the first `floats` of the prepared rows in bf16 too.
    pub(crate) fn round(&mut self, floats: usize) -> Result<(), TchError> {
        self.half.reserve(floats)?;
        self.half.load(&self.values.as_slice()[..floats]);
        Ok(())
    }

    /// Row `row` as prepared.
    #[inline]
    pub(crate) fn row(&self, row: usize, dimension: usize) -> &[f32] {
        &self.values.as_slice()[row * dimension..(row + 1) * dimension]
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.values.len() + self.input.len())
            + 2 * self.half.len()
            + size_of::<RowExtras>() * self.extras.capacity()
    }
}

impl Gradients {
    pub(crate) fn new() -> Result<Self, TchError> {
        Ok(Self {
            values: FloatBuffer::zeros(0),
            bias: Vec::new(),
            pull: Vec::new(),
            started: false,
        })
    }

    /// Room for `rows` rows, none of which has a gradient yet.
    pub(crate) fn start(&mut self, rows: usize, dimension: usize) -> Result<(), TchError> {
        self.values.reserve(rows * dimension);
        for sums in [&mut self.bias, &mut self.pull] {
            sums.clear();
            sums.reserve_exact(rows);
            sums.resize(rows, 0.0);
        }
        self.started = false;
        Ok(())
    }

    /// Takes the first `floats` of `half`, or adds them to what is there.
    pub(crate) fn receive(&mut self, half: &HalfBuffer, floats: usize) {
        let values = &mut self.values.as_mut_slice()[..floats];
        if self.started {
            half.add_to(values);
        } else {
            half.store(values);
        }
    }

    /// Adds `factor * values` to row `row`, or writes it if no row has a gradient yet; then every row needs
    /// one before [`Gradients::finish`].
    #[inline]
    pub(crate) fn add_scaled(&mut self, row: usize, factor: f32, values: &[f32]) {
        let width = values.len();
        let row = &mut self.values.as_mut_slice()[row * width..(row + 1) * width];
        match self.started {
            true => vector::axpy(row, factor, values),
            false => vector::scaled(row, factor, values),
        }
    }

    /// After all rows but `padding` were written: now all have a gradient.
    pub(crate) fn finish(&mut self, padding: Range<usize>, dimension: usize) {
        if !self.started {
            self.values.as_mut_slice()[padding.start * dimension..padding.end * dimension]
                .fill(0.0);
            self.started = true;
        }
    }

    /// Makes `values` valid: zero, unless a product has written them.
    pub(crate) fn ensure(&mut self, rows: usize, dimension: usize) {
        if !self.started {
            self.values.as_mut_slice()[..rows * dimension].fill(0.0);
            self.started = true;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.values.len() + self.bias.capacity() + self.pull.capacity())
    }
}

/// What is applied to embeddings on the way from the table to the comparison.
#[derive(Clone, Copy)]
pub(crate) struct Transform<'a> {
    pub(crate) dimension: usize,
    pub(crate) comparison: Comparison,
    pub(crate) max_norm: Option<f32>,
    /// Global embedding, or empty.
    pub(crate) global: &'a [f32],
    /// `Operator::None` on the side that is compared as it is.
    pub(crate) operator: Operator,
    pub(crate) parameters: Parameters<'a>,
    /// What is added to the loss for every positive, prepared.
    pub(crate) regularizer: Option<N3>,
}

/// Parameters of an operator for the rows of a slice.
#[derive(Clone, Copy)]
pub(crate) enum Parameters<'a> {
    /// The same packed row for all: static relations.
    Shared(&'a FloatBuffer),
    /// A row of the tensors per edge: dynamic relations. Only positives pass through the operator.
    PerEdge(&'a [ParamTensor], &'a [u32]),
}

impl Transform<'_> {
    pub(crate) fn transforms(&self) -> bool {
        self.operator != Operator::None
    }

    fn is_matrix(&self) -> bool {
        matches!(self.operator, Operator::Linear | Operator::Affine)
    }

    /// Rows of a chunk that go through all that is done to them together, so that they stay in the cache. A matrix
    /// operator multiplies all at once.
    pub(crate) fn rows_at_once(&self, chunk: usize) -> usize {
        const FLOATS: usize = 16 << 10;
        match self.is_matrix() {
            true => chunk,
            false => (FLOATS / self.dimension).max(1),
        }
    }
}

/// Where in a slice's buffers the positives and the uniform negatives of a chunk are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Positives per chunk.
    pub(crate) chunk: usize,
    /// Uniform negatives per chunk.
    pub(crate) uniform: usize,
}

impl Layout {
    /// Rows per chunk.
    pub(crate) fn rows(&self) -> usize {
        self.chunk + self.uniform
    }

    /// First row of chunk `chunk`.
    pub(crate) fn first(&self, chunk: usize) -> usize {
        chunk * self.rows()
    }
}

/// Where the rows of one side are: offsets beyond the side's own table count on into the other one.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) own: &'a Table,
    pub(crate) beyond: Option<&'a Table>,
}

impl<'a> Source<'a> {
    fn only(own: &'a Table) -> Self {
        Self { own, beyond: None }
    }

    /// The table of `entity`, and its offset there.
    #[inline]
    fn locate(&self, entity: u32) -> (&'a Table, u32) {
        match (self.beyond, entity.checked_sub(self.own.entities() as u32)) {
            (Some(beyond), Some(offset)) => (beyond, offset),
            _ => (self.own, entity),
        }
    }
}

/// Entities of one side of a slice.
#[derive(Clone, Copy)]
pub(crate) struct SliceEntities<'a> {
    /// Its positives, without padding.
    pub(crate) positives: &'a [u32],
    /// The uniform negatives of its chunks.
    pub(crate) draws: &'a [u32],
}

/// Gathers, transforms and prepares the positives and uniform negatives of one side of a slice.
///
/// Padding is zero.
pub(crate) fn fill(
    rows: &mut Rows,
    layout: Layout,
    slice: &Slice,
    source: Source<'_>,
    entities: SliceEntities<'_>,
    transform: &Transform<'_>,
    scratch: &mut Vec<f32>,
) -> Result<(), TchError> {
    rows.reserve(
        slice.chunks * layout.rows(),
        transform.dimension,
        transform.transforms(),
    )?;
    let at_once = transform.rows_at_once(slice.chunk);
    for chunk in 0..slice.chunks {
        let (first, filled) = (layout.first(chunk), slice.filled(chunk));
        let from = chunk * slice.chunk;
        for row in (0..filled).step_by(at_once) {
            let listed = from + row..from + (row + at_once).min(filled);
            fill_block(
                rows,
                first + row,
                Entities::Listed(&entities.positives[listed]),
                slice.rows.start + from + row,
                source,
                transform,
                scratch,
            )?;
        }
        let padding =
            (first + filled) * transform.dimension..(first + layout.chunk) * transform.dimension;
        rows.values.as_mut_slice()[padding.clone()].fill(0.0);
        if transform.transforms() {
            rows.input.as_mut_slice()[padding].fill(0.0);
        }
        rows.extras[first + filled..first + layout.chunk].fill(RowExtras::default());
        let drawn = &entities.draws[chunk * layout.uniform..(chunk + 1) * layout.uniform];
        fill_block(
            rows,
            first + layout.chunk,
            Entities::Listed(drawn),
            slice.rows.start + from,
            source,
            transform,
            scratch,
        )?;
    }
    Ok(())
}

/// Gathers, transforms and prepares every entity of a table.
pub(crate) fn fill_all(
    rows: &mut Rows,
    table: &Table,
    transform: &Transform<'_>,
    scratch: &mut Vec<f32>,
) -> Result<(), TchError> {
    let entities = table.entities();
    rows.reserve(entities, transform.dimension, transform.transforms())?;
    fill_block(
        rows,
        0,
        Entities::First(entities),
        0,
        Source::only(table),
        transform,
        scratch,
    )
}

/// Entities of consecutive rows.
#[derive(Clone, Copy)]
enum Entities<'a> {
    Listed(&'a [u32]),
    First(usize),
}

impl Entities<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Listed(ids) => ids.len(),
            Self::First(n) => *n,
        }
    }

    fn get(&self, index: usize) -> u32 {
        match self {
            Self::Listed(ids) => ids[index],
            Self::First(_) => index as u32,
        }
    }
}

fn fill_block(
    rows: &mut Rows,
    first: usize,
    entities: Entities<'_>,
    edge: usize,
    source: Source<'_>,
    transform: &Transform<'_>,
    scratch: &mut Vec<f32>,
) -> Result<(), TchError> {
    let (dimension, count) = (transform.dimension, entities.len());
    let range = first * dimension..(first + count) * dimension;
    let target = if transform.transforms() {
        &mut rows.input
    } else {
        &mut rows.values
    };
    for (i, row) in target.as_mut_slice()[range.clone()]
        .chunks_exact_mut(dimension)
        .enumerate()
    {
        if let Entities::Listed(ids) = entities
            && let Some(&ahead) = ids.get(i + ROWS_AHEAD)
            && source.own.features.is_none()
        {
            let (table, offset) = source.locate(ahead);
            table.embeddings.prefetch(offset as usize);
        }
        let (table, offset) = source.locate(entities.get(i));
        look_up(table, offset, transform.max_norm, true, row, scratch);
        if !transform.global.is_empty() {
            vector::add(row, transform.global);
        }
    }
    if transform.transforms() {
        apply_operator(rows, first, count, edge, transform, scratch)?;
    }
    if !transform.comparison.is_plain() {
        let values = &mut rows.values.as_mut_slice()[range];
        for (row, extras) in values
            .chunks_exact_mut(dimension)
            .zip(&mut rows.extras[first..])
        {
            *extras = transform.comparison.prepare(row);
        }
    }
    Ok(())
}

/// The embedding of one entity. With `renorm` a row that is too long is scaled down in the table too.
#[inline]
pub(crate) fn look_up(
    table: &Table,
    entity: u32,
    max_norm: Option<f32>,
    renorm: bool,
    out: &mut [f32],
    scratch: &mut Vec<f32>,
) {
    let Some(features) = &table.features else {
        return read_renormed(table, entity as usize, max_norm, renorm, out);
    };
    out.fill(0.0);
    let ids = features.of(entity);
    scratch.resize(out.len(), 0.0);
    for &id in ids {
        read_renormed(table, id as usize, max_norm, renorm, scratch);
        vector::axpy(out, 1.0 / ids.len() as f32, scratch);
    }
}

#[inline]
fn read_renormed(table: &Table, row: usize, max_norm: Option<f32>, renorm: bool, out: &mut [f32]) {
    table.embeddings.read_row(row, out);
    if let Some(max) = max_norm {
        let norm = vector::dot(out, out).sqrt();
        if norm > max {
            // As torch does, so that rounding does not leave the row a little too long.
            vector::scale(out, max / (norm + 1e-7));
            if renorm {
                table.embeddings.write_row(row, out);
            }
        }
    }
}

/// `values = f(input)` for rows `first..first + count`.
fn apply_operator(
    rows: &mut Rows,
    first: usize,
    count: usize,
    edge: usize,
    transform: &Transform<'_>,
    scratch: &mut Vec<f32>,
) -> Result<(), TchError> {
    let dimension = transform.dimension;
    let range = first * dimension..(first + count) * dimension;
    match transform.parameters {
        Parameters::Shared(packed) if transform.is_matrix() => {
            let block = Block::one(first * dimension, count, dimension);
            let matrix = Factor::transposed(packed, Block::one(0, dimension, dimension));
            product(
                &mut rows.values,
                block,
                Factor::plain(&rows.input, block),
                matrix,
                false,
            )?;
            if transform.operator == Operator::Affine {
                for row in rows.values.as_mut_slice()[range].chunks_exact_mut(dimension) {
                    vector::add(row, &packed.as_slice()[dimension * dimension..]);
                }
            }
        }
        Parameters::Shared(packed) => {
            let packed =
                &packed.as_slice()[..operators::packed_width(transform.operator, dimension)];
            let values = rows.values.as_mut_slice()[range.clone()].chunks_exact_mut(dimension);
            for (y, x) in values.zip(rows.input.as_slice()[range].chunks_exact(dimension)) {
                operators::forward(transform.operator, packed, x, y);
            }
        }
        Parameters::PerEdge(tensors, relations) => {
            scratch.resize(operators::packed_width(transform.operator, dimension), 0.0);
            let values = rows.values.as_mut_slice()[range.clone()].chunks_exact_mut(dimension);
            let inputs = rows.input.as_slice()[range].chunks_exact(dimension);
            for ((y, x), &relation) in values.zip(inputs).zip(&relations[edge..]) {
                operators::read_packed(tensors, relation as usize, scratch);
                operators::forward(transform.operator, scratch, x, y);
            }
        }
    }
    Ok(())
}

/// Buffers of one side.
#[derive(Debug)]
pub(crate) struct SideBuffers {
    /// Positives and uniform negatives of a slice, chunk by chunk.
    pub(crate) rows: Rows,
    /// Gradients of the slice's positives.
    pub(crate) positives: Gradients,
    /// Gradients of the slice's candidates.
    pub(crate) candidates: Gradients,
    /// With all negatives: every entity, and its gradients over the whole batch.
    pub(crate) all: Rows,
    pub(crate) all_gradients: Gradients,
}

impl SideBuffers {
    pub(crate) fn new() -> Result<Self, TchError> {
        Ok(Self {
            rows: Rows::new()?,
            positives: Gradients::new()?,
            candidates: Gradients::new()?,
            all: Rows::new()?,
            all_gradients: Gradients::new()?,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
            + self.all.bytes()
            + [&self.positives, &self.candidates, &self.all_gradients]
                .map(Gradients::bytes)
                .iter()
                .sum::<usize>()
    }
}

/// The two sides as (this one, the other one).
pub(crate) fn pair<T>(both: &mut [T; 2], side: Side) -> (&mut T, &mut T) {
    let [lhs, rhs] = both;
    match side {
        Side::Lhs => (lhs, rhs),
        Side::Rhs => (rhs, lhs),
    }
}
