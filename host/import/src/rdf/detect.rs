//! Detection of RDF files from their first lines, and of the syntax that they have.

use super::lines::{has_graph, parse_line};
use super::names::{Term, TermNames};
use super::options::{Literals, Prefix, RdfOptions};
use super::rows;
use super::stream::{SkippedPart, TripleSink, TurtleStream};
use super::syntax::{RdfFormat, RdfSyntax, TERMS};
use crate::ImportError;
use crate::block::{EdgeFormat, LineError};
use crate::columns::{ColumnLayout, ColumnSpec, Role};
use crate::detect::detected::{DetectedFormat, TextSample, UserOptions};
use crate::format::Separator;
use crate::inputs::InputPath;
use crate::reading::FormatDescription;

/// Number of lines after the comments that are inspected.
const MOST_LINES: usize = 1000;

/// Detects the format of a file that begins with these whole lines. Returns `None` if it is not RDF.
///
/// # Errors
/// When the file looks like RDF but is not valid, or the options do not fit RDF.
pub(crate) fn detect(
    input: &InputPath,
    said: UserOptions<'_>,
    sample: &TextSample,
    compression: Option<&'static str>,
) -> Result<Option<DetectedFormat>, ImportError> {
    let wrong = |what: String| ImportError::input(&input.path, what);
    let sample = RdfSample::new(&sample.text, sample.whole);
    let syntax = match said.text.separator {
        Some(Separator::Rdf(syntax)) => syntax,
        Some(_) => return Ok(None),
        None if said.text.header == Some(true) => return Ok(None),
        None => match sample.syntax().map_err(wrong)? {
            Some(syntax) => syntax,
            None => return Ok(None),
        },
    };
    let found = sample.first(syntax, said.rdf);
    Ok(Some(DetectedFormat {
        format: EdgeFormat::Rdf(RdfFormat {
            syntax,
            preamble: said.text.skip_lines,
        }),
        layout: layout(said.columns).map_err(wrong)?,
        reading: FormatDescription {
            compression,
            separator: Some(Separator::Rdf(syntax)),
            skipped: said.text.skip_lines,
            first: found.names,
            ..FormatDescription::default()
        },
        prefixes: found.prefixes,
    }))
}

/// Returns the positions of the roles among subject, predicate and object.
fn layout(columns: Option<&ColumnSpec>) -> Result<ColumnLayout, String> {
    let usual = ColumnSpec::Positions(vec![Role::Lhs, Role::Rel, Role::Rhs]);
    let columns = columns.unwrap_or(&usual);
    match columns {
        ColumnSpec::Positions(roles) if roles.len() == TERMS && !roles.contains(&Role::Weight) => {
            ColumnLayout::without_header(Some(columns), TERMS, None)
        }
        _ => Err(
            "it is RDF, whose triples have three terms and no weight: give the roles of subject, predicate and object, \
             as in `--columns lhs,rel,rhs`, or none"
                .to_owned(),
        ),
    }
}

/// First lines of a file that may be RDF.
struct RdfSample<'a> {
    text: &'a str,
    /// Whether the text is the whole file.
    whole: bool,
    /// The first lines that are neither blank nor comments.
    lines: Vec<&'a str>,
}

/// First edge of a sample, and the prefixes declared before the first triple.
struct FirstTriple {
    names: Option<Vec<String>>,
    prefixes: Vec<Prefix>,
}

impl<'a> RdfSample<'a> {
    fn new(text: &'a str, whole: bool) -> Self {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self {
            text,
            whole,
            lines: lines.take(MOST_LINES).collect(),
        }
    }

    /// Detects the syntax; `None` if the text is not RDF.
    ///
    /// # Errors
    /// When every line looks like a triple, but none is valid.
    fn syntax(&self) -> Result<Option<RdfSyntax>, String> {
        let begins = |line: &&str| line.starts_with('<') || line.starts_with("_:");
        let is_valid = |line: &&&str| parse_line(line.as_bytes(), RdfSyntax::NQuads).is_ok();
        let looks_like_triples = !self.lines.is_empty()
            && self
                .lines
                .iter()
                .all(|line| begins(line) && (line.ends_with('.') || is_valid(&line)));
        if looks_like_triples {
            let valid: Vec<_> = self.lines.iter().filter(is_valid).collect();
            let of_lines = match valid.iter().any(|line| has_graph(line.as_bytes())) {
                true => RdfSyntax::NQuads,
                false => RdfSyntax::NTriples,
            };
            if valid.len() == self.lines.len() || !valid.is_empty() && !self.is_turtle(false) {
                return Ok(Some(of_lines));
            }
            if self.is_turtle(false) {
                return Ok(Some(RdfSyntax::Turtle));
            }
            let first = self.lines.first().map_or("", |line| line);
            return match parse_line(first.as_bytes(), RdfSyntax::NTriples) {
                Err(what) => Err(what),
                Ok(_) => Ok(Some(of_lines)),
            };
        }
        let is_turtle = self.begins_with_directive() || self.is_turtle(true);
        Ok(is_turtle.then_some(RdfSyntax::Turtle))
    }

    /// Returns whether the first statement is a declaration of Turtle: a directive with the IRI that belongs to it.
    fn begins_with_directive(&self) -> bool {
        let words = self.lines.iter().flat_map(|line| line.split_whitespace());
        let mut words = words.take(3);
        let directive = words.next().unwrap_or_default();
        let is = |name: &str| directive.eq_ignore_ascii_case(name);
        let rest: String = words.collect();
        let iri = match (
            is("prefix") || directive == "@prefix",
            is("base") || directive == "@base",
        ) {
            (true, _) => match rest.split_once(':') {
                Some((name, iri)) if !name.contains(['<', '"']) => iri,
                _ => "",
            },
            (_, true) => &rest,
            _ => "",
        };
        iri.strip_prefix('<').is_some_and(|iri| iri.contains('>'))
    }

    /// Returns whether the text is valid Turtle with triples or declarations, or begins with a statement that is.
    fn is_turtle(&self, only_first: bool) -> bool {
        let mut stream = TurtleStream::new();
        let mut trial = Trial::default();
        let mut statements = 0;
        let parsed = self.parse(&mut stream, &mut trial, |trial, is_end| {
            statements += u64::from(is_end);
            trial.errors > 0 || only_first && is_end
        });
        let has_content = trial.triples > 0 || !stream.prefixes().is_empty();
        parsed && trial.errors == 0 && has_content && (statements > 0 || !self.whole)
    }

    /// Parses the text as Turtle until `stop` says so, after a line or the end of a statement. Returns whether nothing
    /// exceeded a limit.
    fn parse(
        &self,
        stream: &mut TurtleStream,
        trial: &mut Trial,
        mut stop: impl FnMut(&Trial, bool) -> bool,
    ) -> bool {
        // The line end completes the last token.
        for mut rest in [self.text.as_bytes(), b"\n"] {
            while !rest.is_empty() {
                let Ok((length, is_end)) = stream.read(rest, trial) else {
                    return false;
                };
                rest = &rest[length..];
                if stop(trial, is_end) {
                    return true;
                }
            }
        }
        true
    }

    /// Returns the first edge, with the names that the default rule gives, and the prefixes before the first triple.
    fn first(&self, syntax: RdfSyntax, options: &RdfOptions) -> FirstTriple {
        let mut trial = Trial {
            with_literals: options.literals == Literals::Entities,
            ..Trial::default()
        };
        let mut prefixes = Vec::new();
        if syntax == RdfSyntax::Turtle {
            let mut stream = TurtleStream::new();
            self.parse(&mut stream, &mut Trial::default(), |trial, _| {
                trial.triples > 0
            });
            if options.file_prefixes {
                prefixes = stream.prefixes();
            }
            self.parse(&mut TurtleStream::new(), &mut trial, |trial, _| {
                trial.first.is_some() || trial.errors > 0
            });
        } else {
            for line in &self.lines {
                if let Ok(Some(triple)) = parse_line(line.as_bytes(), syntax) {
                    let _ = trial.take(0, rows::terms(triple.as_ref(), Term::Label));
                }
                if trial.first.is_some() {
                    break;
                }
            }
        }
        FirstTriple {
            names: trial.first,
            prefixes,
        }
    }
}

/// Consumer of the triples of a sample.
#[derive(Default)]
struct Trial {
    triples: u64,
    errors: u64,
    with_literals: bool,
    /// Names of the terms of the first edge.
    first: Option<Vec<String>>,
}

impl TripleSink for Trial {
    fn take(&mut self, _line: u64, terms: [Term<'_>; TERMS]) -> Result<(), String> {
        self.triples += 1;
        let is_edge = self.with_literals || !matches!(terms[2], Term::Literal(_));
        if self.first.is_none() && is_edge {
            let name = |term| {
                let mut name = Vec::new();
                TermNames::default().write(term, &mut name)?;
                Ok(String::from_utf8_lossy(&name).into_owned())
            };
            self.first = Some(terms.into_iter().map(name).collect::<Result<_, String>>()?);
        }
        Ok(())
    }

    fn refuse(&mut self, _wrong: LineError, _part: SkippedPart) -> Result<(), LineError> {
        self.errors += 1;
        Ok(())
    }
}
