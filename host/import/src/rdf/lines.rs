//! Parser of blocks of N-Triples and N-Quads.

use oxrdf::Triple;
use oxttl::{NQuadsParser, NTriplesParser, TurtleSyntaxError};

use super::names::{self, Term};
use super::rows::{self, TripleRows};
use super::syntax::{RdfSyntax, TERMS};
use crate::block::{BadLines, EdgeRows, InputFile, LineError, NameSpan};
use crate::text::{self, NOT_UTF8};

/// Parses whole lines into `rows`. Names that are not part of the text are appended to `text`. Returns the number of
/// lines.
///
/// # Errors
/// When a line is wrong, and wrong lines end the import.
pub(crate) fn parse(
    text: &mut Vec<u8>,
    syntax: RdfSyntax,
    file: &InputFile,
    rows: &mut EdgeRows,
    bad: &mut BadLines,
) -> Result<u64, LineError> {
    rows.clear();
    let is_utf8 = text::check(text, file.on_bad_line)?;
    let mut written = Vec::new();
    let mut literals = 0;
    let mut triples = TripleRows {
        layout: &file.layout,
        names: &file.terms,
        rows,
        written: &mut written,
        base: text.len(),
        literals: &mut literals,
    };
    // Few blocks have control characters, so that few terms need to be searched for them.
    let has_control = names::has_control_in_lines(text);
    let (mut start, mut line) = (0, 0);
    for end in memchr::memchr_iter(b'\n', text) {
        let whole = LineText {
            line: &text[start..end],
            number: line,
            start: start as u32,
            has_control,
        };
        let pushed = match is_utf8 || std::str::from_utf8(whole.line).is_ok() {
            true => whole.push(syntax, &mut triples),
            false => Err(NOT_UTF8.to_owned()),
        };
        pushed.or_else(|what| bad.record(file.on_bad_line, LineError { line, what }))?;
        line += 1;
        start = end + 1;
    }
    bad.literals += literals;
    text.append(&mut written);
    Ok(line)
}

/// Line of a block, whose text is UTF-8.
struct LineText<'a> {
    line: &'a [u8],
    number: u64,
    /// Position of the line in the block.
    start: u32,
    /// Whether the block has control characters besides tabs and line feeds.
    has_control: bool,
}

impl LineText<'_> {
    /// Adds the triple of the line, if there is one.
    fn push(&self, syntax: RdfSyntax, triples: &mut TripleRows<'_>) -> Result<(), String> {
        match plain(self.line, syntax) {
            PlainLine::Empty => Ok(()),
            PlainLine::Triple([subject, predicate, object]) => {
                if object.kind == PlainKind::Literal {
                    if triples.names.skips_literals() {
                        *triples.literals += 1;
                        return Ok(());
                    }
                    return self.push_parsed(syntax, triples);
                }
                let spans = [
                    self.span(subject, triples)?,
                    self.span(predicate, triples)?,
                    self.span(object, triples)?,
                ];
                triples.push_spans(self.number, spans)
            }
            PlainLine::Other => self.push_parsed(syntax, triples),
        }
    }

    /// Returns the name of a plain term: its own text, if it is an IRI that no prefix shortens.
    fn span(&self, term: PlainTerm, triples: &mut TripleRows<'_>) -> Result<NameSpan, String> {
        let text = &self.line[term.start..term.end];
        let own = NameSpan {
            start: self.start + term.start as u32,
            end: self.start + term.end as u32,
        };
        let keeps = term.kind == PlainKind::Iri && triples.names.keeps_iris();
        if keeps && !(self.has_control && names::has_control(text)) {
            return Ok(own);
        }
        let text = std::str::from_utf8(text).unwrap_or_default();
        match term.kind {
            PlainKind::Label => triples.write(Term::Label(text.get(2..).unwrap_or_default())),
            _ => {
                let iri = text.get(1..text.len().saturating_sub(1));
                triples.write(Term::Iri(iri.unwrap_or_default()))
            }
        }
    }

    /// Adds the triple that the library finds in the line.
    fn push_parsed(&self, syntax: RdfSyntax, triples: &mut TripleRows<'_>) -> Result<(), String> {
        let Some(triple) = parse_line(self.line, syntax)? else {
            return Ok(());
        };
        let terms = rows::terms(triple.as_ref(), Term::Label);
        triples.push(self.number, terms)
    }
}

/// Parses a line with the library.
///
/// # Errors
/// When the line is not valid.
pub(super) fn parse_line(line: &[u8], syntax: RdfSyntax) -> Result<Option<Triple>, String> {
    let mut found = None;
    let mut take = |item: Result<Triple, TurtleSyntaxError>| match item {
        Ok(triple) if found.is_none() => {
            found = Some(triple);
            Ok(())
        }
        Ok(_) => Err("it has more than one triple".to_owned()),
        Err(error) => Err(explained(&error, syntax)),
    };
    let parsed = match syntax {
        RdfSyntax::NQuads => {
            let mut quads = NQuadsParser::new().lenient().for_slice(line);
            quads.try_for_each(|quad| take(quad.map(Triple::from)))
        }
        RdfSyntax::NTriples | RdfSyntax::Turtle => {
            let mut triples = NTriplesParser::new().lenient().for_slice(line);
            triples.try_for_each(&mut take)
        }
    };
    match parsed {
        Ok(()) => Ok(found),
        Err(_) if syntax == RdfSyntax::NTriples && has_graph(line) => Err(
            "it has a fourth term, the name of a graph; `--separator nquads` reads N-Quads"
                .to_owned(),
        ),
        Err(what) => Err(what),
    }
}

/// Returns whether a line is an N-Quad with the name of a graph.
pub(super) fn has_graph(line: &[u8]) -> bool {
    let mut quads = NQuadsParser::new().lenient().for_slice(line);
    let first = quads.next();
    let names_graph = matches!(first, Some(Ok(quad)) if !quad.graph_name.is_default_graph());
    names_graph && quads.next().is_none()
}

fn explained(error: &TurtleSyntaxError, syntax: RdfSyntax) -> String {
    let column = error.location().start.column + 1;
    let message = crate::shorten::shorten(error.message());
    format!("it is not {syntax}: {message} (column {column})")
}

/// Line as the fast path sees it.
#[derive(Debug, PartialEq, Eq)]
enum PlainLine {
    /// Blank, or a comment.
    Empty,
    /// A triple of plain terms.
    Triple([PlainTerm; TERMS]),
    /// Anything else, which the library decides.
    Other,
}

/// Term whose name needs no decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlainTerm {
    kind: PlainKind,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlainKind {
    Iri,
    Label,
    /// Literal, whose escapes are not checked.
    Literal,
}

/// Divides a line of plain terms: IRIs without escapes, simple labels, and literals. Most lines are such; the library
/// takes several times as long for them, since it copies every term.
fn plain(line: &[u8], syntax: RdfSyntax) -> PlainLine {
    let first = after_blanks(line, 0);
    if matches!(line.get(first), None | Some(b'#')) {
        return PlainLine::Empty;
    }
    match plain_terms(line, first, syntax) {
        Some(terms) => PlainLine::Triple(terms),
        None => PlainLine::Other,
    }
}

fn plain_terms(line: &[u8], first: usize, syntax: RdfSyntax) -> Option<[PlainTerm; TERMS]> {
    let subject = plain_node(line, first)?;
    let predicate = plain_iri(line, after_blanks(line, subject.end))?;
    let at = after_blanks(line, predicate.end);
    let object = match line.get(at)? {
        b'"' => plain_literal(line, at)?,
        _ => plain_node(line, at)?,
    };
    let mut end = after_blanks(line, object.end);
    if syntax == RdfSyntax::NQuads && line.get(end) != Some(&b'.') {
        end = after_blanks(line, plain_node(line, end)?.end);
    }
    if line.get(end) != Some(&b'.') {
        return None;
    }
    match line.get(after_blanks(line, end + 1)) {
        None | Some(b'#') => Some([subject, predicate, object]),
        Some(_) => None,
    }
}

/// Returns the first position from `from` on that is not blank. A carriage return is blank only at the end.
fn after_blanks(line: &[u8], from: usize) -> usize {
    let rest = line.get(from..).unwrap_or_default();
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    let at = from + blanks.count();
    match line.get(at..) {
        Some(b"\r") => at + 1,
        _ => at,
    }
}

fn plain_node(line: &[u8], at: usize) -> Option<PlainTerm> {
    if line.get(at) == Some(&b'<') {
        return plain_iri(line, at);
    }
    let label = line.get(at..)?.strip_prefix(b"_:")?;
    let is_plain = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let length = label.iter().take_while(is_plain).count();
    // Other characters may belong to the label.
    let ends = matches!(label.get(length), Some(b' ' | b'\t')) && length > 0;
    ends.then_some(PlainTerm {
        kind: PlainKind::Label,
        start: at,
        end: at + 2 + length,
    })
}

fn plain_iri(line: &[u8], at: usize) -> Option<PlainTerm> {
    let iri = line.get(at..)?.strip_prefix(b"<")?;
    let length = memchr::memchr3(b'>', b'<', b'\\', iri)?;
    (iri.get(length) == Some(&b'>')).then_some(PlainTerm {
        kind: PlainKind::Iri,
        start: at,
        end: at + length + 2,
    })
}

fn plain_literal(line: &[u8], at: usize) -> Option<PlainTerm> {
    let mut end = at + 1;
    loop {
        end += memchr::memchr2(b'"', b'\\', line.get(end..)?)?;
        match line.get(end)? {
            b'"' => break,
            _ => end += 2,
        }
    }
    end += 1;
    match line.get(end..)? {
        [b'^', b'^', ..] => end = plain_iri(line, end + 2)?.end,
        [b'@', tag @ ..] => {
            let is_tag = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'-';
            let length = tag.iter().take_while(is_tag).count();
            if length == 0 {
                return None;
            }
            end += 1 + length;
        }
        _ => {}
    }
    Some(PlainTerm {
        kind: PlainKind::Literal,
        start: at,
        end,
    })
}
