//! What predicting relations asks of the model.

use super::{Rules, of_relation, top};
use pbg_core::model::{Comparator, Operator};

impl Rules<'_> {
    /// Scores of all relations are one matrix product only where they are linear in the parameters.
    pub(super) fn relation_prediction(&mut self) {
        if self.config.relation_prediction == 0.0 {
            return;
        }
        let key = || top("relation_prediction");
        if !self.config.dynamic_relations {
            self.blame(
                [key(), top("dynamic_relations")],
                "needs `dynamic_relations = true`: with other relations there is nothing to choose from",
            );
        }
        if self.config.comparator != Comparator::Dot || self.config.bias {
            self.blame(
                [key(), top("comparator"), top("bias")],
                "is there for the comparator `dot` without `bias` only",
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
                self.blame(
                    [key(), of_relation(i, "operator")],
                    format!("is there for the operators `diagonal`, `translation` and `complex_diagonal` only, not for `{name}`"),
                );
            }
        }
    }
}
