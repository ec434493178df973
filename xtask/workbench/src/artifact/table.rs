//! Tables in Markdown pages: found by their header, compared cell by cell.

use std::fmt::Write as _;

use anyhow::{Context, Result};

/// How cells of a column are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CellRule {
    /// The text is the same.
    Exact,
    /// Numbers differ by no more than this share of the kept one, or this much.
    Within { share: f64, least: f64 },
    /// Numbers are shown and not compared: they depend on the machine.
    Shown,
}

/// Table of a page: a header and rows of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MarkdownTable {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Difference between a kept and a made cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CellDifference {
    /// First cell of the row, and the header of the column.
    pub(super) place: String,
    pub(super) kept: String,
    pub(super) made: String,
    /// Whether the rule of the column allows it.
    pub(super) allowed: bool,
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner
        .split('|')
        .map(|cell| cell.trim().to_owned())
        .collect()
}

impl MarkdownTable {
    /// Creates a table from texts.
    pub(super) fn new(head: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self {
            head: head.iter().map(|&cell| cell.to_owned()).collect(),
            rows,
        }
    }

    /// Reads the first table of `text`, such as the output of a command.
    pub(super) fn first_of(text: &str) -> Result<Self> {
        let first = Self::all_of(text).into_iter().next();
        first.context("the output has no table")
    }

    /// Reads all tables of `text`.
    pub(super) fn all_of(text: &str) -> Vec<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let blocks = lines.chunk_by(|a, b| a.starts_with('|') == b.starts_with('|'));
        let tables = blocks.filter(|block| block.len() > 1 && block[0].starts_with('|'));
        let read = |block: &[&str]| Self {
            head: cells(block[0]),
            rows: block[2..].iter().map(|line| cells(line)).collect(),
        };
        tables.map(read).collect()
    }

    /// Returns the table with these columns only.
    pub(super) fn with_columns(&self, columns: &[&str]) -> Result<Self> {
        let place = |column: &&str| {
            let found = self.head.iter().position(|head| head == column);
            found.with_context(|| format!("the table has no column {column}"))
        };
        let places: Vec<usize> = columns.iter().map(place).collect::<Result<_>>()?;
        let chosen = |row: &Vec<String>| {
            let cell = |&at: &usize| row.get(at).cloned().unwrap_or_default();
            places.iter().map(cell).collect()
        };
        Ok(Self::new(columns, self.rows.iter().map(chosen).collect()))
    }

    /// Returns the table of `page` with the same header, and the range of its bytes.
    fn find(&self, page: &str) -> Option<(Self, std::ops::Range<usize>)> {
        let mut start = 0;
        for line in page.split_inclusive('\n') {
            if line.starts_with('|') && cells(line) == self.head {
                let lines = page[start..].split_inclusive('\n');
                let length: usize = lines
                    .take_while(|line| line.starts_with('|'))
                    .map(str::len)
                    .sum();
                let range = start..start + length;
                return Some((Self::first_of(&page[range.clone()]).ok()?, range));
            }
            start += line.len();
        }
        None
    }

    /// Returns the table of `page` with the same header.
    pub(super) fn kept_in(&self, page: &str) -> Option<Self> {
        self.find(page).map(|(table, _)| table)
    }

    /// Returns `page` with the table of the same header replaced by this one.
    pub(super) fn replaced_in(&self, page: &str) -> Option<String> {
        let (_, range) = self.find(page)?;
        let mut text = page.to_owned();
        text.replace_range(range, &self.to_markdown());
        Some(text)
    }

    fn to_markdown(&self) -> String {
        let mut text = String::new();
        let mut line = |cells: &[String]| {
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        };
        line(&self.head);
        let _ = writeln!(text, "|{}", "---|".repeat(self.head.len()));
        let mut line = |cells: &[String]| {
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        };
        self.rows.iter().for_each(|row| line(row));
        text
    }

    /// Compares the table with the kept one; `rule` gives the rule of a column. Returns the number of compared cells and
    /// the differences.
    pub(super) fn compare(
        &self,
        kept: &Self,
        rule: &dyn Fn(&str) -> CellRule,
    ) -> (usize, Vec<CellDifference>) {
        let mut differences = Vec::new();
        let mut compared = 0;
        for row in 0..self.rows.len().max(kept.rows.len()) {
            for (column, head) in self.head.iter().enumerate() {
                let cell = |table: &Self| {
                    let row = table.rows.get(row);
                    row.and_then(|row| row.get(column))
                        .cloned()
                        .unwrap_or_default()
                };
                let (made, before) = (cell(self), cell(kept));
                compared += 1;
                if made != before {
                    differences.push(CellDifference {
                        place: format!("{}, {head}", self.label(kept, row)),
                        allowed: is_allowed(rule(head), &before, &made),
                        kept: before,
                        made,
                    });
                }
            }
        }
        (compared, differences)
    }

    /// Returns the name of a row of this table or, where it has none, of another: the first cell, or partitions and buffer.
    fn label(&self, other: &Self, row: usize) -> String {
        let names = if self.head.get(1).is_some_and(|head| head == "c") {
            2
        } else {
            1
        };
        let cells = self.rows.get(row).or(other.rows.get(row));
        let cells = cells.map(|cells| cells.iter().take(names).cloned());
        cells.map_or_else(String::new, |cells| cells.collect::<Vec<_>>().join(" "))
    }
}

/// Returns whether a rule allows that `kept` has become `made`.
fn is_allowed(rule: CellRule, kept: &str, made: &str) -> bool {
    let CellRule::Within { share, least } = rule else {
        return rule == CellRule::Shown;
    };
    let (kept, made) = (numbers(kept), numbers(made));
    // A deviation over seeds, which follows the mean, is not compared.
    match (kept.first(), made.first()) {
        (Some(kept), Some(made)) => (kept - made).abs() <= (share * kept.abs()).max(least),
        _ => false,
    }
}

/// Returns the numbers in a text, with units of bytes as factors.
fn numbers(text: &str) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for word in text.split_whitespace() {
        let unit = ["B", "KiB", "MiB", "GiB", "TiB"]
            .iter()
            .position(|unit| *unit == word);
        match (word.trim_matches('*').parse(), unit, found.last_mut()) {
            (Ok(number), ..) => found.push(number),
            (Err(_), Some(power), Some(last)) => *last *= 1024_f64.powi(power as i32),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# T\n\n| order | MRR | bytes |\n|---|---|---|\n| beta | 0.0411 ± 0.01 | 504.9 MiB |\n\nEnd.\n";

    fn made(mrr: &str, bytes: &str) -> MarkdownTable {
        let row = ["beta", mrr, bytes].map(str::to_owned).to_vec();
        MarkdownTable::new(&["order", "MRR", "bytes"], vec![row])
    }

    fn rule(head: &str) -> CellRule {
        match head {
            "MRR" => CellRule::Within {
                share: 0.1,
                least: 0.001,
            },
            _ => CellRule::Exact,
        }
    }

    #[test]
    fn a_table_is_found_by_its_header_and_replaced() {
        let table = made("0.05", "1 KiB");
        let page = table.replaced_in(PAGE).unwrap();
        assert_eq!(
            page,
            "# T\n\n| order | MRR | bytes |\n|---|---|---|\n| beta | 0.05 | 1 KiB |\n\nEnd.\n"
        );
        assert_eq!(table.kept_in(&page).unwrap(), table);
        let other = MarkdownTable::new(&["order", "swaps"], Vec::new());
        assert_eq!(other.kept_in(PAGE), None);
    }

    #[test]
    fn exact_cells_may_not_differ_and_others_only_within_their_tolerance() {
        let kept = made("", "").kept_in(PAGE).unwrap();
        let allowed = |mrr: &str, bytes: &str| {
            let (cells, differences) = made(mrr, bytes).compare(&kept, &rule);
            assert_eq!(cells, 3);
            differences.iter().map(|d| d.allowed).collect::<Vec<_>>()
        };
        assert!(allowed("0.0411 ± 0.01", "504.9 MiB").is_empty());
        assert_eq!(allowed("0.0430 ± 0.02", "504.9 MiB"), [true]);
        assert_eq!(allowed("0.0500 ± 0.01", "465.2 MiB"), [false, false]);
        assert_eq!(allowed("none", "504.9 MiB"), [false]);
        // A row that is missing differs in every cell.
        let none = MarkdownTable::new(&["order", "MRR", "bytes"], Vec::new());
        assert_eq!(none.compare(&kept, &rule).1.len(), 3);
    }

    #[test]
    fn units_are_factors() {
        assert_eq!(numbers("**1.5** KiB"), [1536.0]);
        assert_eq!(numbers("42 (composed)"), [42.0]);
        assert_eq!(numbers("-"), [0.0; 0]);
    }
}
