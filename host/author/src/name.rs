//! Names of plugins. Projects use them as the names of files, modules, crates and types.

use crate::error::CreateError;

/// Words that cannot be the name of a plugin: keywords and common modules of its language, and modules of its project;
/// separated by blanks.
const RESERVED: [&str; 3] = [
    // Rust.
    "abstract alloc as async await become box break const continue core crate do dyn else enum extern \
     false final fn for gen if impl in let loop macro match mod move mut override priv proc_macro pub ref \
     return self static std struct super test trait true try type typeof unsafe unsized use virtual where \
     while yield",
    // Python and JavaScript.
    "and class def del except from global import is lambda not or pass raise random with",
    // Modules that every project contains.
    "component plugin",
];

/// Name that every plugin language accepts for a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginName(String);

impl PluginName {
    /// Checks a name: 1 to 64 lower-case letters, digits and underscores, starting with a letter and not ending with an
    /// underscore.
    pub(crate) fn new(text: &str) -> Result<Self, CreateError> {
        let refuse = |reason| CreateError::Name {
            name: text.to_owned(),
            reason,
        };
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts || text.len() > 64 || !text.chars().all(allowed) || text.ends_with('_') {
            return Err(refuse(
                "must have 1 to 64 lower-case letters, digits and underscores, start with a letter and not end with `_`",
            ));
        }
        let mut reserved = RESERVED.iter().flat_map(|words| words.split(' '));
        if reserved.any(|word| word == text) || text.starts_with("pbg_plugin") {
            return Err(refuse(
                "is reserved by a plugin language or by the SDK; choose another one",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the name as given, for example `largest_first`.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the plugin's type, for example `LargestFirst`.
    pub(crate) fn camel(&self) -> String {
        let words = self.0.split('_').filter(|word| !word.is_empty());
        words
            .map(|word| word[..1].to_ascii_uppercase() + &word[1..])
            .collect()
    }

    /// Returns the name of the plugin's package, for example `largest-first`.
    pub(crate) fn kebab(&self) -> String {
        self.0.replace('_', "-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_type() {
        let name = PluginName::new("largest_first_2").expect("a good name");
        assert_eq!(name.camel(), "LargestFirst2");
        assert_eq!(name.kebab(), "largest-first-2");
    }

    #[test]
    fn names_that_some_language_refuses_are_refused() {
        for bad in [
            "", "Snake", "1st", "a-b", "../x", "ümlaut", "loop", "lambda", "_a", "a_", "a b",
        ] {
            assert!(PluginName::new(bad).is_err(), "{bad:?}");
        }
        assert!(PluginName::new(&"a".repeat(65)).is_err());
    }
}
