//! From gradients of prepared rows back to the rows of tables and the parameters.

use pbg_core::model::Operator;
use tch::TchError;

use crate::accumulate::{GradientRows, ROWS_AHEAD};
use crate::buffer::FloatBuffer;
use crate::comparators::RowExtras;
use crate::matmul::{Block, Factor, product};
use crate::operators;
use crate::regularizer::N3;
use crate::step::plan::Slice;
use crate::step::side::{
    Gradients, Layout, Parameters, Rows, SideBuffers, SliceEntities, Transform,
};
use crate::table::Table;
use crate::vector;

/// Where gradients of one side end.
pub(crate) struct Sink<'a> {
    /// Sums per table row.
    pub(crate) rows: &'a mut GradientRows,
    /// Sums of the other side's table, where offsets count on into it.
    pub(crate) beyond: Option<&'a mut GradientRows>,
    pub(crate) table: &'a Table,
    /// Sum for the global embedding, or empty.
    pub(crate) global: &'a mut [f32],
    pub(crate) operator: &'a mut OperatorGradients,
}

impl Sink<'_> {
    /// The sums that `entity` belongs to, and its row there.
    #[inline]
    fn locate(&mut self, entity: u32) -> (&mut GradientRows, u32) {
        match (
            &mut self.beyond,
            entity.checked_sub(self.table.entities() as u32),
        ) {
            (Some(beyond), Some(row)) => (beyond, row),
            _ => (self.rows, entity),
        }
    }
}

/// Sums for an operator's parameters.
#[derive(Debug)]
pub(crate) struct OperatorGradients {
    /// Static relations: the packed gradient of the batch's relation.
    pub(crate) shared: FloatBuffer,
    /// Dynamic relations: a packed gradient per relation.
    pub(crate) per_edge: GradientRows,
    /// Gradients of a block's rows before a matrix operator.
    block: FloatBuffer,
    packed: Vec<f32>,
    row: Vec<f32>,
}

impl OperatorGradients {
    pub(crate) fn new() -> Result<Self, TchError> {
        Ok(Self {
            shared: FloatBuffer::zeros(0),
            per_edge: GradientRows::default(),
            block: FloatBuffer::zeros(0),
            packed: Vec::new(),
            row: Vec::new(),
        })
    }

    /// Zero for `edges` edges, an operator with `width` packed parameters and, with dynamic relations,
    /// `relations`.
    pub(crate) fn reset(
        &mut self,
        width: usize,
        relations: Option<usize>,
        edges: usize,
    ) -> Result<(), TchError> {
        match relations {
            Some(relations) => self.per_edge.reset(relations, width, edges),
            None => {
                self.shared.reserve(width);
                self.shared.as_mut_slice()[..width].fill(0.0);
            }
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.shared.len() + self.block.len()) + self.per_edge.bytes()
    }
}

/// Rows whose gradients go back together.
struct Group<'a> {
    /// First row within the prepared rows.
    first: usize,
    /// First row within the gradients.
    from: usize,
    /// How many.
    count: usize,
    /// Their entities; none: row `i` is entity `i`.
    entities: Option<&'a [u32]>,
    /// First edge, for parameters per edge.
    edge: usize,
}

/// Adds N3 of a slice's positives to their gradients, sends these and the gradients of sampled candidates to their
/// sums, and returns the regulariser's value.
pub(crate) fn slice(
    buffers: &mut SideBuffers,
    layout: Layout,
    slice: &Slice,
    own: bool,
    entities: SliceEntities<'_>,
    transform: &Transform<'_>,
    sink: &mut Sink<'_>,
) -> Result<f64, TchError> {
    let dimension = transform.dimension;
    let own = own && buffers.candidates.started;
    if own {
        add_own(buffers, layout, slice, dimension);
    }
    if transform.regularizer.is_some() {
        buffers.positives.ensure(slice.padded(), dimension);
    }
    let mut regularizer = 0.0;
    if buffers.positives.started {
        for group in positives(layout, slice, entities, transform) {
            if let Some(n3) = transform.regularizer {
                regularizer += regularize(n3, buffers, &group, transform);
            }
            back(
                &buffers.rows,
                &mut buffers.positives,
                &group,
                transform,
                sink,
            )?;
        }
    }
    if buffers.candidates.started && layout.uniform > 0 {
        let skipped = if own { layout.chunk } else { 0 };
        for chunk in 0..slice.chunks {
            let drawn = chunk * layout.uniform..(chunk + 1) * layout.uniform;
            let group = Group {
                first: layout.first(chunk) + layout.chunk,
                from: chunk * (skipped + layout.uniform) + skipped,
                count: layout.uniform,
                entities: Some(&entities.draws[drawn]),
                edge: 0,
            };
            back(
                &buffers.rows,
                &mut buffers.candidates,
                &group,
                transform,
                sink,
            )?;
        }
    }
    Ok(regularizer)
}

/// The positives of a slice, chunk by chunk, as many at a time as are to go back together.
fn positives<'a>(
    layout: Layout,
    slice: &'a Slice,
    entities: SliceEntities<'a>,
    transform: &Transform<'_>,
) -> impl Iterator<Item = Group<'a>> + use<'a> {
    let at_once = transform.rows_at_once(slice.chunk);
    (0..slice.chunks).flat_map(move |chunk| {
        let filled = slice.filled(chunk);
        (0..filled).step_by(at_once).map(move |row| {
            let (from, count) = (chunk * slice.chunk + row, at_once.min(filled - row));
            Group {
                first: layout.first(chunk) + row,
                from,
                count,
                entities: Some(&entities.positives[from..from + count]),
                edge: slice.rows.start + from,
            }
        })
    })
}

/// Adds N3 of some positives to their gradients and returns its value.
fn regularize(
    n3: N3,
    buffers: &mut SideBuffers,
    group: &Group<'_>,
    transform: &Transform<'_>,
) -> f64 {
    let dimension = transform.dimension;
    let mut value = 0.0;
    for i in 0..group.count {
        let (row, from) = (group.from + i, group.first + i);
        let gradient =
            &mut buffers.positives.values.as_mut_slice()[row * dimension..(row + 1) * dimension];
        let range = from * dimension..(from + 1) * dimension;
        let prepared = &mut buffers.rows.values.as_mut_slice()[range];
        // A bias counts like any coordinate; while rows are compared a zero is in its place.
        if transform.comparison.bias {
            prepared[0] = buffers.rows.extras[from].bias;
        }
        value += n3.add(prepared, gradient);
        if transform.comparison.bias {
            prepared[0] = 0.0;
        }
    }
    value
}

/// Sends the gradients of all entities to their sums, at the end of a batch.
pub(crate) fn all(
    buffers: &mut SideBuffers,
    entities: usize,
    transform: &Transform<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), TchError> {
    if !buffers.all_gradients.started {
        return Ok(());
    }
    let group = Group {
        first: 0,
        from: 0,
        count: entities,
        entities: None,
        edge: 0,
    };
    back(
        &buffers.all,
        &mut buffers.all_gradients,
        &group,
        transform,
        sink,
    )
}

/// Positives that were also candidates have gradients in two places: joins them.
fn add_own(buffers: &mut SideBuffers, layout: Layout, slice: &Slice, dimension: usize) {
    let columns = layout.rows();
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
    for (target, source) in target.zip(source).take(slice.chunks) {
        let source = &source[..slice.chunk * dimension];
        if started {
            vector::add(target, source);
        } else {
            target.copy_from_slice(source);
        }
    }
    positives.started = true;
    for row in 0..slice.rows.len() {
        let from = (row / slice.chunk) * columns + row % slice.chunk;
        positives.bias[row] += buffers.candidates.bias[from];
        positives.pull[row] += buffers.candidates.pull[from];
    }
}

/// Sends `count` gradients from `from` on back through comparison, operator and look-up.
fn back(
    rows: &Rows,
    gradients: &mut Gradients,
    group: &Group<'_>,
    transform: &Transform<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), TchError> {
    let &Group {
        first, from, count, ..
    } = group;
    let dimension = transform.dimension;
    if !transform.comparison.is_plain() {
        let values =
            &mut gradients.values.as_mut_slice()[from * dimension..(from + count) * dimension];
        for (i, gradient) in values.chunks_exact_mut(dimension).enumerate() {
            let prepared = rows.row(first + i, dimension);
            let extras: RowExtras = rows.extras[first + i];
            if transform.comparison.is_distance() {
                vector::axpy(gradient, -gradients.pull[from + i], prepared);
            }
            transform
                .comparison
                .unprepare(prepared, extras, gradient, gradients.bias[from + i]);
        }
    }
    if transform.transforms() {
        back_operator(rows, &mut gradients.values, group, transform, sink.operator)?;
    }
    let values = &gradients.values.as_slice()[from * dimension..(from + count) * dimension];
    for (i, gradient) in values.chunks_exact(dimension).enumerate() {
        if !sink.global.is_empty() {
            vector::add(sink.global, gradient);
        }
        if let Some(&ahead) = group
            .entities
            .and_then(|entities| entities.get(i + ROWS_AHEAD))
            && sink.table.features.is_none()
        {
            let (sums, row) = sink.locate(ahead);
            sums.prefetch(row);
        }
        let entity = group.entities.map_or(i as u32, |entities| entities[i]);
        match &sink.table.features {
            None => {
                let (sums, row) = sink.locate(entity);
                sums.add(row, gradient);
            }
            Some(features) => {
                let ids = features.of(entity);
                ids.iter()
                    .for_each(|&id| sink.rows.add_scaled(id, 1.0 / ids.len() as f32, gradient));
            }
        }
    }
    Ok(())
}

/// Gradients of `y = f(x)` become those of `x`; those of the parameters are summed.
fn back_operator(
    rows: &Rows,
    gradients: &mut FloatBuffer,
    group: &Group<'_>,
    transform: &Transform<'_>,
    sums: &mut OperatorGradients,
) -> Result<(), TchError> {
    let &Group {
        first, from, count, ..
    } = group;
    let (dimension, operator) = (transform.dimension, transform.operator);
    let width = operators::packed_width(operator, dimension);
    let inputs = &rows.input.as_slice()[first * dimension..(first + count) * dimension];
    let range = from * dimension..(from + count) * dimension;
    sums.row.resize(dimension, 0.0);
    match transform.parameters {
        Parameters::Shared(packed) if matches!(operator, Operator::Linear | Operator::Affine) => {
            return back_matrix(rows, gradients, group, packed, transform, sums);
        }
        Parameters::Shared(packed) => {
            let packed = &packed.as_slice()[..width];
            let sum = &mut sums.shared.as_mut_slice()[..width];
            for (g, x) in gradients.as_mut_slice()[range]
                .chunks_exact_mut(dimension)
                .zip(inputs.chunks_exact(dimension))
            {
                operators::backward(operator, packed, x, g, sum, &mut sums.row);
            }
        }
        Parameters::PerEdge(tensors, relations) => {
            sums.packed.resize(width, 0.0);
            let gradients = gradients.as_mut_slice()[range].chunks_exact_mut(dimension);
            for ((g, x), &relation) in gradients
                .zip(inputs.chunks_exact(dimension))
                .zip(&relations[group.edge..])
            {
                operators::read_packed(tensors, relation as usize, &mut sums.packed);
                let sum = sums.per_edge.row_mut(relation);
                operators::backward(operator, &sums.packed, x, g, sum, &mut sums.row);
            }
        }
    }
    Ok(())
}

/// The same for a matrix shared by all rows, with matrix products.
fn back_matrix(
    rows: &Rows,
    gradients: &mut FloatBuffer,
    group: &Group<'_>,
    packed: &FloatBuffer,
    transform: &Transform<'_>,
    sums: &mut OperatorGradients,
) -> Result<(), TchError> {
    let &Group {
        first, from, count, ..
    } = group;
    let dimension = transform.dimension;
    let matrix = Block::one(0, dimension, dimension);
    let outer = Block::one(from * dimension, count, dimension);
    let inputs = Block::one(first * dimension, count, dimension);
    let outer_factor = Factor::transposed(gradients, outer);
    product(
        &mut sums.shared,
        matrix,
        outer_factor,
        Factor::plain(&rows.input, inputs),
        true,
    )?;
    let range = from * dimension..(from + count) * dimension;
    let translation = &mut sums.shared.as_mut_slice()[dimension * dimension..];
    if transform.operator == Operator::Affine {
        for g in gradients.as_slice()[range.clone()].chunks_exact(dimension) {
            vector::add(&mut translation[..dimension], g);
        }
    }
    sums.block.reserve(count * dimension);
    let inner = Block::one(0, count, dimension);
    product(
        &mut sums.block,
        inner,
        Factor::plain(gradients, outer),
        Factor::plain(packed, matrix),
        false,
    )?;
    gradients.as_mut_slice()[range].copy_from_slice(&sums.block.as_slice()[..count * dimension]);
    Ok(())
}
