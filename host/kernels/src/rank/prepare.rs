//! Preparation of rows for comparison.

use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::model::Operator;
use pbg_rows::params::{ParamTensor, Params};
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::{LookUp, Table};
use pbg_rows::vector;

use crate::operators;
use crate::operators::formula::Evaluators;
use crate::score_function::{RowExtras, ScoreFunction};

/// The side that candidates replace, and the relation for which they are prepared.
#[derive(Clone, Copy, Debug)]
pub struct ReplacedSide<'a> {
    /// The side that candidates replace.
    pub side: Side,
    /// The relation type, which is used only if candidates depend on it
    /// ([`candidates_depend_on_relation`](super::Ranker::candidates_depend_on_relation)).
    pub relation: u32,
    /// The model's parameters.
    pub params: &'a Params,
}

/// Steps of the preparation of the entities of one side and relation.
pub(super) struct PreparationSteps<'a> {
    operator: Operator,
    tensors: &'a [ParamTensor],
    global: Vec<f32>,
    dimension: usize,
}

/// Prepares rows of a model's entities, with its own buffers.
#[derive(Debug)]
pub(super) struct Preparer {
    pub(super) spec: Arc<ModelSpec>,
    pub(super) comparison: ScoreFunction,
    /// A row before the operator.
    input: Vec<f32>,
    /// The operator's parameters.
    packed: Vec<f32>,
    scratch: Vec<f32>,
    pub(super) evaluators: Evaluators,
}

impl Preparer {
    pub(super) fn new(spec: Arc<ModelSpec>) -> Self {
        let [input, packed, scratch] = Default::default();
        Self {
            comparison: ScoreFunction::of(&spec),
            spec,
            input,
            packed,
            scratch,
            evaluators: Evaluators::default(),
        }
    }

    /// Returns the preparation steps of the entities of `side`, which replace that side or are known.
    pub(super) fn recipe<'p>(
        &self,
        side: Side,
        replaced: bool,
        relation: u32,
        params: &'p Params,
        dimension: usize,
    ) -> PreparationSteps<'p> {
        let index = if self.spec.is_dynamic() {
            0
        } else {
            relation as usize
        };
        let rules = &self.spec.relations[index];
        let global = params
            .global(rules.entity(side))
            .map(ParamTensor::to_vec)
            .unwrap_or_default();
        // An operator of static relations has the parameters of the right side, whichever side it transforms.
        let of = match self.spec.is_dynamic() {
            true => side,
            false => Side::Rhs,
        };
        PreparationSteps {
            operator: self.spec.ranking_operator(side, relation, replaced),
            tensors: params.operator(index, of),
            global,
            dimension,
        }
    }

    /// Copies the parameters that the operator of `recipe` has for `relation`.
    pub(super) fn read_parameters(&mut self, recipe: &PreparationSteps<'_>, relation: u32) {
        if recipe.operator != Operator::None {
            let row = if self.spec.is_dynamic() {
                relation as usize
            } else {
                0
            };
            self.packed.resize(
                operators::packed_width(recipe.operator, recipe.dimension),
                0.0,
            );
            operators::read_packed(recipe.tensors, row, &mut self.packed);
            if let Operator::Traced(formula) = recipe.operator {
                let evaluator = self.evaluators.get_or_create(formula);
                evaluator.prepare(&self.packed, recipe.dimension);
            }
        }
    }

    /// Prepares entities that replace a side, row by row.
    pub(super) fn prepare_candidates(
        &mut self,
        replacement: ReplacedSide<'_>,
        entities: impl Iterator<Item = u32>,
        table: &Table,
        rows: &mut [f32],
        extras: &mut Vec<RowExtras>,
    ) {
        let dimension = table.embeddings.width();
        let ReplacedSide {
            side,
            relation,
            params,
        } = replacement;
        let recipe = self.recipe(side, true, relation, params, dimension);
        self.read_parameters(&recipe, relation);
        extras.clear();
        for (entity, row) in entities.zip(rows.chunks_exact_mut(dimension)) {
            extras.push(self.row(&recipe, table, entity, row));
        }
    }

    /// Prepares one row.
    pub(super) fn row(
        &mut self,
        recipe: &PreparationSteps<'_>,
        table: &Table,
        entity: u32,
        out: &mut [f32],
    ) -> RowExtras {
        self.input.resize(out.len(), 0.0);
        let look_up = LookUp {
            max_norm: self.spec.max_norm,
            in_place: false,
        };
        look_up.row(table, entity, out, &mut self.scratch);
        if !recipe.global.is_empty() {
            vector::add(out, &recipe.global);
        }
        if recipe.operator != Operator::None {
            self.input.copy_from_slice(out);
            match recipe.operator {
                Operator::Traced(formula) => {
                    let evaluator = self.evaluators.get_or_create(formula);
                    evaluator.prepared(&self.packed, &self.input, out, recipe.dimension);
                }
                operator => operators::forward(operator, &self.packed, &self.input, out),
            }
        }
        self.comparison.prepare(out)
    }
}
