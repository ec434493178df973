//! Triples of a Turtle text that is read piece by piece.

use std::collections::HashMap;

use oxrdf::Triple;
use oxttl::TurtleParser;
use oxttl::turtle::LowLevelTurtleParser;

use super::names::Term;
use super::options::Prefix;
use super::rows;
use super::statements::{StatementScanner, given_number};
use super::syntax::TERMS;
use crate::block::LineError;

/// Largest number of blank nodes without a label in one statement.
const MAX_ANONYMOUS: usize = 4 << 20;

/// Largest number of prefixes that a text declares.
const MAX_PREFIXES: usize = 4096;

/// Largest number of bytes that are passed to the library at a time. A few bytes may stand for a name of the greatest
/// length.
const PIECE: usize = 4 << 10;

/// Consumer of the triples of a stream.
pub(super) trait TripleSink {
    /// Takes a triple, with the number of the line on which it ends, from 0.
    ///
    /// # Errors
    /// When the triple cannot be an edge.
    fn take(&mut self, line: u64, terms: [Term<'_>; TERMS]) -> Result<(), String>;

    /// Takes an error in the text. The rest of the statement is skipped.
    ///
    /// # Errors
    /// When the error ends the import.
    fn refuse(&mut self, wrong: LineError) -> Result<(), LineError>;
}

/// Parser of a Turtle text that numbers its blank nodes without a label in their order, so that their names are the
/// same in every import. Memory is bounded by the longest token, and by the blank nodes of one statement.
pub(super) struct TurtleStream {
    parser: LowLevelTurtleParser,
    scanner: StatementScanner,
    anonymous: AnonymousNodes,
    /// Number of the current line, from 0.
    line: u64,
    /// Whether there was an error, after which the parser and the scanner may see different statements.
    has_failed: bool,
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
            parser: TurtleParser::new().lenient().low_level(),
            scanner: StatementScanner::default(),
            anonymous: AnonymousNodes::default(),
            line: 0,
            has_failed: false,
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
        self.parser.extend_from_slice(&line[..length]);
        self.drain(sink)?;
        if is_end && !self.has_failed {
            self.anonymous.numbers.clear();
            self.scanner.labels.clear();
        }
        self.line += u64::from(line[..length].ends_with(b"\n"));
        Ok((length, is_end))
    }

    /// Ends the text.
    pub(super) fn end(&mut self, sink: &mut dyn TripleSink) -> Result<(), LineError> {
        self.parser.end();
        self.drain(sink)
    }

    /// Passes on all triples that are complete.
    fn drain(&mut self, sink: &mut dyn TripleSink) -> Result<(), LineError> {
        while let Some(parsed) = self.parser.parse_next() {
            let line = self.line;
            match parsed {
                Ok(triple) => {
                    let taken = self.pass(&triple, sink);
                    taken.or_else(|what| sink.refuse(LineError { line, what }))?;
                }
                Err(error) => {
                    self.has_failed = true;
                    let at = error.location().start;
                    let message = crate::shorten::shorten(error.message());
                    sink.refuse(LineError {
                        line: at.line,
                        what: format!("it is not Turtle: {message} (column {})", at.column + 1),
                    })?;
                }
            }
        }
        let (prefixes, _) = self.parser.prefixes().size_hint();
        if prefixes > MAX_PREFIXES {
            return Err(self.wrong(format!("more than {MAX_PREFIXES} prefixes are declared")));
        }
        if self.anonymous.numbers.len() + self.scanner.labels.len() > MAX_ANONYMOUS {
            let what =
                format!("a statement has more than {MAX_ANONYMOUS} blank nodes without a label");
            return Err(self.wrong(what));
        }
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

    fn wrong(&self, what: String) -> LineError {
        LineError {
            line: self.line,
            what,
        }
    }
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
