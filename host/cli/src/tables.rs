//! Tables for the terminal.

use std::io::{self, IsTerminal};

use comfy_table::{CellAlignment, ContentArrangement, Row, Table, TableStyle, presets};

/// Returns a table in Markdown, whose columns from `first_number` on are numbers.
pub(crate) fn markdown<R: Into<Row>>(
    header: impl Into<Row>,
    rows: impl IntoIterator<Item = R>,
    first_number: usize,
) -> Table {
    let is_number = |column| column >= first_number;
    table(presets::ASCII_MARKDOWN, header, rows, is_number)
}

/// Returns a table as [`markdown`] does, whose cells wrap if standard output is a terminal that is too narrow.
pub(crate) fn wrapped<R: Into<Row>>(
    header: impl Into<Row>,
    rows: impl IntoIterator<Item = R>,
    first_number: usize,
) -> Table {
    let mut table = markdown(header, rows, first_number);
    if io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table
}

/// Formats a table without lines between its cells; `is_number` tells by its index whether a column has numbers.
pub(crate) fn plain<R: Into<Row>>(
    header: impl Into<Row>,
    rows: impl IntoIterator<Item = R>,
    is_number: impl Fn(usize) -> bool,
) -> String {
    table(presets::NOTHING, header, rows, is_number).trim_fmt()
}

fn table<R: Into<Row>>(
    style: TableStyle,
    header: impl Into<Row>,
    rows: impl IntoIterator<Item = R>,
    is_number: impl Fn(usize) -> bool,
) -> Table {
    let mut table = Table::new();
    table.load_style(style);
    table.set_header(header);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        if is_number(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
