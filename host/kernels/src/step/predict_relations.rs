//! Relation prediction as an additional term of the loss (Chen, Minervini, Riedel, Stenetorp: "Relation Prediction as
//! an Auxiliary Training Objective for Improving Multi-Relational Graph Representations", 2021, section 3).
//!
//! Each direction of dynamic relations is a separate model with its own operators, and has its own term: the
//! cross-entropy of the edge's relation type among all relation types of both directions, each scored by its operator
//! between the two entities. So an operator learns that its relation does not hold in the other direction, which is how
//! the paper trains reciprocal relations.
//!
//! An inner product after an element-wise operator is linear in the operator's parameters. So each pair of entities is
//! represented by one row, and the scores of all relation types are one matrix product of these rows with the
//! parameters.

use std::ops::Range;

use pbg_core::model::Operator;
use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::params::ParamTensor;
use pbg_rows::vector;

use crate::error::StepError;
use crate::losses::maths;
use crate::matmul::{Factor, MatrixBlock, product};
use crate::operators;
use crate::step::operator_gradients::OperatorGradients;

/// Buffers for relation prediction, which a worker reuses.
#[derive(Debug, Default)]
pub(crate) struct RelationBuffers {
    /// Parameters of all relation types, `[2 * relations, width]`, as of the start of the pass: those of the pass's
    /// operators, then those of the other direction.
    parameters: FloatBuffer,
    /// Gradients of the parameters, summed over the slices of a pass.
    gradients: FloatBuffer,
    /// A row for each edge of a slice, `[edges, width]`; its inner product with a relation type's parameters is the
    /// score.
    pub(super) features: FloatBuffer,
    pub(super) feature_gradients: FloatBuffer,
    /// Scores, `[edges, 2 * relations]`, which are replaced by their gradients.
    scores: FloatBuffer,
    /// Number of relation types of one direction.
    relations: usize,
    width: usize,
}

/// The relation types of edges, and the weights of their losses.
pub(super) struct RelationTargets<'a> {
    pub(super) relations: &'a [u32],
    /// Weight of each edge; `None` if every weight is 1.
    pub(super) weights: Option<&'a [f32]>,
    /// Weight of all edges.
    pub(super) weight: f32,
}

impl RelationBuffers {
    pub(super) fn bytes(&self) -> usize {
        let all = [
            &self.parameters,
            &self.gradients,
            &self.features,
            &self.feature_gradients,
            &self.scores,
        ];
        all.iter().map(|buffer| 4 * buffer.floats()).sum()
    }

    /// Copies the parameters of `relations` relation types, first those of the pass's direction, then those of the
    /// other one, and sets the gradients to zero.
    pub(super) fn begin(&mut self, directions: [&[ParamTensor]; 2], relations: usize) {
        self.relations = relations;
        self.width = directions[0].iter().map(|t| t.values.width()).sum();
        let floats = self.classes() * self.width;
        self.parameters.reserve(floats);
        self.gradients.reserve(floats);
        let mut rows = self.parameters.as_mut_slice()[..floats].chunks_exact_mut(self.width.max(1));
        for tensors in directions {
            for (relation, row) in rows.by_ref().take(relations).enumerate() {
                operators::read_packed(tensors, relation, row);
            }
        }
        self.gradients.as_mut_slice()[..floats].fill(0.0);
    }

    /// Returns the number of classes among which a relation type is predicted.
    fn classes(&self) -> usize {
        2 * self.relations
    }

    /// Makes room for `edges` edges, whose rows the caller fills.
    pub(super) fn reserve(&mut self, edges: usize) {
        self.features.reserve(edges * self.width);
        self.feature_gradients.reserve(edges * self.width);
        self.scores.reserve(edges * self.classes());
    }

    /// Returns the range of the numbers of row `row`.
    pub(super) fn row(&self, row: usize) -> Range<usize> {
        row * self.width..(row + 1) * self.width
    }

    /// Computes the scores, the loss, and the gradients of rows and parameters. Returns the weighted loss.
    pub(super) fn differentiate(
        &mut self,
        targets: &RelationTargets<'_>,
    ) -> Result<f64, StepError> {
        let edges = targets.relations.len();
        let of_edges = MatrixBlock::one(0, edges, self.width);
        let of_relations = MatrixBlock::one(0, self.classes(), self.width);
        let of_scores = MatrixBlock::one(0, edges, self.classes());
        let Self {
            parameters,
            gradients,
            features,
            feature_gradients,
            scores,
            ..
        } = self;
        product(
            scores,
            of_scores,
            Factor::plain(features, of_edges),
            Factor::transposed(parameters, of_relations),
            false,
        )?;
        let loss = targets.cross_entropy(&mut scores.as_mut_slice()[..of_scores.floats()]);
        product(
            feature_gradients,
            of_edges,
            Factor::plain(scores, of_scores),
            Factor::plain(parameters, of_relations),
            false,
        )?;
        product(
            gradients,
            of_relations,
            Factor::transposed(scores, of_scores),
            Factor::plain(features, of_edges),
            true,
        )?;
        Ok(loss)
    }

    /// Adds the gradients of the pass to the sums of the operators, in the order of [`RelationBuffers::begin`].
    pub(super) fn finish(&self, directions: [&mut OperatorGradients; 2]) {
        let floats = self.classes() * self.width;
        let mut rows = self.gradients.as_slice()[..floats].chunks_exact(self.width.max(1));
        for sums in directions {
            for (relation, gradient) in (0..).zip(rows.by_ref().take(self.relations)) {
                vector::add(sums.per_edge.row_mut(relation), gradient);
            }
        }
    }
}

impl RelationTargets<'_> {
    /// Replaces the scores of edges with all relation types by their gradients. Returns the weighted loss.
    fn cross_entropy(&self, scores: &mut [f32]) -> f64 {
        let mut total = 0.0;
        let columns = (scores.len() / self.relations.len().max(1)).max(1);
        for (edge, row) in scores.chunks_exact_mut(columns).enumerate() {
            let weight = self.weight * self.weights.map_or(1.0, |weights| weights[edge]);
            let target = self.relations[edge] as usize;
            let (score, most) = (row[target], vector::max(row));
            let sum = maths::exp_in_place(row, most);
            vector::scale(row, weight / sum);
            row[target] -= weight;
            total += f64::from(weight) * f64::from(sum.ln() + most - score);
        }
        total
    }
}

/// Computes the row of two entities: `x` passes through the operator, and the result is compared with `y`. A part of
/// the score that is the same for all relation types is omitted, since the softmax does not depend on it. `scratch` is
/// as long as a row.
pub(super) fn feature(
    operator: Operator,
    x: &[f32],
    y: &[f32],
    out: &mut [f32],
    scratch: &mut [f32],
) {
    match operator {
        Operator::Translation => out.copy_from_slice(y),
        Operator::ComplexDiagonal => {
            conjugate(x, scratch);
            vector::complex_multiply(out, scratch, y);
        }
        _ => vector::multiply(out, x, y),
    }
}

/// Replaces the gradient of the row by that of `x`, and adds that of `y` to `y_gradient`.
pub(super) fn feature_backward(
    operator: Operator,
    [x, y]: [&[f32]; 2],
    gradient: &mut [f32],
    y_gradient: &mut [f32],
    scratch: &mut [f32],
) {
    match operator {
        Operator::Translation => {
            vector::add(y_gradient, gradient);
            gradient.fill(0.0);
        }
        Operator::ComplexDiagonal => {
            conjugate(x, scratch);
            vector::complex_multiply_back(gradient, scratch, y, y_gradient);
            let half = gradient.len() / 2;
            vector::scale(&mut gradient[half..], -1.0);
        }
        _ => vector::multiply_back(gradient, x, y, y_gradient),
    }
}

fn conjugate(x: &[f32], out: &mut [f32]) {
    out.copy_from_slice(x);
    let half = x.len() / 2;
    vector::scale(&mut out[half..], -1.0);
}
