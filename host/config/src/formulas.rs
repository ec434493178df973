//! Reading of the configuration's formulas.

use pbg_formula::error::FormulaError;
use serde::de::DeserializeOwned;

use super::Config;

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
}
