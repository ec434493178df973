//! Rules of the comparator.

use pbg_core::model::Comparator;
use pbg_core::nearest::nearest;

use super::{Validator, of_entity, top};
use crate::ComparatorError;
use crate::node::excerpt;
use crate::suggest::did_you_mean;

impl Validator<'_> {
    pub(super) fn comparator(&mut self) {
        let comparator = match self.config.comparator() {
            Ok(comparator) => comparator,
            Err(ComparatorError::Unknown(name)) => {
                let built_in = Comparator::BUILT_IN.iter().map(Comparator::name);
                let built_in: Vec<&str> = built_in.collect();
                let own = self.config.formulas.keys().map(String::as_str);
                let advice = did_you_mean(nearest(&name, built_in.iter().copied().chain(own)));
                let text = format!(
                    "must be one of {} or the name of a formula in `formulas`, is {}{advice}",
                    built_in.join(", "),
                    excerpt(&name)
                );
                return self.report([top("comparator")], text);
            }
            Err(error @ ComparatorError::Formula { .. }) => {
                return self.report([top("comparator"), top("formulas")], error.to_string());
            }
        };
        let name = &self.config.comparator;
        if Comparator::built_in(name).is_some() && self.config.formulas.contains_key(name) {
            let text = format!(
                "`{name}` is a comparator of the program, so the formula of this name would not be used; give it another name"
            );
            return self.report([top("comparator"), top("formulas")], text);
        }
        let components = comparator.components();
        let names: Vec<&String> = self.config.entities.keys().collect();
        for name in names {
            let Some(dimension) = self.dimension(name) else {
                continue;
            };
            if !(dimension as usize).is_multiple_of(components) {
                let bias = match self.config.bias {
                    true => " (the bias coordinate counts)",
                    false => "",
                };
                self.report(
                    [top("comparator"), of_entity(name, "dimension"), top("dimension")],
                    format!(
                        "`{}` cuts embeddings into {components} components, so the dimension must be a multiple of \
                         {components}; `{name}` has {dimension}{bias}",
                        self.config.comparator
                    ),
                );
            }
        }
    }
}
