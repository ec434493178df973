//! Rules of operators and of the regulariser.

use std::collections::BTreeMap;

use pbg_core::model::{Comparator, Operator, Optimizer, Regularizer};

use super::{Validator, of_entity, of_relation, top};

impl Validator<'_> {
    pub(super) fn regularizer(&mut self) {
        if self.config.regularization_coef > 0.0
            && self.config.regularizer != Regularizer::N3
            && self.config.comparator == Comparator::Cos.name()
        {
            self.report(
                [top("regularizer"), top("comparator")],
                format!("`{}` does not work with the comparator `cos`, which ignores lengths; use `N3`, the penalty on the normalised vectors, or another comparator", self.config.regularizer.name()),
            );
        }
    }

    /// Checks that parameters have a learning rate of their own where embeddings are trained with Adam: Adagrad, with
    /// which they are always trained, needs larger ones.
    pub(super) fn optimizer(&mut self) {
        let config = self.config;
        let mut relations = config.relations.iter();
        let has_parameters =
            config.has_global_emb() || relations.any(|relation| relation.operator != "none");
        if config.optimizer == Optimizer::Adam && config.relation_lr.is_none() && has_parameters {
            self.report(
                [top("relation_lr"), top("optimizer")],
                "must be set if `optimizer` is `adam`: operators and global embeddings are trained with Adagrad, which needs \
                 a larger learning rate than `lr` for Adam; 0.1 is usual"
                    .to_owned(),
            );
        }
    }

    pub(super) fn operators(&mut self) {
        self.components_of_formulas();
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
                Some(operator)
                    if operator.is_matrix()
                        && self.config.regularization_coef > 0.0
                        && self.config.regularizer != Regularizer::Dura =>
                {
                    self.report(
                        [path, top("regularization_coef"), top("regularizer")],
                        "the regularizer N3 is not defined for the operators linear and affine; use `regularizer = \"DURA\"`, set `regularization_coef = 0` or use another operator",
                    );
                }
                _ => {}
            }
        }
    }

    /// Checks that the formulas of operators can cut embeddings into components. The formula of a plugin is checked once
    /// it has been loaded.
    fn components_of_formulas(&mut self) {
        let config = self.config;
        let mut components = BTreeMap::new();
        for (i, relation) in self.relations() {
            let operator = &relation.operator;
            if !config.formulas.contains_key(operator) || Operator::built_in(operator).is_some() {
                continue;
            }
            let components = *components.entry(operator).or_insert_with(|| {
                let found = config.operator(operator);
                found.map_or(1, Operator::components)
            });
            let name = &relation.rhs;
            let Some(dimension) = self.dimension(name) else {
                continue;
            };
            if !(dimension as usize).is_multiple_of(components) {
                let bias = match config.bias {
                    true => {
                        " (the bias coordinate counts, since it passes through the operator too)"
                    }
                    false => "",
                };
                self.report(
                    [of_relation(i, "operator"), of_entity(name, "dimension"), top("dimension")],
                    format!(
                        "`{operator}` cuts embeddings into {components} components, so the dimension must be a multiple of \
                         {components}; `{name}` has {dimension}{bias}"
                    ),
                );
            }
        }
    }
}
