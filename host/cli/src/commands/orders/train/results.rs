//! Prints the results of a study to the terminal.

use std::io::{self, Write};

use pbg_lab::study::Study;
use pbg_report::pages;

use crate::tables;

/// Prints the results of each order, their differences to the first one, and who is better with what certainty.
pub(super) fn print(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    let rows = study.orders.iter().map(pages::study::row);
    writeln!(out, "{}", tables::wrapped(pages::study::HEADERS, rows, 1))?;
    for table in pages::study::statistics(study) {
        writeln!(out, "\n{}", table.title)?;
        writeln!(out, "{}", tables::wrapped(table.head, table.rows, 1))?;
        writeln!(out, "{}", table.caption)?;
    }
    let shown = ["seeds", "workers", "processor"];
    let facts = study
        .setting
        .iter()
        .filter(|(name, _)| shown.contains(&name.as_str()));
    let facts: Vec<String> = facts
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    writeln!(out, "\n{}", facts.join("; "))
}
