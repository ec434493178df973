//! Writes results to files.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal::Terminal;

/// Writes a result to a file, creates its folder if necessary, and prints the path.
fn write(path: &Path, content: &[u8], terminal: Terminal) -> Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let written = folder
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, content));
    written.map_err(|error| Failure::io("cannot write", path, error))?;
    terminal.print_line(format_args!("wrote {}", path.display()));
    Ok(())
}

/// Writes the page or table that `text` generates to a file, if one is named.
///
/// # Errors
/// When the text cannot be generated, or the file cannot be written.
pub(crate) fn render<E: Display>(
    path: Option<&Path>,
    terminal: Terminal,
    text: impl FnOnce() -> Result<String, E>,
) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = text().map_err(|error| Failure::message(FailureKind::Internal, error))?;
    write(path, text.as_bytes(), terminal)
}

/// Writes a value as indented JSON to a file, if one is named.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn json(
    path: Option<&Path>,
    terminal: Terminal,
    value: &impl serde::Serialize,
) -> Result<()> {
    render(path, terminal, || {
        Ok::<_, serde_json::Error>(serde_json::to_string_pretty(value)? + "\n")
    })
}
