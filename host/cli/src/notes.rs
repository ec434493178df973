//! What several commands have to say about a model beside their results.

use pbg_train::trained::Missing;
use pbg_train::{Resolved, Width};

use crate::format;
use crate::terminal::Terminal;

/// Says what the dataset has gained since the checkpoint was committed.
pub(crate) fn missing(missing: &Missing, resolved: &Resolved, terminal: Terminal) {
    if missing.is_empty() {
        return;
    }
    let config = resolved.config();
    terminal.warn(format_args!(
        "{} was trained before {} came to {}: they have no embedding in it yet; `pbg-host train` draws them",
        config.checkpoint_path,
        gained(missing.rows.iter(), missing.relations),
        config.dataset,
    ));
}

/// Says that answers come by an index, and how many of the nearest such answers had when it was built.
pub(crate) fn approximate(width: &Width, terminal: Terminal) {
    let in_view = width.width;
    terminal.say(match width.recall {
        Some(recall) => format!(
            "approximate, by the index: recall@10 {recall:.3} measured when it was built, with {in_view} in view"
        ),
        None => format!(
            "approximate, by the index: nothing was measured with {in_view} in view when it was built"
        ),
    });
}

/// New rows by entity type, and new relations, as in "2 rows of user and 1 relation".
pub(crate) fn gained<'a>(
    rows: impl Iterator<Item = (&'a String, &'a u64)>,
    relations: u64,
) -> String {
    let mut parts: Vec<String> = rows
        .map(|(name, &count)| format!("{} of {name}", format::plural(count, "row")))
        .collect();
    if relations > 0 {
        parts.push(format::plural(relations, "relation"));
    }
    parts.join(" and ")
}
