//! Format of a text of edges: the user's options and the detected format.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::rdf::RdfSyntax;

/// Options of the user for text files. Options that are `None` are detected in each file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Whether the first line is a header with column names.
    pub header: Option<bool>,
    /// File whose first line is the header of all files of edges, which have none themselves.
    pub header_file: Option<PathBuf>,
    /// Separator of columns.
    pub separator: Option<Separator>,
    /// Comment lines.
    pub comment: Option<Comments>,
    /// Number of lines to skip at the beginning of each file.
    pub skip_lines: u64,
}

/// Separator of the columns of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// One ASCII character. Commas and semicolons within double quotes do not separate.
    Character(u8),
    /// Any number of spaces and tabs; those at the ends of a line are ignored.
    Blanks,
    /// None: the file is RDF.
    Rdf(RdfSyntax),
}

impl Separator {
    pub(super) const TAB: Self = Self::Character(b'\t');
    pub(super) const COMMA: Self = Self::Character(b',');
    pub(super) const SEMICOLON: Self = Self::Character(b';');
    pub(super) const PIPE: Self = Self::Character(b'|');

    /// Returns the name of the separator on the command line.
    pub(super) fn word(self) -> String {
        match self {
            Self::TAB => "tab".to_owned(),
            Self::COMMA => "comma".to_owned(),
            Self::SEMICOLON => "semicolon".to_owned(),
            Self::PIPE => "pipe".to_owned(),
            Self::Character(character) => char::from(character).to_string(),
            Self::Blanks => "space".to_owned(),
            Self::Rdf(syntax) => syntax.word().to_owned(),
        }
    }

    /// Returns the separator character if cells may be quoted as in RFC 4180.
    pub(super) fn quotable(self) -> Option<u8> {
        match self {
            Self::Character(character @ (b',' | b';')) => Some(character),
            _ => None,
        }
    }

    /// Returns whether blanks around a name are removed.
    pub(super) fn trims(self) -> bool {
        matches!(self, Self::COMMA | Self::SEMICOLON | Self::PIPE)
    }
}

impl fmt::Display for Separator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TAB => f.write_str("separated by tabs"),
            Self::COMMA => f.write_str("separated by commas"),
            Self::SEMICOLON => f.write_str("separated by semicolons"),
            Self::Character(character) => write!(f, "separated by `{}`", char::from(character)),
            Self::Blanks => f.write_str("separated by blanks"),
            Self::Rdf(syntax) => syntax.fmt(f),
        }
    }
}

impl FromStr for Separator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(syntax) = RdfSyntax::of_word(text) {
            return Ok(Self::Rdf(syntax));
        }
        match text {
            "tab" | "\t" | "\\t" => Ok(Self::TAB),
            "comma" => Ok(Self::COMMA),
            "semicolon" => Ok(Self::SEMICOLON),
            "pipe" => Ok(Self::PIPE),
            "space" | " " => Ok(Self::Blanks),
            _ => single_character(text).map(Self::Character).ok_or_else(|| {
                format!(
                    "`{text}` does not separate columns: use tab, comma, semicolon, pipe, space (any number of \
                     blanks), ntriples, nquads, turtle, or one ASCII character that is not a letter, a digit or a quote"
                )
            }),
        }
    }
}

/// Rule that identifies comment lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    /// No line is a comment: every line is an edge.
    None,
    /// Lines that begin with this ASCII character.
    After(u8),
}

impl FromStr for Comments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match single_character(text) {
            _ if text == "none" => Ok(Self::None),
            Some(mark) => Ok(Self::After(mark)),
            None => Err(format!(
                "`{text}` does not mark comments: use one ASCII character that is not a letter, a digit or a quote, \
                 as in `#`, or `none`"
            )),
        }
    }
}

fn single_character(text: &str) -> Option<u8> {
    match *text.as_bytes() {
        [byte @ (1..=0x1f | 0x21..0x7f)]
            if !byte.is_ascii_alphanumeric() && !b"\"'\r\n".contains(&byte) =>
        {
            Some(byte)
        }
        _ => None,
    }
}

/// Treatment of a line that is not an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBadLine {
    /// The import ends with an error.
    #[default]
    Error,
    /// The line is skipped and counted.
    Skip,
}

impl FromStr for OnBadLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Self::Error),
            "skip" => Ok(Self::Skip),
            _ => Err(format!("`{text}` is neither `error` nor `skip`")),
        }
    }
}

/// Format of the lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextFormat {
    pub(super) separator: Separator,
    /// Lines before the first edge: skipped lines, comments, a count, a header.
    pub(super) preamble: u64,
    pub(super) comment: Option<CommentRule>,
}

/// Rule for lines that begin with the comment character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommentRule {
    pub(super) mark: u8,
    /// Whether the user specified it. If not, such a line after the first edge is ambiguous and therefore an error.
    pub(super) by_user: bool,
}

impl CommentRule {
    /// Returns whether a line that begins with `first` is skipped.
    ///
    /// # Errors
    /// When the line is ambiguous.
    pub(super) fn skips(self, first: Option<&u8>) -> Result<bool, String> {
        match first == Some(&self.mark) {
            true if !self.by_user => {
                let mark = char::from(self.mark);
                Err(format!(
                    "the line begins with `{mark}`, as the comments at the beginning of the file do: is it a comment \
                     or an edge? Use `--comment '{mark}'` for comments, `--comment none` for edges"
                ))
            }
            begins => Ok(begins),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_characters() {
        assert_eq!("tab".parse(), Ok(Separator::TAB));
        assert_eq!(",".parse(), Ok(Separator::COMMA));
        assert_eq!("|".parse(), Ok(Separator::PIPE));
        assert_eq!("space".parse(), Ok(Separator::Blanks));
        assert_eq!("\u{1}".parse(), Ok(Separator::Character(1)));
        for wrong in ["", "::", "a", "7", "\"", "\n", "ä"] {
            assert!(wrong.parse::<Separator>().is_err(), "{wrong}");
            assert!(wrong.parse::<Comments>().is_err(), "{wrong}");
        }
        for separator in [
            Separator::TAB,
            Separator::Blanks,
            Separator::Character(b':'),
        ] {
            assert_eq!(separator.word().parse(), Ok(separator));
        }
        assert_eq!("none".parse(), Ok(Comments::None));
        assert_eq!("%".parse(), Ok(Comments::After(b'%')));
    }
}
