//! Rules of relation prediction.

use super::{Validator, of_relation, top};
use pbg_core::model::{Comparator, Operator};

impl Validator<'_> {
    /// Checks that the scores of all relations are one matrix product, that is, linear in the parameters.
    pub(super) fn relation_prediction(&mut self) {
        if self.config.relation_prediction == 0.0 {
            return;
        }
        let key = || top("relation_prediction");
        if !self.config.dynamic_relations {
            self.report(
                [key(), top("dynamic_relations")],
                "needs `dynamic_relations = true`: static relations are not predicted",
            );
        }
        if self.config.comparator != Comparator::Dot.name() || self.config.bias {
            self.report(
                [key(), top("comparator"), top("bias")],
                "works only with the comparator `dot` without `bias`",
            );
        }
        for (i, relation) in self.relations() {
            let linear = [
                Operator::Diagonal,
                Operator::Translation,
                Operator::ComplexDiagonal,
            ];
            let name = &relation.operator;
            if !linear.iter().any(|operator| operator.name() == name) {
                self.report(
                    [key(), of_relation(i, "operator")],
                    format!("works only with the operators `diagonal`, `translation` and `complex_diagonal`, not with `{name}`"),
                );
            }
        }
    }
}
