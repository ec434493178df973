//! Languages in which plugins can be written.

use serde::{Deserialize, Serialize};

/// Language of a plugin project, with templates, an SDK and a builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Rust, compiled for `wasm32-unknown-unknown`.
    Rust,
    /// Python, with the interpreter in the component (`componentize-py`).
    Python,
    /// JavaScript, with the interpreter in the component (`componentize-qjs`).
    JavaScript,
    /// C, compiled by clang without a C library.
    C,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 4] = [Self::Rust, Self::Python, Self::JavaScript, Self::C];

    /// Returns the name of its folder in `templates`, and of the language in `plugin.toml`.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::C => "c",
        }
    }
}

impl std::fmt::Display for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::C => "C",
        })
    }
}
