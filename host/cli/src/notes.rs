//! What several commands have to say about a model beside their results.

use pbg_store::describe::Unseen;
use pbg_train::trained::Missing;
use pbg_train::{AllInstead, Approach, Resolved, Width};

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

/// Edges with something that no trained edge has, as in "11 edges have entities or relations that no trained edge has
/// (10 entities, 1 relation)".
pub(crate) fn unseen(unseen: &Unseen) -> String {
    let have = if unseen.edges == 1 { "has" } else { "have" };
    let counts = [
        (unseen.entities, "entity", "entities"),
        (unseen.relations, "relation", "relations"),
    ];
    let named = counts.iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> = named
        .map(|(count, one, more)| format!("{count} {}", if *count == 1 { one } else { more }))
        .collect();
    format!(
        "{} {have} entities or relations that no trained edge has ({})",
        format::plural(unseen.edges, "edge"),
        parts.join(", ")
    )
}

/// What was said of answers that an index was asked for.
#[derive(Default)]
pub(crate) struct Told(Vec<String>);

impl Told {
    /// Says how questions are answered, where it was not said before; `around` keeps lines from disturbing a display.
    pub(crate) fn approach(
        &mut self,
        approach: &Approach<'_>,
        terminal: Terminal,
        around: impl Fn(&dyn Fn()),
    ) {
        let instead = approach.all_instead.iter().copied().map(Err);
        for how in approach.widths.values().copied().map(Ok).chain(instead) {
            let text = told_of(&how);
            if !self.0.contains(&text) {
                around(&|| index_use(&how, terminal));
                self.0.push(text);
            }
        }
    }
}

fn told_of(how: &Result<Width, AllInstead>) -> String {
    match how {
        Ok(width) => width.to_string(),
        Err(instead) => instead.to_string(),
    }
}

/// Says what an index did for answers; a warning where they miss much, or where it did nothing since it finds too little.
pub(crate) fn index_use(how: &Result<Width, AllInstead>, terminal: Terminal) {
    match how {
        Ok(width) if !width.is_poor() => terminal.say(width),
        Err(AllInstead::Cheaper) => terminal.say(AllInstead::Cheaper),
        Ok(_) | Err(_) => terminal.warn(told_of(how)),
    }
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
