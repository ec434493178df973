//! Tables of results in LaTeX, with the rules of the package booktabs.

use std::fmt::Write as _;

use pbg_lab::comparison::{ComparisonCase, OrderComparison};
use pbg_lab::study::Study;

use crate::pages::{self, bytes, number};
use crate::provenance::Provenance;

/// Returns one table per case of a comparison.
#[must_use]
pub fn comparison(comparison: &OrderComparison, provenance: &Provenance) -> String {
    let mut text = preamble(provenance);
    for case in &comparison.cases {
        text.push_str(&case_table(
            case,
            &pages::comparison::spread_caption(comparison),
        ));
    }
    text
}

fn case_table(case: &ComparisonCase, spread: &str) -> String {
    let head = [
        "order",
        "swaps",
        "published",
        "ratio",
        "read",
        "written",
        "final",
        "bias",
        "stall (s)",
    ];
    let rows = case.orders.iter().map(|entry| {
        let mean = |figure: fn(&pbg_lab::analysis::Analysis) -> f64| entry.mean(figure);
        let published = entry.published.map_or_else(String::new, |published| {
            format!("{} \\cite{{{}}}", published.swaps, published.source)
        });
        let ratio = match case.lower_bound {
            0 => String::new(),
            bound => format!("{:.2}", mean(|a| a.swaps as f64) / bound as f64),
        };
        vec![
            escape(&entry.order),
            escape(&pages::comparison::swaps(entry)),
            published,
            ratio,
            bytes(mean(|a| a.bytes_read as f64)),
            bytes(mean(|a| a.bytes_written as f64)),
            bytes(mean(|a| a.bytes_final as f64)),
            format!("{:.2}", mean(|a| a.bias.mean)),
            number(mean(|a| a.stall_ahead)),
        ]
    });
    let caption = format!(
        "{}. {} No order makes fewer than {} swaps. Read and written are bytes of partitions that enter and leave the \
         buffer, final those that the checkpoint after the pass writes. Stalls are predicted with reading ahead.",
        escape(&case.title()),
        escape(spread),
        case.lower_bound
    );
    table(&head.map(str::to_owned), rows, &caption)
}

/// Returns the tables of a study.
#[must_use]
pub fn study(study: &Study, provenance: &Provenance) -> String {
    let mut text = preamble(provenance);
    let escaped = |row: Vec<String>| row.iter().map(|cell| escape(cell)).collect();
    let head = pages::study::HEADERS.map(escape);
    let rows = study.orders.iter().map(pages::study::row).map(escaped);
    text.push_str(&table(&head, rows, &escape(&pages::study::caption(study))));
    for statistics in pages::study::statistics(study) {
        let head: Vec<String> = statistics.head.iter().map(|cell| escape(cell)).collect();
        let rows = statistics.rows.into_iter().map(escaped);
        let caption = escape(&format!("{}. {}", statistics.title, statistics.caption));
        text.push_str(&table(&head, rows, &caption));
    }
    text
}

/// Returns comments that say where the tables come from and what they need.
fn preamble(provenance: &Provenance) -> String {
    let mut text =
        "% Needs \\usepackage{booktabs}; the keys of \\cite are those of docs/orders.bib.\n"
            .to_owned();
    for (name, value) in provenance.summary() {
        // A line break would end the comment.
        let _ = writeln!(text, "% {name}: {}", value.replace(['\n', '\r'], " "));
    }
    text
}

/// Returns a table whose cells are LaTeX already; the first column is text, the others are numbers.
fn table(head: &[String], rows: impl Iterator<Item = Vec<String>>, caption: &str) -> String {
    let columns = "r".repeat(head.len().saturating_sub(1));
    let mut text = format!(
        "\n\\begin{{table}}\n  \\centering\n  \\caption{{{caption}}}\n  \\begin{{tabular}}{{l{columns}}}\n    \\toprule\n"
    );
    let mut line = |cells: &[String], after: &str| {
        let _ = writeln!(text, "    {} \\\\{after}", cells.join(" & "));
    };
    line(head, "\n    \\midrule");
    rows.for_each(|row| line(&row, ""));
    text.push_str("    \\bottomrule\n  \\end{tabular}\n\\end{table}\n");
    text
}

/// Escapes text for LaTeX.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '–' => escaped.push_str("--"),
            '±' => escaped.push_str("$\\pm$"),
            '<' => escaped.push_str("$<$"),
            '>' => escaped.push_str("$>$"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_a_command() {
        assert_eq!(
            escape("a_b \\input{x} 5 %"),
            "a\\_b \\textbackslash{}input\\{x\\} 5 \\%"
        );
        let provenance = Provenance {
            command: "pbg-host\n\\input{x}".to_owned(),
            ..Provenance::default()
        };
        let text = preamble(&provenance);
        assert!(text.lines().all(|line| line.starts_with('%')), "{text}");
    }

    #[test]
    fn a_table_has_a_line_per_row() {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table(
            &cells(["order", "swaps"]),
            [cells(["beta", "42"])].into_iter(),
            "C",
        );
        assert!(text.contains("\\begin{tabular}{lr}"));
        assert!(text.contains("    beta & 42 \\\\\n"), "{text}");
    }
}
