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
    /// SHA-256 of the plugin's file, in hexadecimal.
    pub sha256: Option<String>,
    /// Parameters of `[plugins.params]` with which it was built.
    pub params: Parameters,
}

impl FormulaOrigin {
    /// Creates the origin of a formula that a plugin has built with these parameters.
    #[must_use]
    pub fn of_plugin(plugin: &StrategyId, params: Parameters) -> Self {
        Self {
            plugin: Some(format!("{} {}", plugin.name, plugin.version)),
            sha256: (!plugin.sha256.is_empty()).then(|| plugin.sha256.clone()),
            params,
        }
    }

    /// Returns the identity of the plugin, if the formula says that one has built it. The text may be anyone's, so
    /// what is no checksum is not taken for one.
    fn builder(self) -> Option<StrategyId> {
        let plugin = self.plugin?;
        let (name, version) = plugin.rsplit_once(' ').unwrap_or((&plugin, ""));
        let is_checksum =
            |text: &String| text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit());
        Some(StrategyId {
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: self.sha256.filter(is_checksum).unwrap_or_default(),
        })
    }

    fn of(text: &str) -> Self {
        // An invalid formula is reported when it is read.
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Returns whether a plugin has built the formula. If not, it was written by hand, or by an earlier version.
    pub(super) fn is_known(&self) -> bool {
        self.plugin.is_some() || self.sha256.is_some() || !self.params.is_empty()
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

/// Fields of a formula's text that are its origin.
const ORIGIN: [&str; 3] = ["plugin", "sha256", "params"];

/// Returns a formula's text without its origin.
fn without_origin(text: &str) -> Cow<'_, str> {
    if !FormulaOrigin::of(text).is_known() {
        return Cow::Borrowed(text);
    }
    match serde_json::from_str(text) {
        Ok(Json::Object(mut fields)) => {
            fields.retain(|field, _| !ORIGIN.contains(&field.as_str()));
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

    /// Returns what plugins have built, `operator` or `comparator`, with their identities: for each formula that
    /// relations and the comparator use and that says which plugin has built it. The checksum of a plugin is empty if
    /// the formula does not contain it, as one that an earlier version has stored.
    #[must_use]
    pub fn formula_builders(&self) -> Vec<(&'static str, StrategyId)> {
        let operators = self.relations.iter().map(|relation| &relation.operator);
        let operators: BTreeSet<&String> = operators
            .filter(|name| Operator::built_in(name).is_none())
            .collect();
        let comparator = Some(&self.comparator);
        let comparator = comparator.filter(|name| Comparator::built_in(name).is_none());
        let operators = operators.into_iter().map(|name| ("operator", name));
        let used = operators.chain(comparator.map(|name| ("comparator", name)));
        used.filter_map(|(what, name)| Some((what, self.formula_origin(name)?.builder()?)))
            .collect()
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
        #[serde(skip_serializing_if = "Option::is_none")]
        sha256: &'a Option<String>,
        #[serde(skip_serializing_if = "Parameters::is_empty")]
        params: &'a Parameters,
        #[serde(flatten)]
        formula: &'a F,
    }
    let stored = Stored {
        plugin: &origin.plugin,
        sha256: &origin.sha256,
        params: &origin.params,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a configuration whose comparator is a formula with these fields in front.
    fn config(origin: &str) -> Config {
        let text = "dataset = 'data'\ncheckpoint_path = 'model'\ndimension = 8\n\
                    [entities.a]\nnum_partitions = 1\n\
                    [[relations]]\nname = 'r'\nlhs = 'a'\nrhs = 'a'\noperator = 'none'\n";
        let formula = format!(
            r#"{{{origin}"name": "far", "components": 1, "score": 3,
            "nodes": [{{"component": 0}}, {{"component": 1}}, {{"binary": ["mul", 0, 1]}}, {{"sum": 2}}]}}"#
        );
        let mut config = Config::parse(text, "pbg.toml", &[]).unwrap();
        config.comparator = "far".to_owned();
        config.formulas.insert("far".to_owned(), formula);
        config
    }

    #[test]
    fn a_formula_says_which_plugin_has_built_it() {
        let sum = "0123456789abcdef".repeat(4);
        let plugin = |version: &str, sha256: &str| {
            let (name, version) = ("far away".to_owned(), version.to_owned());
            let sha256 = sha256.to_owned();
            vec![(
                "comparator",
                StrategyId {
                    name,
                    version,
                    sha256,
                },
            )]
        };
        let own = config("");
        assert_eq!(own.formula_builders(), []);
        for (origin, builders) in [
            (
                format!(r#""plugin": "far away 1.2.3", "sha256": "{sum}", "#),
                plugin("1.2.3", &sum),
            ),
            // The text of an earlier version, and one that somebody has written.
            (
                r#""plugin": "far away 1.2.3", "#.to_owned(),
                plugin("1.2.3", ""),
            ),
            (
                r#""plugin": "far away 1.2.3", "sha256": "<b>", "#.to_owned(),
                plugin("1.2.3", ""),
            ),
            (format!(r#""sha256": "{sum}", "#), Vec::new()),
        ] {
            let built = config(&origin);
            assert_eq!(built.formula_builders(), builders, "{origin}");
            // Where a formula comes from does not decide what it computes.
            assert!(built.comparator().is_ok(), "{origin}");
            assert_eq!(built.training_hash(), own.training_hash(), "{origin}");
        }
    }
}
