//! Options of the user for RDF files.

use std::str::FromStr;

use crate::shorten::shorten;

/// Longest IRI of a prefix or of a base in bytes. It is repeated in the name of every term that uses it, so that a few
/// bytes of a file stand for as many.
pub(super) const MAX_PREFIX_IRI: usize = 4 << 10;

/// Options for RDF files: which terms become entities, and the names that they get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RdfOptions {
    /// Treatment of triples whose object is a literal.
    pub literals: Literals,
    /// Scope of the labels of blank nodes.
    pub blank_nodes: BlankNodes,
    /// Prefixes that shorten IRIs.
    pub prefixes: Vec<Prefix>,
    /// Whether IRIs are also shortened by the prefixes that Turtle files declare before their first triple.
    pub file_prefixes: bool,
}

/// Treatment of triples whose object is a literal: a text, a number or a date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Literals {
    /// They are skipped and counted.
    #[default]
    Skip,
    /// Each distinct literal is an entity.
    Entities,
}

impl FromStr for Literals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "skip" => Ok(Self::Skip),
            "entities" => Ok(Self::Entities),
            _ => Err(format!("`{text}` is neither `skip` nor `entities`")),
        }
    }
}

/// Scope of the labels of blank nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlankNodes {
    /// The same label in two files denotes two entities, as RDF defines it.
    #[default]
    PerFile,
    /// The same label denotes the same entity in all files, which are parts of one document.
    Shared,
}

impl FromStr for BlankNodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "per-file" => Ok(Self::PerFile),
            "shared" => Ok(Self::Shared),
            _ => Err(format!("`{text}` is neither `per-file` nor `shared`")),
        }
    }
}

/// Prefix that shortens IRIs: `NAME:rest` stands for the IRI `iri` followed by `rest`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Name, which may be empty.
    pub name: String,
    /// Beginning of the IRIs that are shortened, without angle brackets.
    pub iri: String,
}

impl Prefix {
    /// Returns a prefix. The IRI may be in angle brackets.
    ///
    /// # Errors
    /// When the name or the IRI has characters that do not belong there.
    pub fn new(name: &str, iri: &str) -> Result<Self, String> {
        let iri = iri.strip_prefix('<').unwrap_or(iri);
        let iri = iri.strip_suffix('>').unwrap_or(iri);
        let is_allowed = |c: char| !c.is_whitespace() && !c.is_control() && !"<>\"".contains(c);
        if name == "_" || name.contains([':', '=']) || !name.chars().all(is_allowed) {
            return Err(format!(
                "`{name}` cannot be the name of a prefix: it must not contain blanks, quotes, `:`, `=`, `<` or `>`, and \
                 must not be `_`, which begins blank nodes"
            ));
        }
        if iri.is_empty() || !iri.chars().all(is_allowed) {
            return Err(format!(
                "`{iri}` cannot begin an IRI: expected NAME=IRI, as in ex=http://example.org/"
            ));
        }
        if iri.len() > MAX_PREFIX_IRI {
            return Err(format!(
                "the IRI of the prefix `{}` has {} bytes, but at most {MAX_PREFIX_IRI} are allowed",
                shorten(name),
                iri.len()
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            iri: iri.to_owned(),
        })
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, iri)) => Self::new(name, iri),
            None => Err(format!(
                "`{text}` lacks `=`: expected NAME=IRI, as in ex=http://example.org/"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_a_name_and_an_iri() {
        let prefix = |name: &str, iri: &str| {
            Ok(Prefix {
                name: name.to_owned(),
                iri: iri.to_owned(),
            })
        };
        assert_eq!("ex=http://e/?a=".parse(), prefix("ex", "http://e/?a="));
        assert_eq!("ex=<http://e/>".parse(), prefix("ex", "http://e/"));
        assert_eq!("=http://e/".parse(), prefix("", "http://e/"));
        for wrong in [
            "ex",
            "ex=",
            "_=http://e/",
            "a:b=http://e/",
            "a b=c",
            "a=b c",
        ] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
        let iri = |length: usize| format!("ex={}", "a".repeat(length)).parse::<Prefix>();
        assert!(iri(MAX_PREFIX_IRI).is_ok());
        assert!(iri(MAX_PREFIX_IRI + 1).unwrap_err().contains("4097 bytes"));
    }
}
