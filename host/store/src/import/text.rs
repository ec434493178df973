//! Parsing lines whose columns are separated by tabs.

use super::block::{BLOCK_BYTES, EdgeRows, MAX_NAME, Span, Wrong};
use super::columns::ColumnLayout;
use super::relations::shorten;

/// Parses whole lines into `rows`; gives the number of lines. Blank lines carry nothing and are
/// passed over.
pub(super) fn parse(text: &[u8], layout: &ColumnLayout, rows: &mut EdgeRows) -> Result<u64, Wrong> {
    rows.clear();
    if let Err(e) = std::str::from_utf8(text) {
        let line = memchr::memchr_iter(b'\n', &text[..e.valid_up_to()]).count() as u64;
        return Err(Wrong {
            line,
            what: "it is not UTF-8 text".to_owned(),
        });
    }
    if text.last().is_some_and(|&byte| byte != b'\n') {
        let line = memchr::memchr_iter(b'\n', text).count() as u64;
        let what = format!("the line is longer than {BLOCK_BYTES} bytes");
        return Err(Wrong { line, what });
    }
    let mut parser = Parser {
        text,
        layout,
        fields: vec![Span::default(); layout.count],
        line: 0,
    };
    let mut start = 0;
    let mut field = 0;
    for at in memchr::memchr2_iter(b'\t', b'\n', text) {
        let is_end = text[at] == b'\n';
        let end = if is_end && at > start && text[at - 1] == b'\r' {
            at - 1
        } else {
            at
        };
        if let Some(slot) = parser.fields.get_mut(field) {
            *slot = Span {
                start: start as u32,
                end: end as u32,
            };
        }
        field += 1;
        start = at + 1;
        if is_end {
            if field > 1 || parser.fields[0].start < parser.fields[0].end {
                parser.finish_line(field, rows)?;
            }
            field = 0;
            parser.line += 1;
        }
    }
    Ok(parser.line)
}

struct Parser<'a> {
    text: &'a [u8],
    layout: &'a ColumnLayout,
    fields: Vec<Span>,
    line: u64,
}

impl Parser<'_> {
    fn finish_line(&self, found: usize, rows: &mut EdgeRows) -> Result<(), Wrong> {
        let expected = self.layout.count;
        if found != expected {
            let hint = match (expected, found) {
                (_, 1) if self.fields[0].of(self.text).contains(&b' ') => {
                    "; columns are separated by tabs, not by spaces"
                }
                (3, 4) => "; `--columns lhs,rel,rhs,weight` reads the fourth as a weight",
                _ => "",
            };
            return Err(self.wrong(format!(
                "{expected} columns are expected, and {found} found{hint}"
            )));
        }
        rows.lhs.push(self.name(self.layout.lhs)?);
        rows.rhs.push(self.name(self.layout.rhs)?);
        if let Some(rel) = self.layout.rel {
            rows.rel.push(self.name(rel)?);
        }
        if let Some(weight) = self.layout.weight {
            let text = self.fields[weight].of(self.text);
            rows.weight
                .push(parse_weight(text).map_err(|what| self.wrong(what))?);
        }
        // A number per row costs less than finding the line of a row again would.
        rows.lines.push(self.line as u32);
        Ok(())
    }

    fn name(&self, column: usize) -> Result<Span, Wrong> {
        let span = self.fields[column];
        check_name(span.of(self.text), column).map_err(|what| self.wrong(what))?;
        Ok(span)
    }

    fn wrong(&self, what: String) -> Wrong {
        Wrong {
            line: self.line,
            what,
        }
    }
}

/// Whether a name can be one.
pub(super) fn check_name(name: &[u8], column: usize) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("column {} is empty", column + 1));
    }
    if name.len() > MAX_NAME {
        return Err(format!(
            "the name in column {} is longer than {MAX_NAME} bytes",
            column + 1
        ));
    }
    Ok(())
}

/// A weight: a number that is finite and not negative.
pub(super) fn parse_weight(text: &[u8]) -> Result<f32, String> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let number = text.trim().parse::<f32>();
    let number = number.map_err(|_| format!("the weight `{}` is no number", shorten(text)))?;
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
