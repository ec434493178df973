//! Detection of the character that separates the columns of a text.

use super::super::columns::ColumnSpec;
use super::super::format::Separator;
use super::detected::UserOptions;
use super::header;
use super::records::{self, TextRecord};
use crate::shorten::shorten;

/// Detects the separator of the columns of `body`.
///
/// Tabs take precedence, because names contain other separators more often than tabs. Of the others, the one that gives
/// every line the same number of columns is chosen.
///
/// # Errors
/// When two separators are possible, or none.
pub(super) fn detect(
    body: &[&str],
    mark: Option<u8>,
    said: UserOptions<'_>,
) -> Result<Separator, String> {
    let tried = |separator| Candidate::new(body, separator, mark);
    let tab = tried(Separator::TAB);
    let blanks = tried(Separator::Blanks);
    if tab.separates_most() {
        // The columns may be aligned with tabs and spaces.
        if blanks.is_steady() && tab.has_blanks_around() {
            return Err(unsure(&tab, &blanks));
        }
        return Ok(tab.separator);
    }
    let characters = [Separator::COMMA, Separator::SEMICOLON, Separator::PIPE].map(tried);
    let mut steady: Vec<&Candidate> = characters.iter().filter(|t| t.is_steady()).collect();
    if let Some(ColumnSpec::Positions(roles)) = said.columns {
        keep_if_any(&mut steady, |t| t.width == roles.len());
    }
    keep_if_any(&mut steady, Candidate::has_a_header);
    match steady[..] {
        [] => {}
        [one] if blanks.is_steady() && one.has_blanks_within() => return Err(unsure(one, &blanks)),
        [one] => return Ok(one.separator),
        [one, other, ..] => return Err(unsure(one, other)),
    }
    let mut all = vec![&tab];
    all.extend(&characters);
    let usual = all.into_iter().rev().max_by_key(|t| t.agreeing);
    let usual = usual.filter(|t| t.agreeing * 2 > t.records.len());
    match usual {
        Some(usual) if blanks.is_steady() => Err(unsure(usual, &blanks)),
        Some(usual) => Ok(usual.separator),
        None if blanks.agreeing * 2 > blanks.records.len() => Ok(blanks.separator),
        None => Err(
            "neither tab, comma, semicolon, `|` nor blank separates its lines into equally many columns; specify the \
             separator with `--separator`"
                .to_owned(),
        ),
    }
}

fn keep_if_any(tried: &mut Vec<&Candidate>, keep: impl Fn(&Candidate) -> bool) {
    if tried.iter().any(|t| keep(t)) {
        tried.retain(|t| keep(t));
    }
}

/// Lines divided by one candidate separator.
struct Candidate {
    separator: Separator,
    records: Vec<TextRecord>,
    /// Number of columns of most records.
    width: usize,
    /// Number of records with that many columns; 0 if the separator does not occur.
    agreeing: usize,
}

impl Candidate {
    fn new(body: &[&str], separator: Separator, mark: Option<u8>) -> Self {
        let records = records::of(body, separator, mark, false);
        let width = records::usual_width(&records);
        let agreeing = match width {
            0 | 1 => 0,
            _ => records.iter().filter(|r| r.cells.len() == width).count(),
        };
        Self {
            separator,
            records,
            width,
            agreeing,
        }
    }

    /// Returns whether all records have the same number of columns, and more than one.
    fn is_steady(&self) -> bool {
        self.agreeing > 0 && self.agreeing == self.records.len()
    }

    fn separates_most(&self) -> bool {
        let separated = self.records.iter().filter(|r| r.cells.len() > 1).count();
        separated * 2 > self.records.len()
    }

    fn has_a_header(&self) -> bool {
        let first = self.records.first();
        first.is_some_and(|record| header::names_both_sides(&record.cells))
    }

    fn has_blanks_within(&self) -> bool {
        let mut cells = self.records.iter().flat_map(|r| &r.cells);
        cells.any(|cell| cell.trim().contains([' ', '\t']))
    }

    fn has_blanks_around(&self) -> bool {
        let mut cells = self.records.iter().flat_map(|r| &r.cells);
        cells.any(|cell| cell.trim() != cell)
    }

    fn first_shown(&self) -> String {
        let cells = self.records.first().map_or(&[][..], |r| &r.cells);
        let cells: Vec<String> = cells
            .iter()
            .map(|cell| format!("`{}`", shorten(cell)))
            .collect();
        cells.join(", ")
    }
}

fn unsure(one: &Candidate, other: &Candidate) -> String {
    let (word, other_word) = (one.separator.word(), other.separator.word());
    format!(
        "what separates its columns? With `--separator {word}` its first line is {}, with `--separator {other_word}` it is \
         {}",
        one.first_shown(),
        other.first_shown()
    )
}
