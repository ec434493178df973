//! Notes and warnings about a model, printed by several commands.

use pbg_dataset::describe::UnseenCounts;
use pbg_model::ResolvedConfig;
use pbg_model::trained::UntrainedNames;
use pbg_query::{AnswerNotes, BeamWidth, ExactReason};

use crate::format;
use crate::terminal::Terminal;

/// Warns about entities and relations that were added to the dataset after the checkpoint was committed.
pub(crate) fn warn_about_missing_rows(
    missing: &UntrainedNames,
    resolved: &ResolvedConfig,
    terminal: Terminal,
) {
    if missing.is_empty() {
        return;
    }
    let config = resolved.config();
    terminal.warn(format_args!(
        "{} was trained before {} were added to {}: they have no embedding yet; `pbg-host train` initialises them",
        config.checkpoint_path,
        describe_additions(missing.rows.iter(), missing.relations),
        config.dataset,
    ));
}

/// Describes edges with entities or relations that no trained edge has, as in "11 edges have entities or relations that
/// no trained edge has (10 entities, 1 relation)".
pub(crate) fn unseen(unseen: &UnseenCounts) -> String {
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
pub(crate) struct PrintedNotes(Vec<String>);

impl PrintedNotes {
    /// Prints how questions are answered, unless that was printed before; `around` hides the progress display
    /// meanwhile.
    pub(crate) fn print_search_plan(
        &mut self,
        approach: &AnswerNotes<'_>,
        terminal: Terminal,
        around: impl Fn(&dyn Fn()),
    ) {
        let instead = approach.all_instead.iter().copied().map(Err);
        for how in approach.widths.values().copied().map(Ok).chain(instead) {
            let text = note_text(&how);
            if !self.0.contains(&text) {
                around(&|| index_use(&how, terminal));
                self.0.push(text);
            }
        }
    }
}

fn note_text(how: &Result<BeamWidth, ExactReason>) -> String {
    match how {
        Ok(width) => width.to_string(),
        Err(instead) => instead.to_string(),
    }
}

/// Prints how an index was used; a warning if its answers miss much, or if it was not used because its recall is too
/// low.
pub(crate) fn index_use(how: &Result<BeamWidth, ExactReason>, terminal: Terminal) {
    match how {
        Ok(width) if !width.is_poor() => terminal.print_line(width),
        Err(ExactReason::Cheaper) => terminal.print_line(ExactReason::Cheaper),
        Ok(_) | Err(_) => terminal.warn(note_text(how)),
    }
}

/// Describes new rows by entity type, and new relations, as in "2 rows of user and 1 relation".
pub(crate) fn describe_additions<'a>(
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
