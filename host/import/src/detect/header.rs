//! Detection of a header: whether the first line of a text names its columns.

use std::collections::HashSet;

use super::super::columns::{ColumnLayout, ColumnSpec, Role};
use super::super::format::Separator;
use super::records::TextRecord;

/// Kind of the first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstRecord {
    /// Column names.
    Header,
    /// An edge.
    Edge,
    /// Ambiguous.
    Unsure,
}

/// Determines the kind of the record `first`, which is followed by `rest`.
///
/// It is a header if it has a known column name for either side of an edge, or if columns contain numbers in all other
/// records but not in this one. It is an edge if one of its cells occurs again or is a number. Otherwise it is an edge
/// if the separator is neither comma nor semicolon; tables with those usually have a header, so they are ambiguous.
pub(super) fn verdict(
    first: &[String],
    rest: &[TextRecord],
    separator: Separator,
    columns: Option<&ColumnSpec>,
) -> FirstRecord {
    if let Some(ColumnSpec::Names(_)) = columns {
        // If the record is not a header, the user's names are not found in it, and that is reported as the error.
        return FirstRecord::Header;
    }
    let comes_again = comes_again(first, rest);
    if names_both_sides(first) {
        return match comes_again {
            true => FirstRecord::Unsure,
            false => FirstRecord::Header,
        };
    }
    if comes_again || first.iter().any(|cell| is_number(cell)) {
        return FirstRecord::Edge;
    }
    let numbers = (0..first.len())
        .filter(|&at| is_column_of_numbers(rest, at))
        .count();
    if numbers == first.len() || numbers > 0 && rest.len() > 1 {
        return FirstRecord::Header;
    }
    let is_marked = first
        .iter()
        .any(|cell| matches!(Role::of_name(cell), Some(Role::Lhs | Role::Rhs)));
    match is_marked || is_initials(first) || separator.quotable().is_some() {
        true => FirstRecord::Unsure,
        false => FirstRecord::Edge,
    }
}

/// Returns whether a cell occurs in another record. Considers the cells of known column names for the two sides, or all
/// cells if there are none.
fn comes_again(first: &[String], rest: &[TextRecord]) -> bool {
    let known = names_both_sides(first);
    let is_meant = |cell: &&String| {
        let is_side = matches!(Role::of_name(cell), Some(Role::Lhs | Role::Rhs));
        !cell.is_empty() && (is_side || !known)
    };
    let cells: HashSet<&String> = first.iter().filter(is_meant).collect();
    let mut others = rest.iter().flat_map(|record| &record.cells);
    others.any(|cell| cells.contains(cell))
}

/// Returns whether all records have a number in a column.
fn is_column_of_numbers(records: &[TextRecord], at: usize) -> bool {
    let is_number = |record: &TextRecord| record.cells.get(at).is_some_and(|cell| is_number(cell));
    !records.is_empty() && records.iter().all(is_number)
}

/// Returns whether a cell is a number, as data contain them; `nan` and `inf` count as names.
fn is_number(cell: &str) -> bool {
    let cell = cell.trim();
    cell.parse::<f64>().is_ok() && cell.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns whether the cells are the initials that papers use for head, relation and tail, or subject, predicate and
/// object. They may also be names of entities.
fn is_initials(cells: &[String]) -> bool {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| cell.trim().to_lowercase())
        .collect();
    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
    matches!(
        cells[..],
        ["h", "r", "t"] | ["s", "p", "o"] | ["h", "t", "r"] | ["h", "t"]
    )
}

/// Returns whether the cells contain a known column name for the left and one for the right side of an edge.
pub(super) fn names_both_sides(cells: &[String]) -> bool {
    let has = |role| cells.iter().any(|cell| Role::of_name(cell) == Some(role));
    has(Role::Lhs) && has(Role::Rhs)
}

/// Returns whether the user named columns and the cells contain all these names.
pub(super) fn has_all(cells: &[String], columns: Option<&ColumnSpec>) -> bool {
    match columns {
        Some(ColumnSpec::Names(names)) => {
            let has = |name: &String| cells.iter().any(|cell| cell.trim() == name);
            names.iter().all(|(_, name)| has(name))
        }
        _ => false,
    }
}

/// Removes the relation column from a layout if it only states whether edges are directed, like Gephi's column `Type`;
/// that is not a relation.
pub(super) fn without_direction(
    layout: ColumnLayout,
    names: &[&str],
    records: &[TextRecord],
) -> ColumnLayout {
    let Some(rel) = layout.rel else {
        return layout;
    };
    let is_direction = |record: &TextRecord| {
        let cell = record.cells.get(rel).map(|cell| cell.to_lowercase());
        matches!(cell.as_deref(), Some("directed" | "undirected" | "mixed"))
    };
    let is_called_type = names[rel].trim().eq_ignore_ascii_case("type");
    if is_called_type && !records.is_empty() && records.iter().all(is_direction) {
        return ColumnLayout {
            rel: None,
            ..layout
        };
    }
    layout
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(separator: Separator, lines: &[&str]) -> FirstRecord {
        let record = |line: &&str| TextRecord {
            line: 0,
            cells: line.split(' ').map(str::to_owned).collect(),
        };
        let records: Vec<TextRecord> = lines.iter().map(record).collect();
        verdict(&records[0].cells, &records[1..], separator, None)
    }

    #[test]
    fn headers_and_edges() {
        use FirstRecord::{Edge, Header, Unsure};
        for (lines, tab, comma) in [
            (&["source metaedge target", "a r b"][..], Header, Header),
            (&[":START_ID :END_ID :TYPE", "a b r"], Header, Header),
            (
                &["Source Target Type Id Weight", "1 2 Undirected 0 1.0"],
                Header,
                Header,
            ),
            (&["0 4", "4 2", "2 3"], Edge, Edge),
            (&["0 4", "1 2"], Edge, Edge),
            (&["a r b", "b r c"], Edge, Edge),
            (&["a r b", "c s d"], Edge, Unsure),
            (&["a r b 1", "c s d 2"], Edge, Edge),
            (&["drug disease score", "a b 0.5", "c d 1"], Header, Header),
            (&["x y", "1 2"], Header, Header),
            // Numbers in a single record are not evidence.
            (&["a r b", "c s 5"], Edge, Unsure),
            // Words that occur in the graph itself.
            (
                &["source hypernym target", "target hypernym thing"],
                Unsure,
                Unsure,
            ),
            (&["head part body", "neck part body"], Edge, Edge),
            (&["head part body", "hand belongs arm"], Unsure, Unsure),
            (&["h r t", "a r2 b"], Unsure, Unsure),
            (&["a type b", "c kind d"], Edge, Unsure),
            (&["a r b"], Edge, Unsure),
            (&["a nan b", "c nan d"], Edge, Edge),
        ] {
            assert_eq!(said(Separator::TAB, lines), tab, "{lines:?} with tabs");
            assert_eq!(
                said(Separator::COMMA, lines),
                comma,
                "{lines:?} with commas"
            );
        }
    }

    proptest! {
        /// If entities recur, the first line is detected as an edge, whatever their names are.
        #[test]
        fn an_edge_whose_entity_comes_again_is_not_taken_for_a_header(
            names in prop::collection::vec("[a-z]{3,9}|[0-9]{1,4}", 3..9),
            picks in prop::collection::vec((0..9_usize, 0..9_usize), 2..30),
        ) {
            let edge = |(at, &(from, to)): (usize, &(usize, usize))| TextRecord {
                line: 0,
                cells: vec![names[from % names.len()].clone(), format!("r_{at}"), names[to % names.len()].clone()],
            };
            let records: Vec<TextRecord> = picks.iter().enumerate().map(edge).collect();
            let first = &records[0].cells;
            prop_assume!(!names_both_sides(first));
            let recurs = |record: &TextRecord| [0, 2].iter().any(|&at| [&first[0], &first[2]].contains(&&record.cells[at]));
            prop_assume!(records[1..].iter().any(recurs));
            for separator in [Separator::TAB, Separator::COMMA] {
                let verdict = verdict(&records[0].cells, &records[1..], separator, None);
                prop_assert_eq!(verdict, FirstRecord::Edge);
            }
        }
    }
}
