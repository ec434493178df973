//! First lines of a text, divided into cells by a separator.

use super::super::format::Separator;
use super::super::text;

/// Line, or row of quoted cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextRecord {
    /// Number of its first line, counted from 0. Where cells may be quoted, this may be a preceding blank line or
    /// comment.
    pub(super) line: usize,
    pub(super) cells: Vec<String>,
}

/// Returns the records of `lines` without blank lines and those that begin with `mark`. If the lines are cut off
/// (`is_cut`), the last record may be incomplete and is omitted.
pub(super) fn of(
    lines: &[&str],
    separator: Separator,
    mark: Option<u8>,
    is_cut: bool,
) -> Vec<TextRecord> {
    if let Some(delimiter) = separator.quotable() {
        let mut records = quoted(&lines.join("\n"), delimiter, mark);
        // Keep at least a header and the first edge.
        if is_cut && records.len() > 2 {
            records.pop();
        }
        return records;
    }
    let is_comment = |line: &str| mark.is_some() && line.bytes().next() == mark;
    let lines = lines.iter().enumerate();
    let records = lines.filter(|(_, line)| !line.is_empty() && !is_comment(line));
    let records = records.map(|(at, line)| TextRecord {
        line: at,
        cells: cells(line, separator),
    });
    records.filter(|record| !record.cells.is_empty()).collect()
}

fn cells(line: &str, separator: Separator) -> Vec<String> {
    let mut found = Vec::new();
    let mut take = |from: usize, to: usize| found.push(line[from..to].to_owned());
    match separator {
        Separator::Character(character) => {
            let cells = line.split(char::from(character));
            return cells
                .map(|cell| trimmed(cell, separator).to_owned())
                .collect();
        }
        Separator::Blanks | Separator::Rdf(_) => text::split_blanks(line.as_bytes(), &mut take),
    }
    found
}

/// Trims a cell as the reader does.
fn trimmed(cell: &str, separator: Separator) -> &str {
    match separator.trims() {
        true => cell.trim_ascii(),
        false => cell,
    }
}

fn quoted(text: &str, delimiter: u8, mark: Option<u8>) -> Vec<TextRecord> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .comment(mark)
        .from_reader(text.as_bytes());
    let records = reader.records().flatten();
    let record = |record: csv::StringRecord| TextRecord {
        line: record.position().map_or(0, |at| at.line() as usize - 1),
        cells: record
            .iter()
            .map(|cell| cell.trim_ascii().to_owned())
            .collect(),
    };
    records.map(record).collect()
}

/// Returns the number of cells that most records have; of equally frequent numbers, that of the earliest record.
pub(super) fn usual_width(records: &[TextRecord]) -> usize {
    let width = |record: &TextRecord| record.cells.len();
    let times = |wanted: usize| records.iter().filter(|r| width(r) == wanted).count();
    let mut widths: Vec<usize> = Vec::new();
    for record in records {
        if !widths.contains(&width(record)) {
            widths.push(width(record));
        }
    }
    // `max_by_key` returns the last maximum, which is the earliest record because the order is reversed.
    widths
        .into_iter()
        .rev()
        .max_by_key(|&w| times(w))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_all_kinds() {
        let lines = ["a\tb c", "", "#x", "d;\"e", "f\";g"];
        let shown = |separator, mark| -> Vec<(usize, Vec<String>)> {
            let records = of(&lines, separator, mark, false);
            records.into_iter().map(|r| (r.line, r.cells)).collect()
        };
        let row = |line, cells: &[&str]| (line, cells.iter().map(|&c| c.to_owned()).collect());
        assert_eq!(
            shown(Separator::TAB, Some(b'#')),
            [
                row(0, &["a", "b c"]),
                row(3, &["d;\"e"]),
                row(4, &["f\";g"])
            ]
        );
        assert_eq!(shown(Separator::Blanks, None)[0], row(0, &["a", "b", "c"]));
        assert_eq!(
            shown(Separator::SEMICOLON, Some(b'#')),
            [row(0, &["a\tb c"]), row(1, &["d", "e\nf", "g"])]
        );
    }

    #[test]
    fn the_usual_width_is_that_of_most_records_and_then_of_the_first() {
        let of_widths = |widths: &[usize]| -> Vec<TextRecord> {
            let record = |&width| TextRecord {
                line: 0,
                cells: vec![String::new(); width],
            };
            widths.iter().map(record).collect()
        };
        assert_eq!(usual_width(&of_widths(&[3, 2])), 3);
        assert_eq!(usual_width(&of_widths(&[3, 2, 2])), 2);
        assert_eq!(usual_width(&[]), 0);
    }
}
