//! From text to a configuration, or to everything that is wrong with it.

use super::check::{self, Findings};
use super::errors::{ConfigErrors, Problem};
use super::key_path::KeyPath;
use super::node::{Node, Place, excerpt};
use super::{Config, Installed, defaults, overrides, spec, validate};

impl Config {
    /// Reads a configuration in TOML and applies `overrides`, pairs of key path and value as
    /// `--set` takes them, in order. `origin` names the text in messages, usually its file.
    ///
    /// The value of an override is read as TOML where the key accepts that, otherwise as text; a list
    /// may also be given as `a,b`; `none` and `null` unset a key that has no default.
    ///
    /// # Errors
    /// Everything that is wrong, each problem with its key and line. Names of strategies are taken
    /// as they are: the crate that loads them knows which there are.
    pub fn parse(
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, ConfigErrors> {
        Self::read(text, origin, overrides, None)
    }

    /// As [`Config::parse`], where strategies must be `installed` or paths. What the name of a file
    /// stands for is for the caller to put in its place.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn parse_with(
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
        installed: &Installed,
    ) -> Result<Self, ConfigErrors> {
        Self::read(text, origin, overrides, Some(installed))
    }

    fn read(
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
        installed: Option<&Installed>,
    ) -> Result<Self, ConfigErrors> {
        // Editors on Windows like to begin a file with a byte-order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (tree, problems) = changed(text, origin, overrides)?;
        from_tree(&tree, origin, problems, installed)
    }

    /// As [`Config::parse_with`], where the keys that say what a trained model means, and `seed`, are
    /// as `trained` has them unless the text or an override sets them.
    ///
    /// # Errors
    /// As [`Config::parse_with`], and when `trained` cannot be written as TOML.
    pub fn parse_for(
        trained: &Self,
        text: &str,
        origin: &str,
        overrides: &[(String, String)],
        installed: &Installed,
    ) -> Result<Self, ConfigErrors> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (mut tree, problems) = changed(text, origin, overrides)?;
        let defaults = toml::to_string(trained).map_err(|e| unreadable(origin, &e))?;
        let mut defaults = Node::parse(&defaults).map_err(|e| syntax_errors(origin, e))?;
        defaults.move_to(Place::Nowhere);
        defaults::take(&mut tree, &defaults);
        from_tree(&tree, origin, problems, Some(installed))
    }

    /// Checks a configuration that was built in memory as if it had been read.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let origin = "configuration";
        // TOML, unlike JSON, can write numbers that are not finite: the check must see them.
        let text = toml::to_string(self).map_err(|e| unreadable(origin, &e))?;
        let mut tree = Node::parse(&text).map_err(|errors| syntax_errors(origin, errors))?;
        tree.move_to(Place::Nowhere);
        from_tree(&tree, origin, vec![], None).map(|_| ())
    }
}

/// The tree of a text with overrides, and those that could not be applied.
fn changed(
    text: &str,
    origin: &str,
    overrides: &[(String, String)],
) -> Result<(Node, Vec<Problem>), ConfigErrors> {
    let mut tree = Node::parse(text).map_err(|errors| syntax_errors(origin, errors))?;
    let mut problems = Vec::new();
    for (key, value) in overrides {
        let (path, outcome) = match KeyPath::parse(key) {
            Some(path) => {
                let outcome = overrides::apply(&mut tree, &path, value);
                (path, outcome)
            }
            None => (KeyPath::default(), Err(not_a_key(key))),
        };
        if let Err(message) = outcome {
            problems.push(Problem::new(&path, Place::Set, message));
        }
    }
    Ok((tree, problems))
}

fn from_tree(
    tree: &Node,
    origin: &str,
    mut problems: Vec<Problem>,
    installed: Option<&Installed>,
) -> Result<Config, ConfigErrors> {
    let (
        json,
        Findings {
            problems: found,
            made_up,
        },
    ) = check::check(tree, spec::root());
    problems.extend(found);
    let config: Config = serde_json::from_value(json).map_err(|e| unreadable(origin, &e))?;
    for complaint in validate::complaints(&config, installed) {
        let about_made_up = complaint
            .concerns
            .iter()
            .any(|path| made_up.iter().any(|m| m.contains(path)));
        if !about_made_up {
            let blamed = complaint.concerns.first().cloned().unwrap_or_default();
            let place = tree.place_of(blamed.segments());
            problems.push(Problem::new(&blamed, place, complaint.message));
        }
    }
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(ConfigErrors::new(origin, problems))
    }
}

fn not_a_key(key: &str) -> String {
    format!(
        "{} is no key; expected one like num_epochs or entities.user.dimension",
        excerpt(key)
    )
}

fn syntax_errors(origin: &str, errors: Vec<(Place, String)>) -> ConfigErrors {
    let problem = |(place, message)| {
        Problem::new(
            &KeyPath::default(),
            place,
            format!("not valid TOML: {message}"),
        )
    };
    ConfigErrors::new(origin, errors.into_iter().map(problem).collect())
}

/// A value that has no form in text, or that passed the check against the schema but not serde's:
/// the schema is made to leave nothing for serde to find.
fn unreadable(origin: &str, error: &dyn std::fmt::Display) -> ConfigErrors {
    let problem = Problem::new(&KeyPath::default(), Place::Nowhere, error.to_string());
    ConfigErrors::new(origin, vec![problem])
}
