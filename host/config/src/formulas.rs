//! The formulas that the configuration contains: those of operators and of the comparator.

use std::collections::BTreeSet;

use pbg_core::model::{Comparator, Operator};
use pbg_formula::comparator::ComparatorDefinition;
use pbg_formula::error::FormulaError;
use pbg_formula::operator::OperatorDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Config;

/// Error of a formula that cannot be written as text, such as one with an infinite number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("formulas: the formula of {name} cannot be written: {reason}")]
pub struct UnwritableFormula {
    name: String,
    reason: String,
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
        let definition = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let most = usize::try_from(self.plugins.limits.graph_nodes).unwrap_or(usize::MAX);
        check(definition, most).map_err(|error| error.to_string())
    }

    /// Stores the formula of the operator or the comparator called `name`.
    ///
    /// # Errors
    /// When the formula contains a number that cannot be written as text.
    pub fn set_formula(
        &mut self,
        name: &str,
        formula: &impl Serialize,
    ) -> Result<(), UnwritableFormula> {
        let text = serde_json::to_string(formula).map_err(|error| UnwritableFormula {
            name: name.to_owned(),
            reason: error.to_string(),
        })?;
        self.formulas.insert(name.to_owned(), text);
        Ok(())
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

/// Writes a formula as runs write it, so that equal formulas are equal texts; an invalid one stays as it is. The name of a
/// comparator is that of its key, so it is left out.
pub(super) fn canonical_formula(text: &str) -> String {
    let rewritten = match serde_json::from_str(text) {
        Ok::<OperatorDefinition, _>(operator) => serde_json::to_string(&operator),
        Err(_) => serde_json::from_str(text).and_then(|comparator| {
            serde_json::to_string(&ComparatorDefinition {
                name: String::new(),
                ..comparator
            })
        }),
    };
    rewritten.unwrap_or_else(|_| text.to_owned())
}
