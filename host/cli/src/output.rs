//! Writes results to files.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal::Terminal;

/// Writes a result to a file, creates its folder if necessary, and prints the path.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(path: &Path, content: &[u8], terminal: Terminal) -> Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let written = folder
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, content));
    written.map_err(|error| {
        Failure::new(FailureKind::Io, error).context(format!("cannot write {}", path.display()))
    })?;
    terminal.print_line(format_args!("wrote {}", path.display()));
    Ok(())
}

/// Writes a value as indented JSON to a file.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write_json(
    path: &Path,
    value: &impl serde::Serialize,
    terminal: Terminal,
) -> Result<()> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|e| Failure::new(FailureKind::Internal, e))?;
    text.push(b'\n');
    write(path, &text, terminal)
}

/// Returns the failure to generate a page or a table.
pub(crate) fn render_failure(error: impl std::fmt::Display) -> Failure {
    Failure::message(FailureKind::Internal, error)
}
