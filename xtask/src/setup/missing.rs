//! Tools that could not be installed, and that tests do without.

use std::env;

use anyhow::{Result, ensure};

use crate::step;

/// Lines of an installer that are shown.
const LINES: usize = 10;

/// A tool that tests do without.
#[derive(Debug)]
pub(crate) struct Missing {
    /// What `PBG_REQUIRE` calls it.
    pub(super) tool: &'static str,
    /// What is not tested, and how to get it.
    pub(super) notice: String,
    /// What its installer said when it failed.
    pub(super) said: Option<String>,
}

impl Missing {
    /// Says what is not tested and why.
    pub(crate) fn tell(&self) {
        step::announce(&self.notice);
        for line in last_lines(self.said.as_deref().unwrap_or_default()) {
            println!("    {line}");
        }
    }
}

/// Whether the tests may begin without these tools.
///
/// # Errors
/// Where `PBG_REQUIRE` names one of them.
pub(super) fn admit(missing: &[Missing]) -> Result<()> {
    let required = env::var("PBG_REQUIRE").unwrap_or_default();
    let is_required = |tool: &&str| required.split(',').any(|name| name.trim() == *tool);
    let tools = missing.iter().map(|missing| missing.tool);
    let tools: Vec<&str> = tools.filter(is_required).collect();
    ensure!(
        tools.is_empty(),
        "PBG_REQUIRE names what could not be installed: {}\nwhat to do: see the messages above, or leave it out of PBG_REQUIRE",
        tools.join(", ")
    );
    Ok(())
}

/// The end of what a program said.
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
