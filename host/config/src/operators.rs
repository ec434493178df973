//! Resolves the names of operators: built-in operators, and formulas of plugins.

use pbg_core::model::Operator;
use pbg_formula::operator::{FormulaHandle, OperatorDefinition};

use super::Config;

/// Error of an operator whose definition is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The operator is not built in, and its plugin has not been asked for its formula.
    #[error("the operator {0} is not built in, and its plugin has not been asked for its formula")]
    Unknown(String),
    /// The configuration's text for the operator is not a valid formula.
    #[error("formulas: invalid formula of {name}: {reason}")]
    Formula {
        /// Name of the operator.
        name: String,
        /// Reason why the formula is invalid.
        reason: String,
    },
}

impl Config {
    /// Returns the operator called `name`.
    ///
    /// # Errors
    /// When it is not built in and this configuration has no valid formula of it.
    pub fn operator(&self, name: &str) -> Result<Operator, OperatorError> {
        if let Some(operator) = Operator::built_in(name) {
            return Ok(operator);
        }
        let Some(text) = self.formulas.get(name) else {
            return Err(OperatorError::Unknown(name.to_owned()));
        };
        let formula = self.read_formula(text, OperatorDefinition::check);
        let formula = formula.map_err(|reason| OperatorError::Formula {
            name: name.to_owned(),
            reason,
        })?;
        Ok(Operator::Traced(FormulaHandle::new(formula)))
    }

    /// Returns the names of operators that are not built in and whose formulas this configuration lacks, each once.
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
}
