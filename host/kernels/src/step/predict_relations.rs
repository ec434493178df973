//! Predicting the relation of two entities as a further term of the loss (Chen, Minervini, Riedel, Stenetorp: "Relation
//! Prediction as an Auxiliary Training Objective for Improving Multi-Relational Graph Representations", 2021, section 3).
//!
//! Either direction of dynamic relations is a model of its own, with operators of its own, and has a term of its own: cross
//! entropy of the edge's relation among all relations of both directions, each scored by its operator between the two
//! entities. So an operator learns that its relation does not hold the other way round, which is how the paper's
//! reciprocal relations are trained. An inner product after an operator that works number by number is linear in the
//! parameters. So what two entities have to do with each other is one row, and scores of all relations are one matrix
//! product of these rows with the parameters.

use std::ops::Range;

use pbg_core::model::Operator;
use pbg_gemm::buffer::FloatBuffer;

use crate::error::StepError;
use crate::losses::maths;
use crate::matmul::{Block, Factor, product};
use crate::operators;
use crate::params::ParamTensor;
use crate::step::operator_gradients::OperatorGradients;
use crate::vector;

/// What a worker keeps for it.
#[derive(Debug)]
pub(crate) struct RelationBuffers {
    /// Parameters of all relations, `[2 * relations, width]`, as the pass began: those of its operators, then those of the
    /// other direction.
    parameters: FloatBuffer,
    /// Their gradients, summed over the slices of a pass.
    gradients: FloatBuffer,
    /// A row for each edge of a slice, `[edges, width]`: its inner product with parameters is a score.
    pub(super) features: FloatBuffer,
    pub(super) feature_gradients: FloatBuffer,
    /// `[edges, 2 * relations]`; then their gradients.
    scores: FloatBuffer,
    /// Of one direction.
    relations: usize,
    width: usize,
}

impl Default for RelationBuffers {
    fn default() -> Self {
        let none = || FloatBuffer::zeros(0);
        Self {
            parameters: none(),
            gradients: none(),
            features: none(),
            feature_gradients: none(),
            scores: none(),
            relations: 0,
            width: 0,
        }
    }
}

/// The relations of edges, and the factors of their losses.
pub(super) struct Targets<'a> {
    pub(super) relations: &'a [u32],
    /// Of each edge; none: 1.
    pub(super) weights: Option<&'a [f32]>,
    /// Of all.
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

    /// Copies the parameters of `relations` relations, those of the pass before those of the other direction; gradients
    /// are zero.
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

    /// Among which a relation is predicted.
    fn classes(&self) -> usize {
        2 * self.relations
    }

    /// Room for `edges` edges. Their rows are the caller's to fill.
    pub(super) fn reserve(&mut self, edges: usize) {
        self.features.reserve(edges * self.width);
        self.feature_gradients.reserve(edges * self.width);
        self.scores.reserve(edges * self.classes());
    }

    /// Numbers of a row.
    pub(super) fn row(&self, row: usize) -> Range<usize> {
        row * self.width..(row + 1) * self.width
    }

    /// Scores, their loss, and gradients of rows and parameters. Returns the loss, weighted.
    pub(super) fn differentiate(&mut self, targets: &Targets<'_>) -> Result<f64, StepError> {
        let edges = targets.relations.len();
        let of_edges = Block::one(0, edges, self.width);
        let of_relations = Block::one(0, self.classes(), self.width);
        let of_scores = Block::one(0, edges, self.classes());
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

    /// Adds the gradients of the pass to the sums of operators, in the order of `begin`.
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

impl Targets<'_> {
    /// Scores of edges with all relations become gradients. Returns the loss, weighted.
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

/// The row of two entities: `x` goes through the operator, `y` is what it is compared with. What no relation changes is
/// left out, since the softmax does not see it. `scratch` is as long as a row.
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

/// From the gradient of the row to that of `x`, in its place, and that of `y`, which is added.
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
