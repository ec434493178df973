//! A worker's copies of the shared parameters for one batch, and the sums of their gradients.

use pbg_core::graph::Side;
use tch::TchError;

use crate::buffer::FloatBuffer;
use crate::operators;
use crate::optimizer;
use crate::params::{ParamTensor, Params};
use crate::regularizer::N3;
use crate::spec::ModelSpec;
use crate::step::backward::OperatorGradients;
use crate::step::side::Parameters;
use crate::vector;

/// Copies of the parameters a batch needs.
#[derive(Debug)]
pub(crate) struct ParameterValues {
    /// Packed parameters of the batch's relation (static relations).
    packed: FloatBuffer,
    /// Global embedding of each side's entity type.
    pub(crate) globals: [Vec<f32>; 2],
}

/// Sums of their gradients, per side.
#[derive(Debug)]
pub(crate) struct ParameterGradients {
    pub(crate) globals: [Vec<f32>; 2],
    pub(crate) operators: [OperatorGradients; 2],
    scratch: Vec<f32>,
}

impl ParameterValues {
    pub(crate) fn new() -> Result<Self, TchError> {
        Ok(Self {
            packed: FloatBuffer::zeros(0),
            globals: Default::default(),
        })
    }

    /// Copies what a batch of `relation` needs.
    pub(crate) fn read(
        &mut self,
        spec: &ModelSpec,
        relation: usize,
        params: &Params,
    ) -> Result<(), TchError> {
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
        Ok(())
    }

    /// Parameters for the rows of a batch with these relations.
    pub(crate) fn view<'a>(
        &'a self,
        tensors: &'a [ParamTensor],
        relations: Option<&'a [u32]>,
    ) -> Parameters<'a> {
        match relations {
            Some(relations) => Parameters::PerEdge(tensors, relations),
            None => Parameters::Shared(&self.packed),
        }
    }
}

impl ParameterGradients {
    pub(crate) fn new() -> Result<Self, TchError> {
        let operators = [OperatorGradients::new()?, OperatorGradients::new()?];
        Ok(Self {
            globals: Default::default(),
            operators,
            scratch: Vec::new(),
        })
    }

    /// Zero for a batch of `edges` edges of `relation`.
    pub(crate) fn reset(
        &mut self,
        spec: &ModelSpec,
        relation: usize,
        params: &Params,
        edges: usize,
    ) -> Result<(), TchError> {
        let rules = &spec.relations[relation];
        let width = operators::packed_width(rules.operator, spec.entities[rules.rhs].dimension);
        for side in Side::BOTH {
            if !params.operator(relation, side).is_empty() {
                self.operators[side as usize].reset(width, spec.dynamic_relations, edges)?;
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
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.operators.iter().map(OperatorGradients::bytes).sum()
    }

    /// N3 of the parameters of the operator on `side`: for each edge those of its relation, or with
    /// static relations those of the one relation `weight` times.
    pub(crate) fn regularize(
        &mut self,
        n3: N3,
        values: &ParameterValues,
        tensors: &[ParamTensor],
        side: Side,
        weight: usize,
        relations: Option<&[u32]>,
    ) -> f64 {
        let width = tensors.iter().map(|t| t.values.width()).sum();
        let sums = &mut self.operators[side as usize];
        let Some(relations) = relations else {
            let per_batch = N3 {
                coefficient: n3.coefficient * weight as f32,
                ..n3
            };
            let gradient = &mut sums.shared.as_mut_slice()[..width];
            return per_batch.add(&values.packed.as_slice()[..width], gradient);
        };
        self.scratch.resize(width, 0.0);
        let mut value = 0.0;
        for &relation in relations {
            operators::read_packed(tensors, relation as usize, &mut self.scratch);
            value += n3.add(&self.scratch, sums.per_edge.row_mut(relation));
        }
        value
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
        // The same vector on both sides gets one step with the sum.
        if rules.lhs == rules.rhs {
            vector::add(lhs, rhs);
            rhs.clear();
        }
        for (entity, gradient) in [(rules.lhs, lhs), (rules.rhs, rhs)] {
            if let Some(global) = params.global(entity).filter(|_| !gradient.is_empty()) {
                finite &= optimizer::apply_elements(global, 0, gradient, lr, &mut self.scratch);
            }
        }
        finite
    }
}
