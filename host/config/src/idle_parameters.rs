//! Parameters of plugins that have no effect, since the configuration contains the formula that they are for.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::Deserialize;

use super::Config;
use super::formulas::{FormulaOrigin, Parameters};
use super::key_path::{KeyPath, quoted_key};

/// Parameters for the plugin of a formula that the configuration contains as text, and that was not built with them as
/// far as the text says.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleParameters {
    /// Name of the plugin.
    pub plugin: String,
    /// Key of the formula.
    formula: String,
    /// Where the formula comes from, by what its text says.
    origin: FormulaOrigin,
}

impl IdleParameters {
    /// Returns whether a plugin has certainly built the formula with other parameters. A formula without an origin may
    /// be written by hand, or be that of an earlier version with these parameters.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.origin.is_known()
    }

    /// Returns the key of the formula in the configuration.
    #[must_use]
    pub fn formula_key(&self) -> String {
        KeyPath::from(["formulas", &self.formula]).to_string()
    }
}

impl fmt::Display for IdleParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plugin, formula) = (quoted_key(&self.plugin), self.formula_key());
        write!(f, "plugins.params.{plugin}: has no effect")?;
        if !self.is_certain() {
            return write!(
                f,
                " unless {formula} was built with it, since that is the formula as text"
            );
        }
        write!(f, ", since {formula} is the formula as text")?;
        match self.origin.params.is_empty() {
            true => Ok(()),
            false => write!(f, ", which was built with other parameters"),
        }
    }
}

impl std::error::Error for IdleParameters {}

impl Config {
    /// Returns the parameters for plugins of formulas that this configuration contains as text, except where a formula
    /// was built with them or is still to be built, each once.
    #[must_use]
    pub fn idle_parameters(&self) -> Vec<IdleParameters> {
        let operators = self.relations.iter().map(|relation| &relation.operator);
        let used: BTreeSet<&String> = operators.chain([&self.comparator]).collect();
        let used: Vec<(&String, FormulaOrigin)> = used
            .into_iter()
            .filter_map(|formula| Some((formula, self.formula_origin(formula)?)))
            .collect();
        let mut to_build: BTreeSet<String> = self.operators_to_load().into_iter().collect();
        to_build.extend(self.comparator_to_load().map(str::to_owned));
        let mut found: Vec<IdleParameters> = Vec::new();
        for (formula, origin) in &used {
            for plugin in self.names_as_plugin(formula) {
                let given = self.plugins.params.get(&plugin);
                let Some(given) = given.filter(|given| !given.is_empty()) else {
                    continue;
                };
                let built_with_them = used.iter().any(|(formula, origin)| {
                    is_built_with(origin, given) && self.names_as_plugin(formula).contains(&plugin)
                });
                let has_effect = built_with_them
                    || to_build.contains(&plugin)
                    || self.names_strategy(&plugin)
                    || found.iter().any(|known| known.plugin == plugin);
                if !has_effect {
                    found.push(IdleParameters {
                        plugin,
                        formula: (*formula).clone(),
                        origin: origin.clone(),
                    });
                }
            }
        }
        found
    }

    /// Returns the names by which `[plugins.params]` may call the plugin of a formula: that in its text, and its key.
    fn names_as_plugin(&self, formula: &String) -> BTreeSet<String> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let text = self.formulas.get(formula);
        let named = text.and_then(|text| serde_json::from_str::<Named>(text).ok());
        let named = named.map(|named| named.name);
        named.into_iter().chain([formula.clone()]).collect()
    }

    /// Returns whether a plugin that is no formula may have this name.
    fn names_strategy(&self, name: &str) -> bool {
        let strategies = [
            &self.bucket_order,
            &self.relation_sampler,
            &self.negative_sampler,
            &self.loss_fn,
            &self.lr_schedule.decay,
        ];
        let mut stems = strategies
            .into_iter()
            .map(|strategy| Path::new(strategy).file_stem());
        stems.any(|stem| stem.is_some_and(|stem| stem == name))
    }
}

fn is_built_with(origin: &FormulaOrigin, given: &Parameters) -> bool {
    origin.is_known() && origin.params == *given
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        dataset = "data"
        checkpoint_path = "model"
        dimension = 8
        entities.user.num_partitions = 1
        plugins.params.turns.count = 3
        relations = [
            { name = "a", lhs = "user", rhs = "user", operator = "old" },
            { name = "b", lhs = "user", rhs = "user", operator = "none" },
        ]
    "#;

    /// Returns the idle parameters where `formulas.old` is a formula of the plugin `turns` with this origin, and the
    /// second relation has this operator.
    fn idle(origin: &str, second: &str) -> Vec<String> {
        let mut config = Config::parse(TEXT, "pbg.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
        let formula = format!("{{{origin}\"name\":\"turns\"}}");
        config.formulas = [("old".to_owned(), formula)].into();
        second.clone_into(&mut config.relations[1].operator);
        let found = config.idle_parameters();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn parameters_are_idle_where_no_formula_has_them() {
        let of = |params: &str| format!("\"plugin\":\"turns 0.1.0\",\"params\":{params},");
        for (origin, said) in [
            (
                of("{\"count\":2}"),
                ", since formulas.old is the formula as text, which was built with other parameters",
            ),
            (of("{}"), ", since formulas.old is the formula as text"),
            (
                String::new(),
                " unless formulas.old was built with it, since that is the formula as text",
            ),
        ] {
            let said = format!("plugins.params.turns: has no effect{said}");
            assert_eq!(idle(&origin, "none"), [said]);
            // Another relation's operator is built with them.
            assert_eq!(idle(&origin, "turns"), [""; 0]);
        }
        assert_eq!(idle(&of("{\"count\":3}"), "none"), [""; 0]);
    }
}
