//! How much memory a worker's buffers take, known before it starts.

use pbg_core::config::{Operator, Precision};
use pbg_core::graph::Side;

use crate::comparators::RowExtras;
use crate::operators;
use crate::rows::HUGE_PAGE;
use crate::spec::ModelSpec;
use crate::step::Execution;
use crate::step::plan::{Negatives, Plan};

/// Bytes of the buffers of one [`Trainer`](super::Trainer) for batches of `batch_size` edges laid out as
/// `execution` says, when the
/// largest partition of entity type `t` has `rows[t]` rows (features, for a featurized type).
///
/// An upper bound: every buffer at the size of the relation that needs most of it.
#[must_use]
pub fn worker_bytes(
    spec: &ModelSpec,
    batch_size: usize,
    execution: &Execution,
    rows: &[usize],
) -> u64 {
    let mut needs = Needs::default();
    for relation in 0..spec.relations.len() {
        needs.include(
            spec,
            relation,
            batch_size,
            execution.slice_bytes.max(1),
            rows,
        );
    }
    match execution.precision {
        Precision::Fp32 => needs.bytes(),
        Precision::Bf16 => needs.bytes() + needs.half_bytes(),
    }
}

/// Most negatives that a row of scores has, for the same arguments.
#[must_use]
pub fn negatives(
    spec: &ModelSpec,
    batch_size: usize,
    execution: &Execution,
    rows: &[usize],
) -> usize {
    let of = |relation: usize| {
        let rules = &spec.relations[relation];
        let entities = Side::BOTH.map(|side| rows.get(rules.entity(side)).copied().unwrap_or(0));
        let slice_bytes = execution.slice_bytes.max(1);
        let plan = Plan::new(spec, relation, batch_size.max(1), entities, slice_bytes);
        let on = |side: Side| match plan.negatives[side as usize] {
            Negatives::All => entities[side as usize],
            _ => plan.columns(side),
        };
        Side::BOTH.into_iter().map(on).max().unwrap_or(0)
    };
    (0..spec.relations.len()).map(of).max().unwrap_or(0)
}

/// Largest number of floats in each buffer, except where another unit is said.
#[derive(Default)]
struct Needs {
    sides: [SideNeeds; 2],
    scores: usize,
    positives: usize,
    operators: usize,
}

#[derive(Default)]
struct SideNeeds {
    values: usize,
    input: usize,
    /// Rows.
    extras: usize,
    positives: usize,
    candidates: usize,
    all: usize,
    all_input: usize,
    /// Rows of gradients, and rows of the table.
    touched: [usize; 2],
    width: usize,
}

fn raise(value: &mut usize, to: usize) {
    *value = (*value).max(to);
}

impl Needs {
    fn include(
        &mut self,
        spec: &ModelSpec,
        relation: usize,
        batch: usize,
        slice_bytes: usize,
        rows: &[usize],
    ) {
        let rules = &spec.relations[relation];
        let entities = Side::BOTH.map(|side| rows.get(rules.entity(side)).copied().unwrap_or(0));
        let plan = Plan::new(spec, relation, batch.max(1), entities, slice_bytes);
        let (d, chunks) = (plan.dimension, plan.chunks_per_slice);
        let padded = plan.chunk * chunks;
        let transformed = rules.operator != Operator::None;
        for side in Side::BOTH {
            let needs = &mut self.sides[side as usize];
            let slice_rows = chunks * (plan.chunk + plan.uniform(side));
            let candidates = chunks * plan.columns(side);
            let entities = entities[side as usize];
            raise(&mut needs.values, slice_rows * d);
            if transformed && (side == Side::Rhs || spec.is_dynamic()) {
                // With dynamic relations only positives pass through an operator.
                let through = if spec.is_dynamic() {
                    padded
                } else {
                    slice_rows
                };
                raise(&mut needs.input, through * d);
            }
            raise(&mut needs.positives, padded * (d + 2));
            raise(&mut needs.candidates, candidates * (d + 2));
            let all = if plan.negatives[side as usize] == Negatives::All {
                entities
            } else {
                0
            };
            raise(&mut needs.extras, slice_rows + all);
            raise(&mut needs.all, all * (d + 2));
            if transformed && !spec.is_dynamic() && side == Side::Rhs {
                raise(&mut needs.all_input, all * d);
            }
            raise(&mut self.scores, padded * plan.columns(side).max(all));
            let featurized = spec.entities[rules.entity(side)].featurized;
            let touched = if featurized {
                entities
            } else {
                plan.touched(false, rules.lhs == rules.rhs, side)
                    .min(entities)
            };
            raise(&mut needs.touched[0], touched);
            raise(&mut needs.touched[1], entities);
            raise(&mut needs.width, d);
        }
        raise(&mut self.positives, 4 * padded);
        let packed = operators::packed_width(rules.operator, d);
        let relations = spec.dynamic_relations.map_or(1, |r| 2 * r.min(batch));
        // Parameters, gradients, and for matrices a block of rows.
        let block = if packed > d {
            self.sides.iter().map(|s| s.values).max().unwrap_or(0)
        } else {
            0
        };
        raise(&mut self.operators, packed * (relations + 2) + 2 * block);
    }

    /// What products in bf16 keep besides: rows, scores, and gradients as they leave a product.
    fn half_bytes(&self) -> u64 {
        let rows: usize = self.sides.iter().map(|s| s.values + s.all).sum();
        let gradients = self
            .sides
            .iter()
            .map(|s| s.candidates.max(s.all).max(s.positives))
            .max()
            .unwrap_or(0);
        2 * (rows + self.scores + gradients) as u64
    }

    fn bytes(&self) -> u64 {
        // The last huge page of a large buffer may be used in part only.
        let buffer = |floats: usize| {
            let bytes = 4 * floats as u64;
            if bytes >= HUGE_PAGE as u64 / 2 {
                bytes + HUGE_PAGE as u64
            } else {
                bytes
            }
        };
        let side = |side: &SideNeeds| {
            let [touched, rows] = side.touched;
            let floats = [
                side.values,
                side.input,
                side.positives,
                side.candidates,
                side.all,
                side.all_input,
            ];
            floats.map(buffer).iter().sum::<u64>()
                // Gradients of all entities.
                + buffer(side.all)
                + (size_of::<RowExtras>() * side.extras) as u64
                + buffer(touched * side.width)
                + 4 * (touched + rows) as u64
        };
        self.sides.iter().map(side).sum::<u64>()
            // Scores, and their distances.
            + 2 * buffer(self.scores)
            + buffer(self.positives)
            + buffer(self.operators)
    }
}
