//! Rules of negatives: there must be some, and their entity types must be able to provide them.

use super::{Validator, of_entity, of_relation, side_key, side_of, top};
use pbg_core::graph::Side;

impl Validator<'_> {
    /// Checks that types of relations with `all_negs` have entities to enumerate.
    pub(super) fn enumerable(&mut self) {
        for (i, relation) in self.relations().filter(|(_, r)| r.all_negs) {
            for side in self.sides_with_negatives() {
                let name = side_of(relation, side);
                if self.config.entities.get(name).is_some_and(|e| e.featurized) {
                    self.report(
                        [
                            of_relation(i, "all_negs"),
                            of_entity(name, "featurized"),
                            top("disable_lhs_negs"),
                            top("disable_rhs_negs"),
                        ],
                        format!(
                            "`{name}` is featurized, so it has no entities to enumerate, only features"
                        ),
                    );
                }
            }
        }
    }

    fn sides_with_negatives(&self) -> impl Iterator<Item = Side> + use<> {
        let (lhs, rhs) = (!self.config.disable_lhs_negs, !self.config.disable_rhs_negs);
        [lhs.then_some(Side::Lhs), rhs.then_some(Side::Rhs)]
            .into_iter()
            .flatten()
    }

    pub(super) fn negatives(&mut self) {
        if self.config.disable_lhs_negs && self.config.disable_rhs_negs {
            self.report(
                [top("disable_rhs_negs"), top("disable_lhs_negs")],
                "both sides are disabled, so there is nothing to learn from; enable one",
            );
            return;
        }
        self.counts(
            "num_batch_negs",
            self.config.num_batch_negs,
            "num_uniform_negs",
            self.config.num_uniform_negs,
        );
    }

    pub(super) fn evaluation_negatives(&mut self) {
        if self.config.eval_fraction > 0.0 {
            self.counts(
                "eval_num_batch_negs",
                self.config.eval_num_batch_negs,
                "eval_num_uniform_negs",
                self.config.eval_num_uniform_negs,
            );
        }
    }

    /// Checks that relations without `all_negs` have negatives that their entity types can provide.
    fn counts(&mut self, batch_key: &str, batch: u32, uniform_key: &str, uniform: u32) {
        let sampled: Vec<_> = self.relations().filter(|(_, r)| !r.all_negs).collect();
        if batch > 0 || sampled.is_empty() {
            return;
        }
        if uniform == 0 {
            let keys = [uniform_key, batch_key, "eval_fraction"].map(top);
            let all_negs = sampled.iter().map(|(i, _)| of_relation(*i, "all_negs"));
            let concerns: Vec<_> = keys.into_iter().chain(all_negs).collect();
            self.report(
                concerns,
                format!(
                    "and `{batch_key}` are both 0, so there are no negatives; make one positive, \
                     or give every relation `all_negs = true`"
                ),
            );
            return;
        }
        for (i, relation) in sampled {
            for side in self.sides_with_negatives() {
                let name = side_of(relation, side);
                if self.config.entities.get(name).is_some_and(|e| e.featurized) {
                    self.report(
                        [top(batch_key), of_entity(name, "featurized"), of_relation(i, "all_negs")],
                        format!("must be positive: `{name}` is featurized, so there are no uniform negatives for the {} of relations.{i}", side_key(side)),
                    );
                }
            }
        }
    }

    pub(super) fn batches(&mut self) {
        let (batch, chunk) = (self.config.batch_size, self.config.num_batch_negs);
        if chunk > 0 && batch % chunk != 0 {
            let near = (batch / chunk).max(1).saturating_mul(chunk);
            self.report(
                [top("batch_size"), top("num_batch_negs")],
                format!("must be a multiple of `num_batch_negs`, which is {chunk}; is {batch}, the nearest multiple is {near}"),
            );
        }
        if let Some(size) = self.config.chunk_size
            && chunk > 0
            && size != chunk
        {
            self.report(
                [top("chunk_size"), top("num_batch_negs")],
                format!("must be `num_batch_negs`, which is {chunk}, since the positives of a chunk are each other's batch negatives; is {size}; or set num_batch_negs = 0"),
            );
        }
    }
}
