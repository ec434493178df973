//! A worker's copies of the shared parameters for one batch, and the sums of their gradients.

use pbg_core::graph::Side;
use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::optimizer;
use pbg_rows::params::{ParamTensor, Params};
use pbg_rows::regularizer::RowPenalty;
use pbg_rows::spec::ModelSpec;
use pbg_rows::vector;

use crate::operators;
use crate::step::gather::OperatorParameters;
use crate::step::operator_gradients::OperatorGradients;

/// Copies of the parameters that a batch needs.
#[derive(Debug, Default)]
pub(crate) struct ParameterValues {
    /// Static relations: packed parameters of the batch's relation.
    packed: FloatBuffer,
    /// Global embedding of each side's entity type.
    pub(crate) globals: [Vec<f32>; 2],
}

/// Sums of the gradients of parameters, per side.
#[derive(Debug, Default)]
pub(crate) struct ParameterGradients {
    pub(crate) globals: [Vec<f32>; 2],
    pub(crate) operators: [OperatorGradients; 2],
    scratch: Vec<f32>,
}

/// The operator of one side whose parameters are regularized.
#[derive(Clone, Copy)]
pub(crate) struct RegularizedOperator<'a> {
    pub(crate) penalty: RowPenalty,
    pub(crate) side: Side,
    pub(crate) tensors: &'a [ParamTensor],
    /// Dynamic relations: the relation type of each edge, which counts once per edge.
    pub(crate) relations: Option<&'a [u32]>,
    /// Static relations: the factor of the only relation.
    pub(crate) weight: usize,
}

impl ParameterValues {
    /// Copies the parameters that a batch of `relation` needs.
    pub(crate) fn read(&mut self, spec: &ModelSpec, relation: usize, params: &Params) {
        let rules = &spec.relations[relation];
        if !spec.is_dynamic() {
            let width = operators::packed_width(rules.operator, spec.entities[rules.rhs].dimension);
            self.packed.reserve(width);
            let tensors = params.operator(relation, Side::Rhs);
            operators::read_packed(tensors, 0, &mut self.packed.as_mut_slice()[..width]);
        }
        for side in Side::BOTH {
            let copy = &mut self.globals[side as usize];
            let global = params.global(rules.entity(side));
            copy.resize(global.map_or(0, |g| g.values.width()), 0.0);
            if let Some(global) = global {
                global.values.read_row(0, copy);
            }
        }
    }

    /// Returns the operator's parameters for the rows of a batch with these relation types.
    pub(crate) fn view<'a>(
        &'a self,
        tensors: &'a [ParamTensor],
        relations: Option<&'a [u32]>,
    ) -> OperatorParameters<'a> {
        match relations {
            Some(relations) => OperatorParameters::PerEdge(tensors, relations),
            None => OperatorParameters::Shared(&self.packed),
        }
    }
}

impl ParameterGradients {
    /// Sets the sums to zero for a batch of `edges` edges of `relation`.
    pub(crate) fn reset(
        &mut self,
        spec: &ModelSpec,
        relation: usize,
        params: &Params,
        edges: usize,
    ) {
        let rules = &spec.relations[relation];
        let width = operators::packed_width(rules.operator, spec.entities[rules.rhs].dimension);
        for side in Side::BOTH {
            if !params.operator(relation, side).is_empty() {
                // Relation prediction touches all relation types.
                let touched = match spec.relation_prediction > 0.0 {
                    true => usize::MAX,
                    false => edges,
                };
                self.operators[side as usize].reset(width, spec.dynamic_relations, touched);
            }
            let sum = &mut self.globals[side as usize];
            sum.clear();
            sum.resize(
                params
                    .global(rules.entity(side))
                    .map_or(0, |g| g.values.width()),
                0.0,
            );
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.operators.iter().map(OperatorGradients::bytes).sum()
    }

    /// Adds the gradients of the penalty on an operator's parameters to their sums, and returns its value.
    pub(crate) fn regularize(
        &mut self,
        values: &ParameterValues,
        operator: RegularizedOperator<'_>,
    ) -> f64 {
        let RegularizedOperator {
            penalty,
            side,
            tensors,
            relations,
            weight,
        } = operator;
        let width = tensors.iter().map(|t| t.values.width()).sum();
        let sums = &mut self.operators[side as usize];
        let Some(relations) = relations else {
            let per_batch = RowPenalty {
                coefficient: penalty.coefficient * weight as f32,
                ..penalty
            };
            let gradient = &mut sums.shared.as_mut_slice()[..width];
            return per_batch.add(&values.packed.as_slice()[..width], gradient);
        };
        self.scratch.resize(width, 0.0);
        let mut value = 0.0;
        for &relation in relations {
            operators::read_packed(tensors, relation as usize, &mut self.scratch);
            value += penalty.add(&self.scratch, sums.per_edge.row_mut(relation));
        }
        value
    }

    /// Adds the sums of another worker for the same batch.
    pub(crate) fn add(&mut self, other: &Self, spec: &ModelSpec, relation: usize, params: &Params) {
        let rules = &spec.relations[relation];
        let width = operators::packed_width(rules.operator, spec.entities[rules.rhs].dimension);
        for side in Side::BOTH {
            let (of_this, of_other) = (side as usize, &other.operators[side as usize]);
            vector::add(&mut self.globals[of_this], &other.globals[of_this]);
            if params.operator(relation, side).is_empty() {
                continue;
            }
            let operator = &mut self.operators[of_this];
            match spec.is_dynamic() {
                true => operator.per_edge.add_all(&of_other.per_edge),
                false => vector::add(
                    &mut operator.shared.as_mut_slice()[..width],
                    &of_other.shared.as_slice()[..width],
                ),
            }
        }
    }

    /// Applies the gradients. Returns whether all were finite.
    #[must_use]
    pub(crate) fn apply(&mut self, spec: &ModelSpec, relation: usize, params: &Params) -> bool {
        let lr = spec.relation_lr;
        let mut finite = true;
        let rules = &spec.relations[relation];
        let dimension = spec.entities[rules.rhs].dimension;
        let width = operators::packed_width(rules.operator, dimension);
        for side in Side::BOTH {
            let tensors = params.operator(relation, side);
            let sums = &mut self.operators[side as usize];
            if tensors.is_empty() {
                continue;
            }
            if spec.is_dynamic() {
                sums.per_edge.drain(
                    |_| {},
                    |row, gradient| {
                        finite &=
                            optimizer::apply_packed(tensors, row, gradient, lr, &mut self.scratch);
                    },
                );
            } else {
                let gradient = &sums.shared.as_slice()[..width];
                finite &= optimizer::apply_packed(tensors, 0, gradient, lr, &mut self.scratch);
            }
        }
        finite & self.apply_globals(spec, relation, params)
    }

    fn apply_globals(&mut self, spec: &ModelSpec, relation: usize, params: &Params) -> bool {
        let rules = &spec.relations[relation];
        let [lhs, rhs] = &mut self.globals;
        let lr = spec.relation_lr;
        let mut finite = true;
        // A vector that both sides share gets one update with the sum.
        if rules.lhs == rules.rhs {
            vector::add(lhs, rhs);
            rhs.clear();
        }
        for (entity, gradient) in [(rules.lhs, lhs), (rules.rhs, rhs)] {
            if spec.entities[entity].frozen {
                finite &= gradient.iter().all(|value| value.is_finite());
                continue;
            }
            if let Some(global) = params.global(entity).filter(|_| !gradient.is_empty()) {
                finite &= optimizer::apply_elements(global, 0, gradient, lr, &mut self.scratch);
            }
        }
        finite
    }
}
