//! Announces steps, runs other programs, and says what to do by hand if one fails.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

/// Prints one line about the next step.
pub fn announce(what: &str) {
    println!("==> {what}");
}

/// Runs `command` with the terminal of this program. `what_to_do` is part of the error if it fails.
pub fn run(command: &mut Command, what_to_do: &str) -> Result<()> {
    let status = start_error(command.status(), command, what_to_do)?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(command, status, what_to_do))
    }
}

/// Runs `command` and returns its standard output. If it fails, the error contains all of its output.
pub fn output(command: &mut Command, what_to_do: &str) -> Result<String> {
    let output = start_error(command.output(), command, what_to_do)?;
    if !output.status.success() {
        let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
        let said = format!("{}\n{}", out.trim(), err.trim());
        return Err(failed(command, output.status, what_to_do).context(said.trim().to_owned()));
    }
    String::from_utf8(output.stdout).with_context(|| {
        format!(
            "`{}` printed something that is not UTF-8",
            format_command(command)
        )
    })
}

/// Returns the messages of an error and its causes, the last cause at the end. Errors of [`output`] have the program's
/// output first.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    causes.join("\n")
}

/// Runs `command` without showing its output, and returns whether it succeeded.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn start_error<T>(result: std::io::Result<T>, command: &Command, what_to_do: &str) -> Result<T> {
    result.with_context(|| {
        format!(
            "cannot start `{}`\nwhat to do: {what_to_do}",
            format_command(command)
        )
    })
}

fn failed(command: &Command, status: ExitStatus, what_to_do: &str) -> anyhow::Error {
    anyhow!(
        "`{}` failed ({status})\nwhat to do: {what_to_do}",
        format_command(command)
    )
}

/// Formats the command so that it can be typed.
pub(crate) fn format_command(command: &Command) -> String {
    let program = command.get_program();
    let mut text = quoted(Path::new(program).file_name().unwrap_or(program));
    for arg in command.get_args() {
        let _ = write!(text, " {}", quoted(arg));
    }
    text
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{word}'")
    }
}

/// Durations of steps.
#[derive(Debug, Default)]
pub(crate) struct Times {
    steps: Vec<(String, Duration)>,
}

impl Times {
    /// Announces and runs one step, and records its time, also if it fails.
    pub(crate) fn step<T>(&mut self, what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        announce(what);
        let start = Instant::now();
        let result = run();
        self.steps.push((what.to_owned(), start.elapsed()));
        result
    }

    /// Prints one line per step and one for the sum.
    pub(crate) fn print(&self) {
        let total: Duration = self.steps.iter().map(|(_, time)| *time).sum();
        println!();
        for (what, time) in self
            .steps
            .iter()
            .map(|(what, time)| (what.as_str(), *time))
            .chain([("in total", total)])
        {
            println!("{:>8.1} s  {what}", time.as_secs_f64());
        }
    }
}
