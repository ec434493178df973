//! Reads lines of input files and of standard input, in bounded memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::failure::{Failure, Result};
use crate::interruptible_reader::InterruptibleReader;
use crate::kind::FailureKind;

/// Maximum length in bytes of a line; ample for three names.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Reader of the lines of a text.
pub(crate) struct LineReader {
    input: Box<dyn BufRead>,
    source: String,
    number: u64,
}

impl LineReader {
    /// Reads lines from standard input.
    pub(crate) fn of_stdin() -> Self {
        Self::new(Box::new(io::stdin().lock()), "standard input".to_owned())
    }

    /// Reads lines from a file, or from standard input if `path` is `-`.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::of_stdin());
        }
        Self::of_file(path)
    }

    /// Like [`LineReader::open`], but standard input ends as soon as `stop` is set.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn open_until(path: &Path, stop: &Arc<AtomicBool>) -> Result<Self> {
        if path != Path::new("-") {
            return Self::of_file(path);
        }
        let input = InterruptibleReader::spawn(io::stdin(), stop)
            .map_err(|e| Failure::new(FailureKind::Io, e))?;
        let source = "standard input".to_owned();
        Ok(Self::new(Box::new(BufReader::new(input)), source))
    }

    fn of_file(path: &Path) -> Result<Self> {
        let source = path.display().to_string();
        let opened = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(io::ErrorKind::IsADirectory.into()),
            false => Ok(file),
        });
        let file = opened.map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => FailureKind::Data,
                _ => FailureKind::Io,
            };
            Failure::new(kind, error).context(format!("cannot read {source}"))
        })?;
        Ok(Self::new(Box::new(BufReader::new(file)), source))
    }

    fn new(input: Box<dyn BufRead>, source: String) -> Self {
        let number = 0;
        Self {
            input,
            source,
            number,
        }
    }

    /// Returns the next line without its line ending; `None` after the last line.
    ///
    /// # Errors
    /// When the line cannot be read, is too long or is not UTF-8.
    pub(crate) fn next(&mut self) -> Result<Option<String>> {
        self.number += 1;
        let mut bytes = Vec::new();
        let input = (&mut self.input).take(MAX_LINE_BYTES + 1);
        let read = { input }.read_until(b'\n', &mut bytes).map_err(|error| {
            Failure::new(FailureKind::Io, error).context(format!("cannot read {}", self.source))
        })?;
        if read == 0 {
            return Ok(None);
        }
        if bytes.len() as u64 > MAX_LINE_BYTES {
            return Err(self.error_at_line("longer than 1 MiB"));
        }
        let text = String::from_utf8(bytes).map_err(|_| self.error_at_line("not valid UTF-8"))?;
        // Some editors write a byte-order mark at the beginning of a file, which is not part of a name.
        let text = match self.number {
            1 => text.strip_prefix('\u{feff}').unwrap_or(&text),
            _ => &text,
        };
        let line = text.strip_suffix('\n').unwrap_or(text);
        Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
    }

    /// Returns the location of the last line read, for messages.
    pub(crate) fn location(&self) -> String {
        self.place_of(self.number)
    }

    /// Returns the location of line `number`, for messages.
    pub(crate) fn place_of(&self, number: u64) -> String {
        format!("{}, line {number}", self.source)
    }

    /// Returns the number of the last line read, counted from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns a failure at the last line read.
    pub(crate) fn error_at_line(&self, what: impl std::fmt::Display) -> Failure {
        Failure::message(FailureKind::Data, format!("{}: {what}", self.location()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> LineReader {
        LineReader::new(
            Box::new(io::Cursor::new(bytes.to_vec())),
            "x.tsv".to_owned(),
        )
    }

    #[test]
    fn lines_end_as_they_like() {
        let mut input = of(b"\xef\xbb\xbfa\tb\tc\r\nd\te\tf\n\ng");
        let mut lines = Vec::new();
        while let Some(line) = input.next().unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["a\tb\tc", "d\te\tf", "", "g"]);
    }

    #[test]
    fn endless_and_undecodable_lines_are_errors() {
        let check = |bytes: &[u8], word: &str| {
            let failure = of(bytes).next().unwrap_err();
            let text = &failure.lines()[0].1;
            assert!(
                text.contains(word) && text.contains("x.tsv, line 1"),
                "{text}"
            );
            assert_eq!(failure.kind(), FailureKind::Data);
        };
        check(&vec![b'a'; 3 << 20], "1 MiB");
        check(b"\xff\n", "UTF-8");
    }
}
