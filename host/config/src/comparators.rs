//! Resolves the name of the comparator: a built-in comparator, or a formula of a plugin or of the configuration.

use pbg_core::model::Comparator;
use pbg_formula::comparator::{ComparatorDefinition, ComparatorHandle};

use super::Config;
use super::installed::is_plugin_path;

/// Error of a comparator whose definition is missing or invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComparatorError {
    /// The comparator is not built in, and this configuration does not contain its formula.
    #[error(
        "the comparator {0} is not built in, and its plugin has not been asked for its formula"
    )]
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
        let named = |definition: ComparatorDefinition, most| {
            // The path of a file is long, and its plugin has a name of its own.
            let name = match is_plugin_path(name) && !definition.name.is_empty() {
                true => definition.name.clone(),
                false => name.clone(),
            };
            ComparatorDefinition { name, ..definition }.check(most)
        };
        let formula = self.read_formula(text, named);
        let formula = formula.map_err(|reason| ComparatorError::Formula {
            name: name.clone(),
            reason,
        })?;
        Ok(Comparator::Traced(ComparatorHandle::new(formula)))
    }

    /// Returns the name of the comparator if it is not built in and this configuration lacks its formula.
    #[must_use]
    pub fn comparator_to_load(&self) -> Option<&str> {
        let name = &self.comparator;
        let known = Comparator::built_in(name).is_some() || self.formulas.contains_key(name);
        (!known).then_some(name)
    }
}
