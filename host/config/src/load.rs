//! Parses and checks configurations, and reports all problems at once.

use super::check;
use super::errors::{ConfigErrors, ConfigProblem};
use super::key_path::KeyPath;
use super::node::{ConfigNode, KeyLocation, excerpt};
use super::{Config, StrategyNames, inherited, overrides, spec, validate};

impl Config {
    /// Parses a configuration in TOML and applies `overrides` in order, pairs of key path and value as for `--set`.
    /// `origin` is the name of the text in messages, usually its file.
    ///
    /// The value of an override is read as TOML where the key accepts that, otherwise as text; a list
    /// may also be given as `a,b`; `none` and `null` unset a key that has no default.
    ///
    /// # Errors
    /// Returns all problems, each with its key and line. Names of strategies are not checked, since only the crate that
    /// loads them knows the available ones.
    pub fn parse(
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, ConfigErrors> {
        Self::read(text, origin, overrides, None)
    }

    /// Like [`Config::parse`], but strategies must be `installed` or paths. The caller resolves the names of component
    /// files.
    ///
    /// # Errors
    /// As for [`Config::parse`].
    pub fn parse_with(
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
        installed: &StrategyNames,
    ) -> Result<Self, ConfigErrors> {
        Self::read(text, origin, overrides, Some(installed))
    }

    fn read(
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
        installed: Option<&StrategyNames>,
    ) -> Result<Self, ConfigErrors> {
        let (tree, problems) = changed(text, origin, overrides)?;
        from_tree(&tree, origin, problems, installed)
    }

    /// Like [`Config::parse_with`], but the keys that define the meaning of a trained model, and `seed`, default to
    /// their values in `trained`.
    ///
    /// # Errors
    /// As for [`Config::parse_with`], and when `trained` cannot be written as TOML.
    pub fn parse_for(
        trained: &Self,
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
        installed: &StrategyNames,
    ) -> Result<Self, ConfigErrors> {
        let (mut tree, problems) = changed(text, origin, overrides)?;
        inherited::inherit(&mut tree, &trained.tree(origin)?);
        from_tree(&tree, origin, problems, Some(installed))
    }

    /// Checks a configuration that was built in memory as if it had been read.
    ///
    /// # Errors
    /// Returns all problems.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let origin = "configuration";
        from_tree(&self.tree(origin)?, origin, vec![], None).map(|_| ())
    }

    /// Returns the tree of values, without locations.
    fn tree(&self, origin: &str) -> Result<ConfigNode, ConfigErrors> {
        // TOML, unlike JSON, can represent non-finite numbers, which the check must see.
        let text = toml::to_string(self).map_err(|e| unreadable(origin, &e))?;
        let mut tree = ConfigNode::parse(&text).map_err(|errors| syntax_errors(origin, errors))?;
        tree.move_to(KeyLocation::Nowhere);
        Ok(tree)
    }
}

/// Parses a text and applies overrides; returns the tree and a problem for each override that could not be applied.
fn changed(
    text: &str,
    origin: &str,
    overrides: &[(String, String)],
) -> Result<(ConfigNode, Vec<ConfigProblem>), ConfigErrors> {
    // Some editors on Windows write a byte-order mark at the beginning of a file.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut tree = ConfigNode::parse(text).map_err(|errors| syntax_errors(origin, errors))?;
    let mut problems = Vec::new();
    for (key, value) in overrides {
        let path = KeyPath::parse(key);
        let outcome = match &path {
            Some(path) => overrides::apply(&mut tree, path, value),
            None => Err(not_a_key(key)),
        };
        if let Err(message) = outcome {
            let path = path.unwrap_or_default();
            problems.push(ConfigProblem::new(&path, KeyLocation::Set, message));
        }
    }
    Ok((tree, problems))
}

fn from_tree(
    tree: &ConfigNode,
    origin: &str,
    mut problems: Vec<ConfigProblem>,
    installed: Option<&StrategyNames>,
) -> Result<Config, ConfigErrors> {
    let (json, found) = check::check(tree, spec::root());
    problems.extend(found.problems);
    let config: Config = serde_json::from_value(json).map_err(|e| unreadable(origin, &e))?;
    for complaint in validate::complaints(&config, installed) {
        let is_made_up = |path: &KeyPath| found.placeholders.iter().any(|m| m.contains(path));
        if !complaint.concerns.iter().any(is_made_up) {
            let blamed = complaint.concerns.first().cloned().unwrap_or_default();
            let place = tree.place_of(blamed.segments());
            problems.push(ConfigProblem::new(&blamed, place, complaint.message));
        }
    }
    match problems.is_empty() {
        true => Ok(config),
        false => Err(ConfigErrors::new(origin, problems)),
    }
}

fn not_a_key(key: &str) -> String {
    format!(
        "{} is not a key; expected a key such as num_epochs or entities.user.dimension",
        excerpt(key)
    )
}

fn syntax_errors(origin: &str, errors: Vec<(KeyLocation, String)>) -> ConfigErrors {
    let problem = |(place, message)| {
        let message = format!("not valid TOML: {message}");
        ConfigProblem::new(&KeyPath::default(), place, message)
    };
    ConfigErrors::new(origin, errors.into_iter().map(problem).collect())
}

/// Returns the error of a value that cannot be written as TOML, or that passed the check against the schema but not
/// that of serde. The latter should not happen, since the schema is at least as strict.
fn unreadable(origin: &str, error: &dyn std::fmt::Display) -> ConfigErrors {
    let problem = ConfigProblem::new(&KeyPath::default(), KeyLocation::Nowhere, error.to_string());
    ConfigErrors::new(origin, vec![problem])
}
