//! Table of the limits for `docs/plugins/safety.md`, generated so that the page agrees with the code.

use std::fmt::Write as _;

use pbg_core::limits::PluginLimits;
use serde_json::Value;

use crate::guest::{INSTANCES, MEMORIES, TABLES};
use crate::size_limits::cap;
use crate::{compiler, limits};

/// Every key of `[plugins.limits]`: its name, what it limits, and what happens to a plugin that exceeds it.
const KEYS: [(&str, &str, &str); 10] = [
    (
        "deadline_ms",
        "milliseconds of processor time of one call, or ten times as many of wall-clock time; time in which the process is stopped or the machine sleeps does not count",
        "the call is stopped",
    ),
    (
        "memory_mib",
        "MiB of linear memory, all memories together",
        "the growth traps",
    ),
    (
        "table_elements",
        "entries of all tables together",
        "the growth traps",
    ),
    (
        "stack_kib",
        "stack of one call; rejected if the threads of the program have no room for it",
        "it traps",
    ),
    (
        "result_mib",
        "MiB that one call passes to the host, log lines included, checked before they are copied (a call whose valid answers are shorter, such as `plan` of a small grid, may pass twice the longest of them and 64 KiB); also the size of a file that it reads",
        "it traps; reading the file fails",
    ),
    ("handles", "resource handles alive at once", "it traps"),
    (
        "graph_nodes",
        "nodes of a traced loss",
        "the run does not start",
    ),
    (
        "log_lines",
        "lines that one call logs",
        "further lines are counted and dropped",
    ),
    (
        "run_log_lines",
        "lines that all calls of a run log",
        "further lines are not shown",
    ),
    (
        "compile_seconds",
        "seconds of processor time to compile a component, in a separate process; each MiB of it adds twice as many",
        "the plugin is not loaded",
    ),
];

/// Returns the table of the keys and the list of the fixed limits, as Markdown.
#[must_use]
pub fn limits_markdown() -> String {
    let defaults = serde_json::to_value(PluginLimits::default()).unwrap_or(Value::Null);
    let mut text = "| key | default | what it limits | effect of reaching it |\n\
                    |---|---|---|---|\n"
        .to_owned();
    for (key, what, seen) in KEYS {
        let _ = writeln!(text, "| `{key}` | {} | {what} | {seen} |", defaults[key]);
    }
    let mib = |bytes: u64| bytes >> 20;
    let _ = write!(
        text,
        "\nNot configurable, per component, and counted before it is compiled unless stated otherwise:\n\n\
         * {} MiB of file size\n",
        mib(limits::COMPONENT_BYTES)
    );
    for cap in cap::ALL {
        let _ = writeln!(text, "* {} {}", cap.most, cap.what);
    }
    let _ = write!(
        text,
        "* {MEMORIES} memories, {TABLES} tables and {INSTANCES} instances of modules, counted while it is instantiated\n\
         * {} MiB of memory of the process that compiles the component\n",
        mib(compiler::MEMORY)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_documented() {
        let defaults = serde_json::to_value(PluginLimits::default()).expect("numbers");
        let mut keys: Vec<&str> = KEYS.iter().map(|(key, ..)| *key).collect();
        let mut known: Vec<&str> = defaults
            .as_object()
            .expect("a table")
            .keys()
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        known.sort_unstable();
        assert_eq!(keys, known);
    }
}
