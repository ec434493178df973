//! Tools that could not be installed, so that some tests are skipped.

use std::env;

use anyhow::{Result, ensure};

use crate::step;

/// Maximum number of lines of an installer's output that are shown.
const LINES: usize = 10;

/// Missing tool.
#[derive(Debug)]
pub(crate) struct MissingTool {
    /// Name in `PBG_REQUIRE`.
    pub(super) tool: &'static str,
    /// Message that says what is not tested, and how to install the tool.
    pub(super) notice: String,
    /// Output of the installer that failed.
    pub(super) installer_output: Option<String>,
}

impl MissingTool {
    /// Prints what is not tested and why.
    pub(crate) fn print_notice(&self) {
        step::announce(&self.notice);
        for line in last_lines(self.installer_output.as_deref().unwrap_or_default()) {
            println!("    {line}");
        }
    }
}

/// Checks whether the tests may run without these tools.
///
/// # Errors
/// If `PBG_REQUIRE` names one of them.
pub(super) fn check_required(missing: &[MissingTool]) -> Result<()> {
    let required = env::var("PBG_REQUIRE").unwrap_or_default();
    let is_required = |tool: &&str| required.split(',').any(|name| name.trim() == *tool);
    let tools = missing.iter().map(|missing| missing.tool);
    let tools: Vec<&str> = tools.filter(is_required).collect();
    ensure!(
        tools.is_empty(),
        "tools named in PBG_REQUIRE could not be installed: {}\nwhat to do: see the messages above, or remove them from PBG_REQUIRE",
        tools.join(", ")
    );
    Ok(())
}

/// Returns the last non-empty lines of a program's output.
fn last_lines(said: &str) -> Vec<&str> {
    let lines = said.lines().filter(|line| !line.trim().is_empty());
    let mut last: Vec<&str> = lines.rev().take(LINES).collect();
    last.reverse();
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_what_was_said_is_shown() {
        assert!(last_lines("").is_empty());
        assert_eq!(last_lines("a\n\nb\n"), ["a", "b"]);
        let many: Vec<String> = (0..30).map(|n| n.to_string()).collect();
        assert_eq!(last_lines(&many.join("\n")), &many[20..]);
    }
}
