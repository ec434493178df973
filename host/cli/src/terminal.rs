//! Output: results go to standard output, everything else to standard error.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

use clap::builder::styling::{AnsiColor, Style};

use pbg_core::text::escaped_lines;

use crate::failure::{Failure, LineLabel, Result};

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl From<Color> for clap::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

/// Capabilities of the terminal and the user's choices of output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// Whether to use colours on standard error.
    pub(crate) color: bool,
    /// Whether to print details.
    pub(crate) verbose: bool,
    /// Whether standard error is a terminal.
    pub(crate) interactive: bool,
}

impl Terminal {
    /// Detects the capabilities of the standard streams.
    pub(crate) fn detect(color: Color, verbose: bool) -> Self {
        let interactive = io::stderr().is_terminal();
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => interactive && colors_allowed(),
        };
        Self {
            color,
            verbose,
            interactive,
        }
    }

    /// Formats `text` in `style` if colours are on.
    pub(crate) fn paint(&self, style: Style, text: impl fmt::Display) -> String {
        if self.color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_string()
        }
    }

    /// Prints a line. Control characters are escaped, since parts of the line may come from files or plugins.
    pub(crate) fn print_line(&self, text: impl fmt::Display) {
        self.print_raw_line(escaped_lines(&text.to_string()));
    }

    /// Prints a line unchanged, so that it may contain styles. The caller escapes all parts that come from files or
    /// plugins. Errors are ignored, since a closed standard error should not stop the work.
    pub(crate) fn print_raw_line(&self, text: impl fmt::Display) {
        let _closed = writeln!(io::stderr().lock(), "{text}");
    }

    /// Prints a line if `--verbose` is given.
    pub(crate) fn detail(&self, text: impl fmt::Display) {
        if self.verbose {
            self.print_line(text);
        }
    }

    /// Prints a line with a coloured label.
    pub(crate) fn labelled(&self, style: Style, label: &str, text: impl fmt::Display) {
        self.print_raw_line(format_args!(
            "{} {}",
            self.paint(style.bold(), format_args!("{label}:")),
            escaped_lines(&text.to_string())
        ));
    }

    /// Prints a warning.
    pub(crate) fn warn(&self, text: impl fmt::Display) {
        self.labelled(AnsiColor::Yellow.on_default(), "warning", text);
    }

    /// Prints advice.
    pub(crate) fn help(&self, text: impl fmt::Display) {
        self.labelled(AnsiColor::Cyan.on_default(), "help", text);
    }

    /// Prints a failure with its causes and advice.
    pub(crate) fn failure(&self, failure: &Failure) {
        for (label, text) in failure.lines() {
            let text = text.trim_end().replace('\n', "\n  ");
            match label {
                LineLabel::Error => self.labelled(AnsiColor::Red.on_default(), "error", text),
                LineLabel::Cause => self.labelled(Style::new(), "caused by", text),
                LineLabel::Help => self.help(text),
            }
        }
    }
}

fn colors_allowed() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Writes a result to standard output with `write`, buffered. Control characters are escaped, since names in it may
/// come from files.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    print_raw(|out| {
        let mut text = Vec::new();
        write(&mut text)?;
        out.write_all(escaped_lines(&String::from_utf8_lossy(&text)).as_bytes())
    })
}

/// Like [`print`], but without escaping, for output that other programs read.
///
/// # Errors
/// As for [`print`].
pub(crate) fn print_raw(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)
        .and_then(|()| out.flush())
        .map_err(Failure::stdout)
}

/// Writes a result to standard output: as JSON, or else with `write` as text.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn print_result(
    json: bool,
    value: &impl serde::Serialize,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    match json {
        true => print_json(value),
        false => print(write),
    }
}

/// Writes a value as indented JSON to standard output.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print_raw(|out| {
        serde_json::to_writer_pretty(&mut *out, value).map_err(io::Error::from)?;
        writeln!(out)
    })
}
