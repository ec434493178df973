//! Triples of a Turtle text that is read piece by piece.

use std::collections::HashMap;

use oxrdf::Triple;
use oxttl::turtle::LowLevelTurtleParser;
use oxttl::{TurtleParser, TurtleSyntaxError};

use super::names::Term;
use super::options::{MAX_PREFIX_IRI, Prefix};
use super::rows;
use super::statements::{StatementScanner, given_number};
use super::syntax::TERMS;
use crate::block::LineError;
use crate::shorten::shorten;

/// Largest number of blank nodes without a label in one statement.
const MAX_ANONYMOUS: usize = 4 << 20;

/// Largest number of prefixes that a text declares, and of bytes that they take.
const MAX_PREFIXES: usize = 4096;
const MAX_PREFIX_BYTES: usize = 16 << 20;

/// Most bytes of declarations that are read again after wrong statements.
const MAX_DECLARED_AGAIN: usize = 1 << 30;

/// Largest number of bytes that are passed to the library at a time. A few bytes may stand for a name as long as the IRI
/// of a prefix.
const PIECE: usize = 512;

/// Consumer of the triples of a stream.
pub(super) trait TripleSink {
    /// Takes a triple, with the number of the line on which it ends, from 0.
    ///
    /// # Errors
    /// When the triple cannot be an edge.
    fn take(&mut self, line: u64, terms: [Term<'_>; TERMS]) -> Result<(), String>;

    /// Takes an error in the text, because of which this part of it is skipped.
    ///
    /// # Errors
    /// When the error ends the import.
    fn refuse(&mut self, wrong: LineError, part: SkippedPart) -> Result<(), LineError>;
}

/// Part of a text that an error concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkippedPart {
    Triple,
    /// Everything up to the end of the statement.
    RestOfStatement,
}

/// Parser of a Turtle text that numbers its blank nodes without a label in their order, so that their names are the
/// same in every import. Memory is bounded by the longest token, by the prefixes, and by the blank nodes of one
/// statement.
pub(super) struct TurtleStream {
    parser: LowLevelTurtleParser,
    scanner: StatementScanner,
    anonymous: AnonymousNodes,
    /// Number of the current line, from 0.
    line: u64,
    /// Whether there was an error, after which the parser no longer knows its position in the text.
    has_failed: bool,
    /// Whether the rest of the current statement is skipped after an error.
    skips: bool,
    /// Bytes of declarations that were read again after errors.
    declared_again: usize,
}

/// Numbers of the blank nodes without a label of the current statement, by the random number that the library gave them.
#[derive(Default)]
struct AnonymousNodes {
    numbers: HashMap<u128, u64>,
    /// Number of those in the whole text.
    count: u64,
}

impl TurtleStream {
    pub(super) fn new() -> Self {
        Self {
            parser: new_parser(),
            scanner: StatementScanner::default(),
            anonymous: AnonymousNodes::default(),
            line: 0,
            has_failed: false,
            skips: false,
            declared_again: 0,
        }
    }

    /// Returns the number of lines that are complete.
    pub(super) fn lines(&self) -> u64 {
        self.line
    }

    /// Returns the prefixes declared so far, in alphabetical order.
    pub(super) fn prefixes(&self) -> Vec<Prefix> {
        let prefixes = self.parser.prefixes().map(|(name, iri)| Prefix {
            name: name.to_owned(),
            iri: iri.to_owned(),
        });
        let mut prefixes: Vec<_> = prefixes.collect();
        prefixes.sort();
        prefixes
    }

    /// Reads the next bytes of the text, up to the end of a statement. Returns their number, and whether a statement
    /// ends there.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        sink: &mut dyn TripleSink,
    ) -> Result<(usize, bool), LineError> {
        // Lines are read one by one, since triples have no position.
        let text = &text[..text.len().min(PIECE)];
        let line = memchr::memchr(b'\n', text).map_or(text, |end| &text[..=end]);
        let (length, is_end) = self.scanner.scan(line).map_err(|what| self.wrong(what))?;
        let piece = &line[..length];
        let wrong = self.parse(piece, sink)?;
        self.line += u64::from(piece.ends_with(b"\n"));
        if let Some(wrong) = wrong {
            sink.refuse(wrong, SkippedPart::RestOfStatement)?;
            self.restart().map_err(|what| self.wrong(what))?;
            self.skips = true;
        }
        if self.anonymous.numbers.len() + self.scanner.labels.len() > MAX_ANONYMOUS {
            let what =
                format!("a statement has more than {MAX_ANONYMOUS} blank nodes without a label");
            return Err(self.wrong(what));
        }
        if is_end {
            self.anonymous.numbers.clear();
            self.scanner.labels.clear();
            self.skips = false;
        }
        Ok((length, is_end))
    }

    /// Ends the text.
    pub(super) fn end(&mut self, sink: &mut dyn TripleSink) -> Result<(), LineError> {
        if self.skips {
            return Ok(());
        }
        self.parser.end();
        match self.drain(sink)? {
            Some(wrong) => sink.refuse(wrong, SkippedPart::RestOfStatement),
            None => Ok(()),
        }
    }

    /// Parses a piece of the text that the scanner has read. Returns the first error in it.
    fn parse(
        &mut self,
        piece: &[u8],
        sink: &mut dyn TripleSink,
    ) -> Result<Option<LineError>, LineError> {
        let broken = self.scanner.take_broken();
        if self.skips {
            return Ok(None);
        }
        self.parser.extend_from_slice(piece);
        let mut wrong = None;
        if broken.is_some() || self.scanner.is_between_tokens() {
            wrong = self.drain(sink)?;
        }
        Ok(wrong.or_else(|| broken.map(|what| self.wrong(what.to_owned()))))
    }

    /// Passes on all triples that are complete, up to the first error, which is returned.
    fn drain(&mut self, sink: &mut dyn TripleSink) -> Result<Option<LineError>, LineError> {
        while let Some(parsed) = self.parser.parse_next() {
            let line = self.line;
            match parsed {
                Ok(triple) => {
                    let taken = self.pass(&triple, sink);
                    taken.or_else(|what| {
                        sink.refuse(LineError { line, what }, SkippedPart::Triple)
                    })?;
                }
                Err(error) => return Ok(Some(self.syntax_error(&error))),
            }
        }
        if self.scanner.take_declared() {
            self.check_declarations().map_err(|what| self.wrong(what))?;
        }
        Ok(None)
    }

    /// Checks the lengths of the base and of all prefixes.
    fn check_declarations(&self) -> Result<(), String> {
        let advice = "write the IRIs that use it in full";
        let base = self.parser.base_iri().map_or(0, str::len);
        if base > MAX_PREFIX_IRI {
            return Err(format!(
                "the base IRI has {base} bytes, but at most {MAX_PREFIX_IRI} are allowed; {advice}"
            ));
        }
        let (mut count, mut bytes) = (0, 0);
        for (name, iri) in self.parser.prefixes() {
            count += 1;
            bytes += name.len() + iri.len();
            if iri.len() > MAX_PREFIX_IRI {
                return Err(format!(
                    "the IRI of the prefix `{}` has {} bytes, but at most {MAX_PREFIX_IRI} are allowed; {advice}",
                    shorten(name),
                    iri.len()
                ));
            }
        }
        if count > MAX_PREFIXES {
            return Err(format!(
                "more than {MAX_PREFIXES} prefixes are declared; write the IRIs of some in full"
            ));
        }
        if bytes > MAX_PREFIX_BYTES {
            return Err(format!(
                "the prefixes take more than {MAX_PREFIX_BYTES} bytes; write the IRIs of some in full"
            ));
        }
        Ok(())
    }

    /// Replaces the parser by a new one with the same declarations. After an error the old one may see a string where
    /// the scanner sees none.
    ///
    /// # Errors
    /// When so many statements were wrong that declaring the prefixes again takes too long.
    fn restart(&mut self) -> Result<(), String> {
        let mut declarations = String::new();
        let mut declare = |what: &str, iri: &str| {
            declarations.push_str(what);
            declarations.push('<');
            for c in iri.chars() {
                match c {
                    '>' | '\\' | '\0'..=' ' => {
                        declarations.push_str(&format!("\\u{:04X}", u32::from(c)));
                    }
                    _ => declarations.push(c),
                }
            }
            declarations.push_str("> .\n");
        };
        for (name, iri) in self.parser.prefixes() {
            declare(&format!("@prefix {name}: "), iri);
        }
        // Without a base so far, the IRIs above stay as they are.
        if let Some(iri) = self.parser.base_iri() {
            declare("@base ", iri);
        }
        self.declared_again += declarations.len();
        if self.declared_again > MAX_DECLARED_AGAIN {
            return Err(
                "too many statements are wrong for a text with so many prefixes; write IRIs in full"
                    .to_owned(),
            );
        }
        self.has_failed = true;
        self.parser = new_parser();
        self.parser.extend_from_slice(declarations.as_bytes());
        self.scanner.leave_brackets();
        Ok(())
    }

    fn pass(&mut self, triple: &Triple, sink: &mut dyn TripleSink) -> Result<(), String> {
        let (anonymous, labels) = (&mut self.anonymous, &self.scanner.labels);
        let terms = rows::terms(triple.as_ref(), |label| {
            match given_number(label.as_bytes()) {
                Some(given) if !labels.contains(&given) => Term::Anonymous(anonymous.number(given)),
                _ => Term::Label(label),
            }
        });
        sink.take(self.line, terms)
    }

    /// Returns an error of the parser, with its position if the parser has read the text from the beginning.
    fn syntax_error(&self, error: &TurtleSyntaxError) -> LineError {
        let at = error.location().start;
        let what = format!("it is not Turtle: {}", shorten(error.message()));
        if self.has_failed {
            return self.wrong(what);
        }
        LineError {
            line: at.line,
            what: format!("{what} (column {})", at.column + 1),
        }
    }

    fn wrong(&self, what: String) -> LineError {
        LineError {
            line: self.line,
            what,
        }
    }
}

fn new_parser() -> LowLevelTurtleParser {
    TurtleParser::new().lenient().low_level()
}

impl AnonymousNodes {
    fn number(&mut self, given: u128) -> u64 {
        let count = &mut self.count;
        *self.numbers.entry(given).or_insert_with(|| {
            *count += 1;
            *count
        })
    }
}
