//! Syntaxes of RDF.

use std::fmt;

/// Number of terms of a triple: subject, predicate, object.
pub(crate) const TERMS: usize = 3;

/// Syntax of an RDF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdfSyntax {
    /// A triple per line.
    NTriples,
    /// A triple per line, with the name of a graph or without.
    NQuads,
    /// Statements with prefixes and abbreviations.
    Turtle,
}

impl RdfSyntax {
    /// Returns the name of the syntax on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NTriples => "ntriples",
            Self::NQuads => "nquads",
            Self::Turtle => "turtle",
        }
    }

    /// Returns the syntax with this name on the command line.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let all = [Self::NTriples, Self::NQuads, Self::Turtle];
        all.into_iter().find(|syntax| syntax.word() == word)
    }
}

impl fmt::Display for RdfSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NTriples => "N-Triples",
            Self::NQuads => "N-Quads",
            Self::Turtle => "Turtle",
        })
    }
}

/// Format of an RDF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RdfFormat {
    pub(crate) syntax: RdfSyntax,
    /// Number of lines that are skipped at the beginning at the user's request.
    pub(crate) preamble: u64,
}
