//! What several commands have to say about a model beside their results.

use pbg_train::trained::Missing;
use pbg_train::{Approach, Resolved, Width};

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

/// What was said of answers that an index was asked for.
#[derive(Default)]
pub(crate) struct Told {
    widths: Vec<Width>,
    all_instead: bool,
}

impl Told {
    /// Says how so many questions are answered, where it was not said before.
    pub(crate) fn approach(
        &mut self,
        approach: &Approach<'_>,
        questions: usize,
        mut say: impl FnMut(String),
    ) {
        if approach.all_instead && !self.all_instead {
            let questions = format::plural(questions as u64, "question");
            say(format!(
                "exact: for {questions} at once, a look at all entities takes less than the index, which `--width` insists on"
            ));
            self.all_instead = true;
        }
        for width in approach.widths.values() {
            if !self.widths.contains(width) {
                say(approximate(width));
                self.widths.push(*width);
            }
        }
    }
}

/// That answers come by an index, and how many of the nearest such answers had when it was built.
pub(crate) fn approximate(width: &Width) -> String {
    let in_view = width.width;
    match width.recall {
        Some(recall) => format!(
            "approximate, by the index: recall@10 {recall:.3} measured when it was built, with {in_view} in view"
        ),
        None => format!(
            "approximate, by the index: nothing was measured with {in_view} in view when it was built"
        ),
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
