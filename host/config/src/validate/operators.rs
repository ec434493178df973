//! Rules of operators and of the regulariser.

use pbg_core::model::{Comparator, Operator, Regularizer};

use super::{Validator, of_entity, of_relation, top};

impl Validator<'_> {
    pub(super) fn regularizer(&mut self) {
        if self.config.regularization_coef > 0.0
            && self.config.regularizer == Regularizer::N3Embeddings
            && self.config.comparator == Comparator::Cos.name()
        {
            self.report(
                [top("regularizer"), top("comparator")],
                "`N3_embeddings` does not work with the comparator `cos`, which ignores lengths; use `N3`, the penalty on the normalised vectors, or another comparator",
            );
        }
    }

    pub(super) fn operators(&mut self) {
        for (i, relation) in self.relations() {
            let path = of_relation(i, "operator");
            let name = &relation.rhs;
            match Operator::built_in(&relation.operator) {
                Some(Operator::ComplexDiagonal) => {
                    if let Some(dimension) = self.dimension(name)
                        && dimension % 2 == 1
                    {
                        let bias = match self.config.bias {
                            true => {
                                " (the bias coordinate counts, since it passes through the operator too)"
                            }
                            false => "",
                        };
                        self.report(
                            [path, of_entity(name, "dimension"), top("dimension")],
                            format!("complex_diagonal pairs coordinates, so the dimension must be even; `{name}` has {dimension}{bias}"),
                        );
                    }
                }
                Some(operator) if operator.is_matrix() && self.config.regularization_coef > 0.0 => {
                    self.report(
                        [path, top("regularization_coef"), top("regularizer")],
                        "the regularizer N3 is not defined for the operators linear and affine; set `regularization_coef = 0` or use another operator",
                    );
                }
                _ => {}
            }
        }
    }
}
