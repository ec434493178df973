//! Parser of text lines whose columns are not quoted.

use super::block::{BLOCK_BYTES, BadLines, EdgeRows, InputFile, LineError, MAX_NAME, NameSpan};
use super::columns::ColumnLayout;
use super::format::{CommentRule, OnBadLine, Separator, TextFormat};
use super::shorten::shorten;

/// Parameters for parsing the lines of a block.
pub(super) struct ParseOptions<'a> {
    pub(super) format: TextFormat,
    pub(super) layout: &'a ColumnLayout,
    pub(super) on_bad_line: OnBadLine,
}

impl<'a> ParseOptions<'a> {
    pub(super) fn of(file: &'a InputFile, format: TextFormat) -> Self {
        Self {
            format,
            layout: &file.layout,
            on_bad_line: file.on_bad_line,
        }
    }
}

/// Parses whole lines into `rows`. Returns the number of lines. Blank lines are skipped.
pub(super) fn parse(
    text: &[u8],
    how: &ParseOptions<'_>,
    rows: &mut EdgeRows,
    bad: &mut BadLines,
) -> Result<u64, LineError> {
    rows.clear();
    let is_utf8 = check(text, how.on_bad_line)?;
    let mut parser = Parser {
        text,
        how,
        comment: how.format.comment,
        is_utf8,
        fields: vec![NameSpan::default(); how.layout.count],
        line: 0,
        bad,
    };
    match how.format.separator {
        Separator::Character(separator) => parser.separated_by(separator, rows)?,
        Separator::Blanks | Separator::Rdf(_) => parser.separated_by_blanks(rows)?,
    }
    Ok(parser.line)
}

/// Checks that a block consists of whole lines of UTF-8 text. Returns whether it is UTF-8; if not, bad lines are skipped.
///
/// # Errors
/// When a line is too long, or is not UTF-8 and ends the import.
pub(super) fn check(text: &[u8], on_bad_line: OnBadLine) -> Result<bool, LineError> {
    let lines = |text: &[u8]| memchr::memchr_iter(b'\n', text).count() as u64;
    let checked = std::str::from_utf8(text);
    if let (Err(error), OnBadLine::Error) = (checked, on_bad_line) {
        return Err(LineError {
            line: lines(&text[..error.valid_up_to()]),
            what: NOT_UTF8.to_owned(),
        });
    }
    if text.last().is_some_and(|&byte| byte != b'\n') {
        return Err(LineError {
            line: lines(text),
            what: format!("the line is longer than {BLOCK_BYTES} bytes"),
        });
    }
    Ok(checked.is_ok())
}

pub(super) const NOT_UTF8: &str = "it is not UTF-8 text";

struct Parser<'a> {
    text: &'a [u8],
    how: &'a ParseOptions<'a>,
    comment: Option<CommentRule>,
    /// Whether the whole block is UTF-8. If not, every line is checked.
    is_utf8: bool,
    fields: Vec<NameSpan>,
    line: u64,
    bad: &'a mut BadLines,
}

impl Parser<'_> {
    fn separated_by(&mut self, separator: u8, rows: &mut EdgeRows) -> Result<(), LineError> {
        let text = self.text;
        let mut line_start = 0;
        let mut start = 0;
        let mut field = 0;
        for at in memchr::memchr2_iter(separator, b'\n', text) {
            let is_end = text[at] == b'\n';
            let end = if is_end && at > start && text[at - 1] == b'\r' {
                at - 1
            } else {
                at
            };
            if let Some(slot) = self.fields.get_mut(field) {
                *slot = NameSpan {
                    start: start as u32,
                    end: end as u32,
                };
            }
            field += 1;
            start = at + 1;
            if is_end {
                if field > 1 || self.fields[0].start < self.fields[0].end {
                    self.take_line(field, (line_start, end), rows)?;
                }
                field = 0;
                self.line += 1;
                line_start = start;
            }
        }
        Ok(())
    }

    fn separated_by_blanks(&mut self, rows: &mut EdgeRows) -> Result<(), LineError> {
        let text = self.text;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text) {
            let line = &text[start..end];
            let mut found = 0;
            split_blanks(line, &mut |from: usize, to: usize| {
                if let Some(slot) = self.fields.get_mut(found) {
                    *slot = NameSpan {
                        start: (start + from) as u32,
                        end: (start + to) as u32,
                    };
                }
                found += 1;
            });
            if found > 0 {
                self.take_line(found, (start, end), rows)?;
            }
            self.line += 1;
            start = end + 1;
        }
        Ok(())
    }

    /// Takes the line at `start..end`, which has `found` columns.
    fn take_line(
        &mut self,
        found: usize,
        (start, end): (usize, usize),
        rows: &mut EdgeRows,
    ) -> Result<(), LineError> {
        if let Some(comment) = self.comment {
            match comment.skips(self.text.get(start)) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(what) => return self.refuse(what),
            }
        }
        if !self.is_utf8 && std::str::from_utf8(&self.text[start..end]).is_err() {
            return self.refuse(NOT_UTF8.to_owned());
        }
        let pushed = self.push_line(found, rows);
        pushed.or_else(|what| self.refuse(what))
    }

    fn push_line(&self, found: usize, rows: &mut EdgeRows) -> Result<(), String> {
        let layout = self.how.layout;
        if found != layout.count {
            let separator = self.how.format.separator;
            return Err(wrong_count(layout.count, found, separator));
        }
        let (lhs, rhs) = (self.name(layout.lhs)?, self.name(layout.rhs)?);
        let rel = layout.rel.map(|rel| self.name(rel)).transpose()?;
        let weight = |at: usize| parse_weight(self.fields[at].of(self.text));
        let weight = layout.weight.map(weight).transpose()?;
        rows.push(self.line, (lhs, rel, rhs), weight);
        Ok(())
    }

    fn name(&self, column: usize) -> Result<NameSpan, String> {
        let mut span = self.fields[column];
        if self.how.format.separator.trims() {
            span = trimmed(self.text, span);
        }
        check_name(span.of(self.text), column)?;
        Ok(span)
    }

    /// Returns an error for a bad line, or counts it, as the options say.
    fn refuse(&mut self, what: String) -> Result<(), LineError> {
        let line = self.line;
        self.bad
            .record(self.how.on_bad_line, LineError { line, what })
    }
}

/// Returns a span without the blanks around it.
fn trimmed(text: &[u8], span: NameSpan) -> NameSpan {
    let start = span.of(text).trim_ascii_start();
    let whole = start.trim_ascii_end();
    let end = span.end - (start.len() - whole.len()) as u32;
    NameSpan {
        start: end - whole.len() as u32,
        end,
    }
}

/// Returns the message for a line with an unexpected number of columns.
pub(super) fn wrong_count(expected: usize, found: usize, separator: Separator) -> String {
    let hint = match (expected, found) {
        (3, 4) => "; `--columns lhs,rel,rhs,weight` reads the fourth as a weight",
        _ => "",
    };
    format!("{expected} columns are expected, but {found} found ({separator}){hint}")
}

/// Calls `take` with the start and the end of each run of non-blank bytes.
pub(super) fn split_blanks(line: &[u8], take: &mut dyn FnMut(usize, usize)) {
    let mut start = None;
    for (at, byte) in line.iter().enumerate() {
        match (matches!(byte, b' ' | b'\t' | b'\r'), start) {
            (false, None) => start = Some(at),
            (true, Some(from)) => {
                take(from, at);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        take(from, line.len());
    }
}

/// Checks that a name is neither empty nor too long.
pub(super) fn check_name(name: &[u8], column: usize) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("column {} is empty", column + 1));
    }
    check_length(name.len(), column)
}

/// Checks that a name is not too long, by its length in bytes.
pub(super) fn check_length(length: usize, column: usize) -> Result<(), String> {
    if length > MAX_NAME {
        return Err(format!(
            "the name in column {} is longer than {MAX_NAME} bytes",
            column + 1
        ));
    }
    Ok(())
}

/// Parses a weight, which must be finite and not negative.
pub(super) fn parse_weight(text: &[u8]) -> Result<f32, String> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let number = text.trim().parse::<f32>();
    let number = number.map_err(|_| format!("the weight `{}` is not a number", shorten(text)))?;
    check_weight(number)
}

pub(super) fn check_weight(number: f32) -> Result<f32, String> {
    if number.is_finite() && number >= 0.0 {
        Ok(number)
    } else {
        Err(format!(
            "the weight {number} is not a finite number of at least 0"
        ))
    }
}
