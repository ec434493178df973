//! Rows of edges that triples become.

use oxrdf::{NamedOrBlankNodeRef, TermRef, TripleRef};

use super::names::{Term, TermNames};
use super::syntax::TERMS;
use crate::block::{EdgeRows, NameSpan};
use crate::columns::ColumnLayout;
use crate::text::check_length;

/// Destination of the triples of a block.
pub(super) struct TripleRows<'a> {
    pub(super) layout: &'a ColumnLayout,
    pub(super) names: &'a TermNames,
    pub(super) rows: &'a mut EdgeRows,
    /// Names that are not part of the text of the block.
    pub(super) written: &'a mut Vec<u8>,
    /// Number of bytes before the written names in the buffer of the block.
    pub(super) base: usize,
    /// Number of triples skipped because their object is a literal.
    pub(super) literals: &'a mut u64,
}

impl TripleRows<'_> {
    /// Adds the edge of a triple on `line`, or counts it if its object is a literal and literals are skipped.
    ///
    /// # Errors
    /// When a term cannot be a name.
    pub(super) fn push(&mut self, line: u64, terms: [Term<'_>; TERMS]) -> Result<(), String> {
        if matches!(terms[2], Term::Literal(_)) && self.names.skips_literals() {
            *self.literals += 1;
            return Ok(());
        }
        let undo = self.written.len();
        let mut spans = [NameSpan::default(); TERMS];
        for (span, term) in spans.iter_mut().zip(terms) {
            *span = self.write(term)?;
        }
        let pushed = self.push_spans(line, spans);
        if pushed.is_err() {
            self.written.truncate(undo);
        }
        pushed
    }

    /// Writes the name of a term, and returns its place in the buffer of the block.
    pub(super) fn write(&mut self, term: Term<'_>) -> Result<NameSpan, String> {
        let start = self.base + self.written.len();
        self.names.write(term, self.written)?;
        let end = self.base + self.written.len();
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Ok(NameSpan { start, end }),
            _ => Err("the names of a block take more than 4 GiB".to_owned()),
        }
    }

    /// Adds the edge whose terms have these names.
    pub(super) fn push_spans(&mut self, line: u64, spans: [NameSpan; TERMS]) -> Result<(), String> {
        let layout = self.layout;
        let name = |column: usize| {
            let span = spans[column];
            check_length((span.end - span.start) as usize, column).map(|()| span)
        };
        let (lhs, rhs) = (name(layout.lhs)?, name(layout.rhs)?);
        let rel = layout.rel.map(name).transpose()?;
        self.rows.push(line, (lhs, rel, rhs), None);
        Ok(())
    }
}

/// Returns the terms of a triple of the library. `blank` returns the term of the blank node with this label.
pub(super) fn terms<'a>(
    triple: TripleRef<'a>,
    mut blank: impl FnMut(&'a str) -> Term<'a>,
) -> [Term<'a>; TERMS] {
    let subject = match triple.subject {
        NamedOrBlankNodeRef::NamedNode(node) => Term::Iri(node.as_str()),
        NamedOrBlankNodeRef::BlankNode(node) => blank(node.as_str()),
    };
    let object = match triple.object {
        TermRef::NamedNode(node) => Term::Iri(node.as_str()),
        TermRef::BlankNode(node) => blank(node.as_str()),
        TermRef::Literal(literal) => Term::Literal(literal),
    };
    [subject, Term::Iri(triple.predicate.as_str()), object]
}
