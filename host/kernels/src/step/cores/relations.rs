//! The relation prediction stage on a core.

use std::mem;

use pbg_core::graph::Side;

use super::CoreStep;
use crate::error::StepError;
use crate::step::buffers::SliceBuffers;
use crate::step::executor::SliceStages;
use crate::step::predict_relations::{self, RelationBuffers, RelationTargets};

impl CoreStep<'_> {
    /// Predicts the relation types of a slice's edges, or of this worker's share of them if several share a batch.
    pub(super) fn predict(
        &mut self,
        at: SliceStages<'_>,
        memory: &SliceBuffers,
    ) -> Result<(), StepError> {
        let mut buffers = mem::take(&mut self.sums.relations);
        let done = self.predict_with(&mut buffers, at, memory);
        self.sums.relations = buffers;
        done
    }

    fn predict_with(
        &mut self,
        buffers: &mut RelationBuffers,
        at: SliceStages<'_>,
        memory: &SliceBuffers,
    ) -> Result<(), StepError> {
        let (slice, dimension, operator) = (at.slice, self.plan.dimension, self.plan.operator);
        let edges = self.share.of(slice.rows.len());
        let Some(relations) = self.job.relations().filter(|_| !edges.is_empty()) else {
            return Ok(());
        };
        let operator_side = at.stages.pass.operator_side;
        let sides = [operator_side, operator_side.other()];
        let floats = |side: Side, row: usize| {
            let place = at.stages.gather[side as usize].uniform + slice.chunk;
            let row = row / slice.chunk * place + row % slice.chunk;
            let rows = &memory.sides[side as usize].rows;
            let buffer = match side == sides[0] {
                true => &rows.input,
                false => &rows.values,
            };
            &buffer.as_slice()[row * dimension..(row + 1) * dimension]
        };
        buffers.reserve(edges.len());
        let mut scratch = vec![0.0; dimension];
        for (i, edge) in edges.clone().enumerate() {
            let [x, y] = sides.map(|side| floats(side, edge));
            let range = buffers.row(i);
            let row = &mut buffers.features.as_mut_slice()[range];
            predict_relations::feature(operator, x, y, row, &mut scratch);
        }
        let rows = slice.rows.start + edges.start..slice.rows.start + edges.end;
        let targets = RelationTargets {
            relations: &relations[rows.clone()],
            weights: self.job.batch.weight.map(|weights| &weights[rows]),
            weight: self.spec.relation_prediction * self.spec.relations[self.relation()].weight,
        };
        self.stats.loss_relations += buffers.differentiate(&targets)?;
        let mut y_gradient = vec![0.0; dimension];
        for (i, edge) in edges.enumerate() {
            let rows = sides.map(|side| floats(side, edge));
            let range = buffers.row(i);
            let gradient = &mut buffers.feature_gradients.as_mut_slice()[range];
            y_gradient.fill(0.0);
            predict_relations::feature_backward(
                operator,
                rows,
                gradient,
                &mut y_gradient,
                &mut scratch,
            );
            for (side, gradient) in sides.into_iter().zip([&*gradient, &y_gradient]) {
                let entity = self.job.batch.side(side)[slice.rows.start + edge];
                let scatter = &at.stages.scatter[side as usize];
                self.scatterer(scatter, side).sums.add(entity, gradient);
            }
        }
        Ok(())
    }
}
