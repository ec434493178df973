//! Resolves the name of the comparator: a built-in comparator, or a formula of the configuration.

use pbg_core::model::Comparator;
use pbg_formula::comparator::{ComparatorDefinition, ComparatorHandle};

use super::Config;

/// Error of a comparator whose definition is missing or invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComparatorError {
    /// The comparator is neither built in nor a formula of the configuration.
    #[error("the comparator {0} is not built in, and `formulas` does not contain it")]
    Unknown(String),
    /// The configuration's text for the comparator is not a valid formula.
    #[error("formulas: invalid formula of the comparator {name}: {reason}")]
    Formula {
        /// Name of the comparator.
        name: String,
        /// Reason why the formula is invalid.
        reason: String,
    },
}

impl Config {
    /// Returns the comparator of two embeddings.
    ///
    /// # Errors
    /// When it is not built in and this configuration has no valid formula of it.
    pub fn comparator(&self) -> Result<Comparator, ComparatorError> {
        let name = &self.comparator;
        if let Some(comparator) = Comparator::built_in(name) {
            return Ok(comparator);
        }
        let Some(text) = self.formulas.get(name) else {
            return Err(ComparatorError::Unknown(name.clone()));
        };
        let formula = self.read_formula(text, ComparatorDefinition::check);
        let formula = formula.map_err(|reason| ComparatorError::Formula {
            name: name.clone(),
            reason,
        })?;
        Ok(Comparator::Traced(ComparatorHandle::new(formula)))
    }

    /// Removes the formulas of all operators.
    pub fn keep_formula_of_comparator(&mut self) {
        let own = &self.comparator;
        self.formulas.retain(|name, _| name == own);
    }
}
