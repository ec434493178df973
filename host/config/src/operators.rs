//! What the operators of relations stand for: built-in ones, and the formulas of plugins.

use pbg_core::model::Operator;
use pbg_core::operator::{Definition, Traced};

use super::Config;

/// Why an operator stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// Nobody has asked the plugin for its formula.
    #[error("the operator {name} is neither built in, nor has its plugin been asked for a formula")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// What the configuration has is no formula.
    #[error("formulas: that of {name} is none: {reason}")]
    Formula {
        /// Name of the operator.
        name: String,
        /// Why not.
        reason: String,
    },
}

impl Config {
    /// What the operator called `name` is.
    ///
    /// # Errors
    /// When it is neither built in nor a formula that this configuration has.
    pub fn operator(&self, name: &str) -> Result<Operator, OperatorError> {
        if let Some(operator) = Operator::built_in(name) {
            return Ok(operator);
        }
        let Some(text) = self.formulas.get(name) else {
            let name = name.to_owned();
            return Err(OperatorError::Unknown { name });
        };
        let failed = |reason: String| OperatorError::Formula {
            name: name.to_owned(),
            reason,
        };
        let definition: Definition =
            serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
        let most = usize::try_from(self.plugins.limits.graph_nodes).unwrap_or(usize::MAX);
        let formula = definition
            .check(most)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Operator::Traced(Traced::new(formula)))
    }

    /// The operators of relations that are no built-in ones and whose formulas it has not, each once.
    #[must_use]
    pub fn operators_to_load(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for relation in &self.relations {
            let name = &relation.operator;
            let known = Operator::built_in(name).is_some() || self.formulas.contains_key(name);
            if !known && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Takes the formula that the operator called `name` stands for.
    ///
    /// # Errors
    /// When it has a number that no text can say.
    pub fn set_formula(&mut self, name: &str, formula: &Definition) -> Result<(), OperatorError> {
        let text = serde_json::to_string(formula).map_err(|error| OperatorError::Formula {
            name: name.to_owned(),
            reason: error.to_string(),
        })?;
        self.formulas.insert(name.to_owned(), text);
        Ok(())
    }

    /// Names of the plugins whose formulas relations use, as they name themselves.
    #[must_use]
    pub fn operator_plugins(&self) -> Vec<String> {
        let operators = self.relations.iter().map(|r| self.operator(&r.operator));
        let mut names: Vec<String> = operators
            .filter_map(|operator| match operator {
                Ok(Operator::Traced(formula)) => Some(formula.name().to_owned()),
                _ => None,
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }
}
