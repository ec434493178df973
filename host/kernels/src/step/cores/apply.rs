//! The end of a batch on a core: sums of gradients are applied to rows and parameters.

use std::mem;
use std::ops::Deref;

use pbg_core::graph::Side;
use pbg_rows::gradient_rows::GradientRows;
use pbg_rows::optimizer;

use super::{CoreStep, WorkerSums};
use crate::error::StepError;
use crate::step::share::GradientSums;

impl CoreStep<'_> {
    /// Applies the sums of table rows, over all workers of the batch; with `parameters`, those of parameters as well.
    /// Returns whether all were finite.
    pub(super) fn apply(&mut self, parameters: bool) -> Result<bool, StepError> {
        let (spec, job, relation) = (self.spec, self.job, self.relation());
        let Some((exchange, index)) = self.share.exchange() else {
            let WorkerSums {
                gradients,
                rows,
                row,
                ..
            } = &mut *self.sums;
            let mut finite = !parameters || gradients.apply(spec, relation, job.params);
            for side in Side::BOTH {
                let table = job.tables.side(side);
                finite &= optimizer::apply_rows(&mut rows[side as usize], table, spec.lr, row);
            }
            return Ok(finite);
        };
        let others = parameters && !self.share.is_first();
        self.swap_summands(&mut exchange.summands_mut(index), others);
        exchange.wait()?;
        let finite = self.apply_share(&exchange.summands(), parameters);
        exchange.wait()?;
        self.swap_summands(&mut exchange.summands_mut(index), others);
        self.sums.rows.iter_mut().for_each(GradientRows::clear);
        Ok(finite)
    }

    /// Swaps the sums of this worker with its place in the exchange: first to share them, then to get them back.
    fn swap_summands(&mut self, given: &mut GradientSums, parameters: bool) {
        mem::swap(&mut self.sums.rows, &mut given.rows);
        if parameters {
            mem::swap(&mut self.sums.gradients, &mut given.parameters);
        }
    }

    /// Adds up the sums of all workers and applies them to this worker's share of the rows; the first worker also
    /// applies those of parameters.
    fn apply_share(&mut self, all: &[impl Deref<Target = GradientSums>], parameters: bool) -> bool {
        let (spec, job, relation) = (self.spec, self.job, self.relation());
        let mut finite = true;
        if parameters && self.share.is_first() {
            let gradients = &mut self.sums.gradients;
            for other in &all[1..] {
                gradients.add(&other.parameters, spec, relation, job.params);
            }
            finite = gradients.apply(spec, relation, job.params);
        }
        for side in Side::BOTH {
            let table = job.tables.side(side);
            let rows: Vec<&GradientRows> = all.iter().map(|s| &s.rows[side as usize]).collect();
            let share = self.share.of(table.embeddings.rows());
            let WorkerSums { scratch, row, .. } = &mut *self.sums;
            finite &= optimizer::apply_summed_rows(&rows, share, table, spec.lr, [scratch, row]);
        }
        finite
    }
}
