//! External programs: finding and running them, and errors with their names.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::BuildError;

/// Returns the first of `candidates` that is a file, or `name` in the first folder of `PATH` that contains it.
///
/// # Errors
/// [`BuildError::ToolMissing`] with `advice`.
pub(crate) fn find(
    name: &str,
    candidates: &[PathBuf],
    advice: &'static str,
) -> Result<PathBuf, BuildError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(name));
    let found = candidates
        .iter()
        .cloned()
        .chain(on_path)
        .find(|p| p.is_file());
    // Relative paths would be resolved in the folder in which the tool is started.
    found
        .and_then(|path| std::path::absolute(path).ok())
        .ok_or_else(|| BuildError::ToolMissing {
            tool: name.to_owned(),
            advice,
        })
}

/// Runs a command in `folder`. Its output goes to standard error immediately.
///
/// # Errors
/// [`BuildError::Tool`] if it fails.
pub(crate) fn run(command: &mut Command, folder: &Path) -> Result<(), BuildError> {
    // Standard output is for pbg-host's results, not for messages of tools.
    let said = io::stderr().as_fd().try_clone_to_owned();
    let stdout = said.map_or_else(|_| Stdio::null(), Stdio::from);
    finish(command.stdout(stdout), folder).map(drop)
}

/// Runs a command in `folder` and returns what it wrote to standard output.
///
/// # Errors
/// As [`run`].
pub(crate) fn output(command: &mut Command, folder: &Path) -> Result<Vec<u8>, BuildError> {
    finish(command.stdout(Stdio::piped()), folder).map(|output| output.stdout)
}

/// Runs a command in `folder` that writes nothing useful to standard output. If it fails, `reason` extracts the error
/// from its messages. If `reason` finds none, or the command succeeds, its messages go to standard error.
///
/// # Errors
/// [`BuildError::Code`] with the reason, or as [`run`].
pub(crate) fn run_with_reason(
    command: &mut Command,
    folder: &Path,
    reason: impl FnOnce(&str) -> Option<String>,
) -> Result<(), BuildError> {
    let output = start(command, folder)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success()
        && let Some(reason) = reason(&said)
    {
        return Err(BuildError::Code { reason });
    }
    let _closed = io::stderr().write_all(said.as_bytes());
    succeeded(command, &output)
}

fn finish(command: &mut Command, folder: &Path) -> Result<Output, BuildError> {
    // Earlier output of pbg-host must come before the tool's.
    let _closed = io::stderr().flush();
    let output = start(command.stderr(Stdio::inherit()), folder)?;
    succeeded(command, &output)?;
    Ok(output)
}

fn start(command: &mut Command, folder: &Path) -> Result<Output, BuildError> {
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    output.map_err(|e| BuildError::io("start", Path::new(command.get_program()), e))
}

fn succeeded(command: &Command, output: &Output) -> Result<(), BuildError> {
    match output.status.success() {
        true => Ok(()),
        false => Err(BuildError::Tool {
            command: line(command),
            status: output.status,
        }),
    }
}

/// Formats a command as a user would type it, with only the file name of the program.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
