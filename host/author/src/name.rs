//! Names of plugins, which are used as names of files, modules, crates and types.

use crate::error::CreateError;

/// Words that are reserved in some language or tool.
const TAKEN: [&str; 74] = [
    // Rust.
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    // Python and JavaScript.
    "and",
    "class",
    "def",
    "del",
    "except",
    "from",
    "global",
    "import",
    "is",
    "lambda",
    "not",
    "or",
    "pass",
    "raise",
    "random",
    "with",
    // Modules of the projects.
    "component",
    "plugin",
];

/// A name that every language accepts for a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginName(String);

impl PluginName {
    /// Checks a name: lower-case letters, digits and underscores, a letter first, at most 64 characters.
    pub(crate) fn new(text: &str) -> Result<Self, CreateError> {
        let refuse = |reason| CreateError::Name {
            name: text.to_owned(),
            reason,
        };
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts || text.len() > 64 || !text.chars().all(allowed) || text.ends_with('_') {
            return Err(refuse(
                "must have 1 to 64 lower-case letters, digits and underscores, a letter first",
            ));
        }
        if TAKEN.contains(&text) || text.starts_with("pbg_plugin") {
            return Err(refuse("is reserved in one of the languages"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the name, as in `snake`.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the type, as in `Snake`.
    pub(crate) fn camel(&self) -> String {
        let words = self.0.split('_').filter(|word| !word.is_empty());
        words
            .map(|word| word[..1].to_ascii_uppercase() + &word[1..])
            .collect()
    }

    /// Returns the name of the package, as in `my-snake`.
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
