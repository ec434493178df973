//! Results as files.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal::Terminal;

/// Writes a result that somebody asked for.
///
/// # Errors
/// When it cannot be written.
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
    terminal.say(format_args!("wrote {}", path.display()));
    Ok(())
}

/// Writes a value as indented JSON.
///
/// # Errors
/// When it cannot be written.
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

/// A page or a table that could not be made.
pub(crate) fn unmade(error: impl std::fmt::Display) -> Failure {
    Failure::message(FailureKind::Internal, error)
}
