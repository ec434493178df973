//! The formulas that the configuration contains: those of operators and of the comparator.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use pbg_core::model::{Comparator, Operator};
use pbg_core::strategy::StrategyId;
use pbg_formula::comparator::ComparatorDefinition;
use pbg_formula::error::FormulaError;
use pbg_formula::operator::OperatorDefinition;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::Config;
use super::installed::is_plugin_path;

/// Error of a formula that cannot be written as text, such as one with an infinite number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("formulas: the formula of {name} cannot be written: {reason}")]
pub struct UnwritableFormula {
    name: String,
    reason: String,
}

/// Parameters of a plugin, by name.
pub(super) type Parameters = BTreeMap<String, Json>;

/// What a formula's text says about the plugin that has built it. A formula that a user has written says nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FormulaOrigin {
    /// Name and version of the plugin.
    pub plugin: Option<String>,
    /// Parameters of `[plugins.params]` with which it was built.
    pub params: Parameters,
}

impl FormulaOrigin {
    /// Creates the origin of a formula that a plugin has built with these parameters.
    #[must_use]
    pub fn of_plugin(plugin: &StrategyId, params: Parameters) -> Self {
        Self {
            plugin: Some(format!("{} {}", plugin.name, plugin.version)),
            params,
        }
    }

    fn of(text: &str) -> Self {
        // An invalid formula is reported when it is read.
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Returns whether a plugin has built the formula. If not, it was written by hand, or by an earlier version.
    pub(super) fn is_known(&self) -> bool {
        self.plugin.is_some() || !self.params.is_empty()
    }

    /// Describes where the formula of the key `name` comes from.
    pub(super) fn description(&self, name: &str) -> String {
        match &self.plugin {
            None => "written as text".to_owned(),
            Some(plugin) if is_plugin_path(name) => format!("from the plugin {plugin} in {name}"),
            Some(plugin) => format!("from the plugin {plugin}"),
        }
    }
}

/// Returns a formula's text without its origin.
fn without_origin(text: &str) -> Cow<'_, str> {
    if !FormulaOrigin::of(text).is_known() {
        return Cow::Borrowed(text);
    }
    match serde_json::from_str(text) {
        Ok(Json::Object(mut fields)) => {
            fields.retain(|field, _| field != "plugin" && field != "params");
            Cow::Owned(Json::Object(fields).to_string())
        }
        _ => Cow::Borrowed(text),
    }
}

impl Config {
    /// Reads a formula, and checks it with `check`, which gets the largest number of nodes.
    ///
    /// # Errors
    /// The reason why the formula is invalid.
    pub(super) fn read_formula<D: DeserializeOwned, F>(
        &self,
        text: &str,
        check: impl FnOnce(D, usize) -> Result<F, FormulaError>,
    ) -> Result<F, String> {
        let text = without_origin(text);
        let definition = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let most = usize::try_from(self.plugins.limits.graph_nodes).unwrap_or(usize::MAX);
        check(definition, most).map_err(|error| error.to_string())
    }

    /// Stores the formula of the operator or the comparator called `name`, which comes from `origin`.
    ///
    /// # Errors
    /// When the formula contains a number that cannot be written as text.
    pub fn set_formula(
        &mut self,
        name: &str,
        formula: &impl Serialize,
        origin: &FormulaOrigin,
    ) -> Result<(), UnwritableFormula> {
        let text = formula_text(name, formula, origin)?;
        self.formulas.insert(name.to_owned(), text);
        Ok(())
    }

    /// Removes from all formulas the parameters with which plugins have built them.
    pub fn forget_parameters_of_formulas(&mut self) {
        for text in self.formulas.values_mut() {
            if let Ok(Json::Object(mut fields)) = serde_json::from_str(text)
                && fields.remove("params").is_some()
            {
                *text = Json::Object(fields).to_string();
            }
        }
    }

    /// Returns the origin of the formula called `name`, if there is one.
    pub(super) fn formula_origin(&self, name: &str) -> Option<FormulaOrigin> {
        self.formulas.get(name).map(|text| FormulaOrigin::of(text))
    }

    /// Removes the formulas that no relation uses as its operator, and that are not of the comparator.
    pub fn remove_unused_formulas(&mut self) {
        let operators = self.relations.iter().map(|relation| &relation.operator);
        let used: BTreeSet<&String> = operators.chain([&self.comparator]).collect();
        self.formulas.retain(|name, _| used.contains(name));
    }

    /// Returns the names of the plugins whose formulas relations and the comparator use, as in the plugins' metadata,
    /// sorted.
    #[must_use]
    pub fn formula_plugins(&self) -> Vec<String> {
        let operators = self.relations.iter().map(|r| self.operator(&r.operator));
        let mut names: Vec<String> = operators
            .filter_map(|operator| match operator {
                Ok(Operator::Traced(formula)) => Some(formula.name().to_owned()),
                _ => None,
            })
            .collect();
        if let Ok(Comparator::Traced(formula)) = self.comparator() {
            names.push(formula.name().to_owned());
        }
        names.sort();
        names.dedup();
        names
    }
}

/// Returns the text by which configurations keep the formula of the operator or the comparator called `name`, which comes
/// from `origin`.
///
/// # Errors
/// When the formula contains a number that cannot be written as text.
pub fn formula_text(
    name: &str,
    formula: &impl Serialize,
    origin: &FormulaOrigin,
) -> Result<String, UnwritableFormula> {
    #[derive(Serialize)]
    struct Stored<'a, F> {
        #[serde(skip_serializing_if = "Option::is_none")]
        plugin: &'a Option<String>,
        #[serde(skip_serializing_if = "Parameters::is_empty")]
        params: &'a Parameters,
        #[serde(flatten)]
        formula: &'a F,
    }
    let FormulaOrigin { plugin, params } = origin;
    let stored = Stored {
        plugin,
        params,
        formula,
    };
    serde_json::to_string(&stored).map_err(|error| UnwritableFormula {
        name: name.to_owned(),
        reason: error.to_string(),
    })
}

/// Writes a formula as runs write it, so that equal formulas are equal texts; an invalid one stays as it is. The name of a
/// comparator is that of its key, so it is left out.
pub(super) fn canonical_formula(text: &str) -> String {
    let plain = without_origin(text);
    let rewritten = match serde_json::from_str(&plain) {
        Ok::<OperatorDefinition, _>(operator) => serde_json::to_string(&operator),
        Err(_) => serde_json::from_str(&plain).and_then(|comparator| {
            serde_json::to_string(&ComparatorDefinition {
                name: String::new(),
                ..comparator
            })
        }),
    };
    rewritten.unwrap_or_else(|_| text.to_owned())
}
