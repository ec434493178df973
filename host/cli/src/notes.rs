//! Notes and warnings about a model, printed by several commands.

use pbg_store::describe::Unseen;
use pbg_train::trained::Missing;
use pbg_train::{AllInstead, Approach, Resolved, Width};

use crate::format;
use crate::terminal::Terminal;

/// Warns about entities and relations that were added to the dataset after the checkpoint was committed.
pub(crate) fn missing(missing: &Missing, resolved: &Resolved, terminal: Terminal) {
    if missing.is_empty() {
        return;
    }
    let config = resolved.config();
    terminal.warn(format_args!(
        "{} was trained before {} were added to {}: they have no embedding yet; `pbg-host train` initialises them",
        config.checkpoint_path,
        gained(missing.rows.iter(), missing.relations),
        config.dataset,
    ));
}

/// Describes edges with entities or relations that no trained edge has, as in "11 edges have entities or relations that
/// no trained edge has (10 entities, 1 relation)".
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

/// Notes that were already printed about the use of an index.
#[derive(Default)]
pub(crate) struct Told(Vec<String>);

impl Told {
    /// Prints how questions are answered, unless that was printed before; `around` hides the progress display
    /// meanwhile.
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

/// Prints how an index was used; a warning if its answers miss much, or if it was not used because its recall is too
/// low.
pub(crate) fn index_use(how: &Result<Width, AllInstead>, terminal: Terminal) {
    match how {
        Ok(width) if !width.is_poor() => terminal.say(width),
        Err(AllInstead::Cheaper) => terminal.say(AllInstead::Cheaper),
        Ok(_) | Err(_) => terminal.warn(told_of(how)),
    }
}

/// Describes new rows by entity type, and new relations, as in "2 rows of user and 1 relation".
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
