//! Page of the standard plugins: what each says of itself, what `plugin check` finds and what `plugin bench` measures.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use xtask::repo::Repo;
use xtask::step;

use super::pages::save;

/// Path of the page in the site.
pub(super) const PAGE: &str = "docs/plugins/gallery.md";

/// Kinds of plugins, as the program names them, with their headings, in the order of the page.
const KINDS: [(&str, &str); 9] = [
    ("bucket_order", "Bucket orders"),
    ("relation_sampler", "Relation samplers"),
    ("negative_sampler", "Negative samplers"),
    ("negative_selector", "Negative selectors"),
    ("traced_loss", "Losses"),
    ("computed_loss", "Losses that are code"),
    ("traced_operator", "Operators"),
    ("comparator", "Comparators"),
    ("rate_schedule", "Learning rate schedules"),
];

const INTRODUCTION: &str = "# Standard plugins

The plugins that come with the program, all written with the public SDK, as they describe themselves (`pbg-host plugin \
list --json`).

* *promises*: how many of the promises of its kind a plugin keeps (`pbg-host plugin check NAME`).
* *swaps*: partitions that an order loads in a pass over 16 x 16 buckets of which 4 partitions are in memory (mean of the \
seeds); at least 38 are needed.
* *largest call* and *of training*: time of the largest call that `pbg-host plugin bench NAME` measures, on the machine \
that made this page, and its share of the time in which the edges of that call are trained, at 500,000 edges per second.
";

/// Writes the page into `source`. Every plugin must keep its promises.
pub(super) fn write(repo: &Repo, source: &Path) -> Result<()> {
    step::announce("checking and measuring the standard plugins");
    let plugins = asked(repo, &["list"])?;
    let plugins = plugins.as_array().context("a list of plugins")?;
    let mut page = INTRODUCTION.to_owned();
    for (kind, heading) in KINDS {
        let swaps = kind == KINDS[0].0;
        let titles = [
            "name",
            "what it does",
            "size",
            "promises",
            "swaps",
            "largest call",
            "of training",
        ];
        let titles: Vec<&str> = titles
            .into_iter()
            .filter(|title| swaps || *title != "swaps")
            .collect();
        let lines = "|---|---".to_owned() + &"|---:".repeat(titles.len() - 2);
        let _ = write!(
            page,
            "\n## {heading}\n\n| {} |\n{lines}|\n",
            titles.join(" | ")
        );
        let of_kind = plugins.iter().filter(|plugin| plugin["kind"] == kind);
        for plugin in of_kind.clone() {
            let cells = cells(repo, plugin, swaps)?;
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
        of_kind.for_each(|plugin| parameters(plugin, &mut page));
    }
    let known = |plugin: &Value| KINDS.iter().any(|(kind, _)| plugin["kind"] == *kind);
    let other = plugins.iter().find(|plugin| !known(plugin));
    ensure!(other.is_none(), "the page has no place for {other:?}");
    save(&source.join(PAGE), page)
}

/// Returns what a command of `pbg-host plugin` prints as JSON.
fn asked(repo: &Repo, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(repo.program());
    command.arg("plugin").args(arguments).arg("--json");
    let said = step::output(&mut command, "run it by hand")?;
    serde_json::from_str(&said).with_context(|| format!("pbg-host plugin {}", arguments.join(" ")))
}

/// Returns the cells of a plugin's row; orders have one more.
fn cells(repo: &Repo, plugin: &Value, with_swaps: bool) -> Result<Vec<String>> {
    let name = plugin["name"].as_str().context("a plugin has a name")?;
    let summary = plugin["summary"].as_str().unwrap_or_default();
    let size = plugin["size"].as_f64().unwrap_or_default() / 1024.0;
    let mut cells = vec![
        format!("`{name}`"),
        summary.to_owned(),
        format!("{size:.0} KiB"),
    ];
    if plugin["reads_files"] == true {
        cells.push("needs a file".to_owned());
        cells.resize(6 + usize::from(with_swaps), String::new());
        return Ok(cells);
    }
    let checked = asked(repo, &["check", name])?;
    let findings = checked["findings"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let kept = findings
        .iter()
        .filter(|finding| finding["outcome"] == "kept");
    cells.push(kept.count().to_string());
    if with_swaps {
        cells.push(findings.iter().find_map(swaps).unwrap_or_default());
    }
    let measured = asked(repo, &["bench", name, "--seconds", "0.1"])?;
    let call = measured["calls"].as_array().and_then(|calls| calls.last());
    let call = call.with_context(|| format!("{name} has no call"))?;
    let what = call["call"].as_str().unwrap_or_default();
    let number = |key: &str| call[key].as_f64().unwrap_or_default();
    cells.push(format!("{what}: {}", duration(number("median"))));
    cells.push(percent(number("share")));
    Ok(cells)
}

/// Formats a duration in seconds.
fn duration(seconds: f64) -> String {
    match 1e6 * seconds {
        micros if micros < 1000.0 => format!("{micros:.1} µs"),
        micros => format!("{:.1} ms", micros / 1000.0),
    }
}

/// Returns the swaps of an order on 16 partitions of which 4 are in memory, if a finding has them.
fn swaps(finding: &Value) -> Option<String> {
    let lines = finding["detail"].as_str()?.lines();
    let mut found = lines.filter(|_| finding["promise"] == "swaps");
    let line = found.find_map(|line| line.trim_start().strip_prefix("16 x 4:"))?;
    line.split_whitespace().next().map(str::to_owned)
}

/// Formats a share of training.
fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 0.01 => "below 0.01 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Appends the parameters of a plugin, each with its default.
fn parameters(plugin: &Value, page: &mut String) {
    let parameters = plugin["parameters"].as_array();
    let parameters = parameters.map_or(&[][..], Vec::as_slice);
    let name = plugin["name"].as_str().unwrap_or_default();
    if !parameters.is_empty() {
        let _ = write!(page, "\nParameters of `{name}`:\n\n");
    }
    for parameter in parameters {
        let text = |key: &str| parameter[key].as_str().unwrap_or_default();
        let default = match &parameter["default"] {
            Value::Null => "required".to_owned(),
            value => format!("default `{value}`"),
        };
        let _ = writeln!(page, "* `{}` ({default}): {}", text("name"), text("doc"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_read_from_what_the_program_prints() {
        let detail =
            "partitions x buffer: swaps per pass\n 8 x 2:   29.7     27\n16 x 4:   90.0     38";
        let finding = json!({"promise": "swaps", "outcome": "note", "detail": detail});
        assert_eq!(swaps(&finding).as_deref(), Some("90.0"));
        assert_eq!(swaps(&json!({"promise": "seed", "detail": detail})), None);
        let shares = [1e-7, 0.001_234, 0.345].map(percent);
        assert_eq!(shares, ["below 0.01 %", "0.12 %", "34 %"]);
        assert_eq!([4e-6, 0.0314].map(duration), ["4.0 µs", "31.4 ms"]);
        let mut page = String::new();
        let choice = json!({"name": "assignment", "doc": "State.", "default": "greedy"});
        parameters(&json!({"name": "beta", "parameters": [choice]}), &mut page);
        assert!(
            page.contains("* `assignment` (default `\"greedy\"`): State.\n"),
            "{page}"
        );
    }
}
