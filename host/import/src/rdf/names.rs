//! Names of entities and relations that the terms of RDF get.

pub(super) mod prefixes;

use std::io::Write as _;
use std::sync::Arc;

use oxrdf::LiteralRef;

use self::prefixes::PrefixTable;
use super::options::{BlankNodes, Literals, RdfOptions};
use super::syntax::RdfSyntax;

/// Term of a triple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Term<'a> {
    /// IRI, without angle brackets.
    Iri(&'a str),
    /// Label of a blank node, without `_:`.
    Label(&'a str),
    /// Blank node without a label: its number in the file, from 1.
    Anonymous(u64),
    /// Literal.
    Literal(LiteralRef<'a>),
}

/// Rule for the names of the terms of one file: `<IRI>`, or `prefix:rest` if a prefix shortens it, `_:label@file`,
/// `_:[number]@file`, and literals as N-Triples has them. No two terms get the same name.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermNames {
    prefixes: Arc<PrefixTable>,
    /// `@` and the name of the file, which blank nodes get.
    scope: String,
    blank_nodes: BlankNodes,
    literals: Literals,
}

impl TermNames {
    /// Returns the rule for a file, which is called `file` in the names of its blank nodes.
    pub(crate) fn new(options: &RdfOptions, prefixes: &Arc<PrefixTable>, file: &str) -> Self {
        Self {
            prefixes: Arc::clone(prefixes),
            scope: format!("@{file}"),
            blank_nodes: options.blank_nodes,
            literals: options.literals,
        }
    }

    /// Describes the rule, for a message about a file of this syntax.
    pub(crate) fn notes(&self, syntax: RdfSyntax) -> Vec<String> {
        let literals = match self.literals {
            Literals::Skip => "literals are skipped",
            Literals::Entities => "literals are entities",
        };
        let mut notes = vec![literals.to_owned()];
        if self.blank_nodes == BlankNodes::Shared {
            notes.push("blank nodes are shared with other files".to_owned());
        }
        if syntax == RdfSyntax::NQuads {
            notes.push("names of graphs are ignored".to_owned());
        }
        match self.prefixes.len() {
            0 => {}
            1 => notes.push("1 prefix shortens IRIs".to_owned()),
            count => notes.push(format!("{count} prefixes shorten IRIs")),
        }
        notes
    }

    /// Returns whether triples with literals are skipped.
    pub(super) fn skips_literals(&self) -> bool {
        self.literals == Literals::Skip
    }

    /// Returns whether no prefix shortens IRIs.
    pub(super) fn keeps_iris(&self) -> bool {
        self.prefixes.len() == 0
    }

    /// Returns the name of a prefix that shortens an IRI, and the rest of the IRI.
    pub(super) fn shorten<'a>(&self, iri: &'a str) -> Option<(&str, &'a str)> {
        self.prefixes.shorten(iri)
    }

    /// Appends the name of a term.
    ///
    /// # Errors
    /// When an IRI contains a line end or another control character, which is a sign of a missing `>`.
    pub(super) fn write(&self, term: Term<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        match term {
            Term::Iri(iri) => {
                if has_control(iri.as_bytes()) {
                    return Err("an IRI contains a control character".to_owned());
                }
                match self.shorten(iri) {
                    Some((name, rest)) => append(out, &[name, ":", rest]),
                    None => append(out, &["<", iri, ">"]),
                }
            }
            Term::Label(label) => match self.blank_nodes {
                BlankNodes::PerFile => append(out, &["_:", label, &self.scope]),
                BlankNodes::Shared => append(out, &["_:", label]),
            },
            Term::Anonymous(number) => {
                append(out, &["_:[", &number.to_string(), "]", &self.scope]);
            }
            Term::Literal(literal) => {
                // Writing to memory does not fail.
                let _ = write!(out, "{literal}");
            }
        }
        Ok(())
    }

    /// Returns the name of a term whose name by the default rule is `plain`.
    pub(crate) fn rename(&self, plain: &str) -> String {
        let iri = plain
            .strip_prefix('<')
            .and_then(|iri| iri.strip_suffix('>'));
        let label = plain.strip_prefix("_:");
        let term = match (iri, label) {
            (Some(iri), _) => Term::Iri(iri),
            (None, Some(number)) if number.starts_with('[') => {
                return format!("{plain}{}", self.scope);
            }
            (None, Some(label)) => Term::Label(label),
            (None, None) => return plain.to_owned(),
        };
        let mut out = Vec::new();
        match self.write(term, &mut out) {
            Ok(()) => String::from_utf8_lossy(&out).into_owned(),
            Err(_) => plain.to_owned(),
        }
    }
}

/// Returns whether a text has control characters other than tabs.
pub(super) fn has_control(text: &[u8]) -> bool {
    let is_control = |&byte: &u8| byte < b' ' && byte != b'\t';
    text.iter().fold(false, |any, byte| any | is_control(byte))
}

/// Returns whether a text of several lines has control characters other than tabs.
pub(super) fn has_control_in_lines(text: &[u8]) -> bool {
    let is_control = |&byte: &u8| byte < b' ' && byte != b'\t' && byte != b'\n';
    text.iter().fold(false, |any, byte| any | is_control(byte))
}

fn append(out: &mut Vec<u8>, parts: &[&str]) {
    parts
        .iter()
        .for_each(|part| out.extend_from_slice(part.as_bytes()));
}
