//! Products of rows with the matrices of their relation types, all rows of a relation type at once.

use pbg_core::model::Operator;
use pbg_gemm::buffer::FloatBuffer;
use pbg_gemm::{OutputMatrix, StridedMatrix, multiply};
use pbg_rows::gradient_rows::GradientRows;
use pbg_rows::params::ParamTensor;
use pbg_rows::vector;

use crate::operators;
use crate::step::plan::BatchPlan;

/// The matrix operator of the rows of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct MatrixOperator<'a> {
    /// `Operator::Linear` or `Operator::Affine`.
    pub(crate) operator: Operator,
    pub(crate) tensors: &'a [ParamTensor],
    /// Relation type of each row.
    pub(crate) relations: &'a [u32],
    pub(crate) dimension: usize,
}

impl MatrixOperator<'_> {
    fn width(&self) -> usize {
        operators::packed_width(self.operator, self.dimension)
    }

    fn is_affine(&self) -> bool {
        self.operator == Operator::Affine
    }
}

/// Buffers in which rows are sorted by relation type.
#[derive(Debug, Default)]
pub(crate) struct RelationProducts {
    /// Indices of the rows, sorted by relation type.
    order: Vec<u32>,
    /// Packed parameters of one relation type.
    packed: Vec<f32>,
    /// The rows of one relation type.
    rows: FloatBuffer,
    /// Their gradients.
    gradients: FloatBuffer,
    /// Products of the rows, or of the gradients, with the matrix.
    products: FloatBuffer,
}

impl RelationProducts {
    /// Computes `outputs = f(inputs)`.
    pub(crate) fn forward(
        &mut self,
        matrices: MatrixOperator<'_>,
        inputs: &[f32],
        outputs: &mut [f32],
    ) {
        let (dimension, width) = (matrices.dimension, matrices.width());
        let Self {
            order,
            packed,
            rows,
            products,
            ..
        } = self;
        packed.resize(width, 0.0);
        for group in groups(order, matrices.relations, inputs.len() / dimension) {
            operators::read_packed(matrices.tensors, group.relation, packed);
            let (matrix, translation) = packed.split_at(dimension * dimension);
            let rows = collect(rows, inputs, group.rows, dimension);
            let products = sized(products, rows.len());
            multiply(
                OutputMatrix::dense(products, dimension),
                [group.rows.len(), dimension, dimension],
                plain(rows, dimension),
                transposed(matrix, dimension),
                false,
            );
            for (product, &row) in products.chunks_exact(dimension).zip(group.rows) {
                let output = &mut outputs[row as usize * dimension..][..dimension];
                output.copy_from_slice(product);
                if matrices.is_affine() {
                    vector::add(output, translation);
                }
            }
        }
    }

    /// Replaces the gradients of `f(inputs)` by those of `inputs`, and adds those of the parameters to `sums`.
    pub(crate) fn backward(
        &mut self,
        matrices: MatrixOperator<'_>,
        inputs: &[f32],
        gradients: &mut [f32],
        sums: &mut GradientRows,
    ) {
        let (dimension, width) = (matrices.dimension, matrices.width());
        self.packed.resize(width, 0.0);
        for group in groups(
            &mut self.order,
            matrices.relations,
            inputs.len() / dimension,
        ) {
            operators::read_packed(matrices.tensors, group.relation, &mut self.packed);
            let matrix = &self.packed[..dimension * dimension];
            let rows = collect(&mut self.rows, inputs, group.rows, dimension);
            let of_rows = collect(&mut self.gradients, gradients, group.rows, dimension);
            let sum = sums.row_mut(group.relation as u32);
            let (matrix_sum, translation_sum) = sum.split_at_mut(dimension * dimension);
            multiply(
                OutputMatrix::dense(matrix_sum, dimension),
                [dimension, group.rows.len(), dimension],
                transposed(of_rows, dimension),
                plain(rows, dimension),
                true,
            );
            if matrices.is_affine() {
                for gradient in of_rows.chunks_exact(dimension) {
                    vector::add(translation_sum, gradient);
                }
            }
            let products = sized(&mut self.products, rows.len());
            multiply(
                OutputMatrix::dense(products, dimension),
                [group.rows.len(), dimension, dimension],
                plain(of_rows, dimension),
                plain(matrix, dimension),
                false,
            );
            for (product, &row) in products.chunks_exact(dimension).zip(group.rows) {
                gradients[row as usize * dimension..][..dimension].copy_from_slice(product);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let buffers = [&self.rows, &self.gradients, &self.products];
        let floats =
            buffers.map(FloatBuffer::floats).iter().sum::<usize>() + self.packed.capacity();
        4 * (floats + self.order.capacity())
    }
}

/// Returns the bytes of a buffer of rows, and those of the parameters and the order, for chunks of `plan`; zeros if it
/// has no matrix per relation type.
pub(super) fn buffer_bytes(plan: &BatchPlan) -> [usize; 2] {
    if !plan.operator.is_matrix() || plan.step.step_spec.relations.is_none() {
        return [0; 2];
    }
    let packed = operators::packed_width(plan.operator, plan.dimension);
    let [rows, parameters] = [
        plan.chunk.saturating_mul(plan.dimension),
        packed.saturating_add(plan.chunk),
    ];
    [rows, parameters].map(|numbers| numbers.saturating_mul(4))
}

/// The rows of one relation type.
struct Group<'a> {
    relation: usize,
    /// Indices of the rows.
    rows: &'a [u32],
}

/// Sorts `count` rows by relation type in `order`, and returns those of each type.
fn groups<'a>(
    order: &'a mut Vec<u32>,
    relations: &'a [u32],
    count: usize,
) -> impl Iterator<Item = Group<'a>> + use<'a> {
    let relations = &relations[..count];
    order.clear();
    // Reserved exactly, so that the buffer takes the announced memory.
    order.reserve_exact(count);
    order.extend(0..count as u32);
    order.sort_unstable_by_key(|&row| (relations[row as usize], row));
    let relation_of = |&row: &u32| relations[row as usize];
    let same = move |a: &u32, b: &u32| relation_of(a) == relation_of(b);
    order.chunk_by(same).map(move |rows| Group {
        relation: relation_of(&rows[0]) as usize,
        rows,
    })
}

/// Copies the rows with the indices `rows` from `source` to `buffer`, one after the other.
fn collect<'a>(
    buffer: &'a mut FloatBuffer,
    source: &[f32],
    rows: &[u32],
    dimension: usize,
) -> &'a [f32] {
    let collected = sized(buffer, rows.len() * dimension);
    for (target, &row) in collected.chunks_exact_mut(dimension).zip(rows) {
        target.copy_from_slice(&source[row as usize * dimension..][..dimension]);
    }
    collected
}

fn sized(buffer: &mut FloatBuffer, floats: usize) -> &mut [f32] {
    buffer.reserve(floats);
    &mut buffer.as_mut_slice()[..floats]
}

/// Returns the matrix whose rows of `columns` floats follow each other in `values`.
fn plain(values: &[f32], columns: usize) -> StridedMatrix<'_> {
    StridedMatrix {
        values,
        row_stride: columns,
        column_stride: 1,
    }
}

/// Returns the transpose of [`plain`].
fn transposed(values: &[f32], columns: usize) -> StridedMatrix<'_> {
    StridedMatrix {
        values,
        row_stride: 1,
        column_stride: columns,
    }
}
