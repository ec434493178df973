//! Rules of the comparator.

use pbg_core::model::Comparator;
use pbg_core::nearest::nearest;

use super::strategies::invalid_name;
use super::{Validator, of_entity, top};
use crate::installed::is_plugin_path;
use crate::suggest::did_you_mean;
use crate::{ComparatorError, StrategyNames};

impl Validator<'_> {
    pub(super) fn comparator(&mut self, installed: Option<&StrategyNames>) {
        let comparator = match self.config.comparator() {
            Ok(comparator) => comparator,
            // The formula of a plugin is not known yet.
            Err(ComparatorError::Unknown(name)) if is_plugin_path(&name) => return,
            Err(ComparatorError::Unknown(name)) => {
                let none = StrategyNames::default();
                let installed = installed.unwrap_or(&none);
                if installed.has("comparator", &name) {
                    return;
                }
                let built_in = Comparator::BUILT_IN.iter().map(Comparator::name);
                let standard = installed.standard("comparator").iter().map(String::as_str);
                let known: Vec<&str> = built_in.chain(standard).collect();
                let own = self.config.formulas.keys().map(String::as_str);
                let advice = did_you_mean(nearest(&name, known.iter().copied().chain(own)));
                let valid = format!(
                    "{}, the path of a component (*.wasm) or the name of a formula in `formulas`",
                    known.join(", ")
                );
                let text = invalid_name(installed, "comparator", &name, &valid, advice);
                return self.report([top("comparator")], text);
            }
            Err(error @ ComparatorError::Formula { .. }) => {
                return self.report([top("comparator"), top("formulas")], error.to_string());
            }
        };
        let name = &self.config.comparator;
        let of_operator = self.config.relations.iter().any(|r| &r.operator == name);
        if Comparator::built_in(name).is_some()
            && self.config.formulas.contains_key(name)
            && !of_operator
        {
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
