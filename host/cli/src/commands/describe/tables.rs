//! Tables in the description of a dataset.

use std::collections::BTreeMap;

use pbg_dataset::describe::{Description, SetDescription};

use crate::tables;

/// Returns the table of edges, entities and relations of each edge set.
pub(super) fn edge_sets(description: &Description) -> String {
    let header = [
        "edge set",
        "edges",
        "duplicates",
        "loops",
        "entities",
        "relations",
        "weights",
    ];
    let rows = description.edge_sets.iter().map(|set| {
        vec![
            set.name.clone(),
            set.edges.to_string(),
            set.duplicates.to_string(),
            set.loops.to_string(),
            set.entities.to_string(),
            set.relations.to_string(),
            if set.weights { "yes" } else { "no" }.to_owned(),
        ]
    });
    format_table(&header, rows)
}

/// Returns the table of the held-out edge sets: edges that a trained set also contains, in the same direction or
/// reversed, and entities and relations that no trained edge has. `None` if all sets are trained.
pub(super) fn held_out(description: &Description) -> Option<String> {
    let header = [
        "held out",
        "also trained",
        "trained reversed",
        "unseen edges",
        "unseen entities",
        "unseen relations",
    ];
    let mut rows = description.edge_sets.iter().filter_map(|set| {
        let unseen = set.unseen.as_ref()?;
        // Largest number of common edges with a single trained set; the sets may contain the same edges.
        let most_in_common = |counts: &BTreeMap<String, u64>| {
            let counts = description
                .trained
                .iter()
                .map(|name| counts.get(name).copied());
            counts.map(Option::unwrap_or_default).max().unwrap_or(0)
        };
        Some(vec![
            set.name.clone(),
            share(most_in_common(&set.also_in), set),
            share(most_in_common(&set.reversed_in), set),
            share(unseen.edges, set),
            unseen.entities.to_string(),
            unseen.relations.to_string(),
        ])
    });
    let first = rows.next()?;
    Some(format_table(&header, std::iter::once(first).chain(rows)))
}

/// Returns the table of the entities of each type and their degrees in trained edges.
pub(super) fn entity_types(description: &Description) -> String {
    let header = [
        "entity type",
        "entities",
        "partitions",
        "without edge",
        "mean degree",
        "median",
        "90 %",
        "99 %",
        "most",
    ];
    let rows = description.entity_types.iter().map(|entity_type| {
        let mut row = vec![
            entity_type.name.clone(),
            entity_type.entities.to_string(),
            entity_type.partitions.to_string(),
        ];
        match &entity_type.degrees {
            Some(degrees) => row.extend([
                degrees.none.to_string(),
                format!("{:.2}", degrees.mean),
                degrees.median.to_string(),
                degrees.p90.to_string(),
                degrees.p99.to_string(),
                degrees.max.to_string(),
            ]),
            None => row.extend(std::iter::repeat_n("-".to_owned(), 6)),
        }
        row
    });
    format_table(&header, rows)
}

/// Returns the table of the first `most` relations, with the number of edges of each in every edge set. `None` if it
/// has no rows.
pub(super) fn relations(description: &Description, most: usize) -> Option<String> {
    let mut header = vec!["relation", "left", "right"];
    header.extend(description.edge_sets.iter().map(|set| set.name.as_str()));
    let all = &description.relations;
    let rows = all.iter().take(most).map(|relation| {
        let edges = description.edge_sets.iter().map(|set| {
            let edges = relation.edges.get(&set.name);
            edges.copied().unwrap_or_default().to_string()
        });
        let names = [&relation.name, &relation.lhs, &relation.rhs];
        names.into_iter().cloned().chain(edges).collect()
    });
    let table = format_table(&header, rows);
    let left = all.len().saturating_sub(most);
    (most > 0 && !all.is_empty()).then(|| match left {
        0 => table,
        _ => format!("{table}\n({left} more; show more with `--relations N`)"),
    })
}

/// Formats a number of edges, with its percentage of the edges of `set`.
fn share(edges: u64, set: &SetDescription) -> String {
    match edges {
        0 => "0".to_owned(),
        _ => format!(
            "{edges} ({:.1} %)",
            100.0 * edges as f64 / set.edges.max(1) as f64
        ),
    }
}

/// Formats a table. Columns are aligned to the right, except those with text: the first one, and those with the headers
/// `left` and `right`.
fn format_table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    tables::plain(header, rows, |column| {
        column > 0 && !matches!(header.get(column), Some(&("left" | "right")))
    })
}
