//! Ends of the statements of a Turtle text.

use std::collections::HashSet;

/// Longest string or comment in bytes. Shapes of areas, for instance, are long.
const MAX_STRING: usize = 16 << 20;

/// Longest IRI or other word in bytes.
const MAX_WORD: usize = 64 << 10;

/// Length in bytes from which a word counts as long.
const LONG_WORD: usize = 256;

/// Largest depth of brackets within brackets.
const MAX_DEPTH: usize = 1000;

/// Bytes of a broken token after its first line end, after which a line end closes it and its statement: otherwise one
/// missing quote would take the rest of the text.
const MAX_BROKEN: usize = 4 << 10;

const BROKEN_STRING: &str = "a string has a line end: its closing quote is missing, or it needs three quotes at both \
                             ends, or `\\n`";

const BROKEN_IRI: &str = "an IRI contains a control character, a line end: its `>` is missing";

/// Longest label that the library gives to a blank node without one.
const GIVEN_LABEL: usize = 32;

/// Returns the number that a label stands for, if the library could have given it to a blank node without a label: a
/// random number of 128 bits in hexadecimal digits, which begins with a letter. Shorter ones do not occur.
pub(super) fn given_number(label: &[u8]) -> Option<u128> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_given = (GIVEN_LABEL / 2..=GIVEN_LABEL).contains(&label.len())
        && label.first().is_some_and(u8::is_ascii_alphabetic)
        && label.iter().all(is_digit);
    let text = std::str::from_utf8(label).ok().filter(|_| is_given)?;
    u128::from_str_radix(text, 16).ok()
}

/// Scanner that finds the ends of statements, keeps tokens and nesting bounded, and collects the labels of blank nodes
/// that look like those which the library gives.
///
/// It knows just enough of Turtle for this: strings, IRIs, comments, brackets, and that a dot followed by a blank ends
/// a statement. A dot that it does not recognise only delays the end.
#[derive(Debug, Default)]
pub(super) struct StatementScanner {
    token: Token,
    /// Description of a token that must not have a line end and has one.
    broken: Option<&'static str>,
    /// Bytes of such a token up to its first line end; `None` for a token that is in order so far.
    broken_from: Option<usize>,
    /// Last bytes outside of tokens, as lower-case letters.
    recent: u64,
    /// Whether `prefix` or `base` has come, and whether an IRI has ended since.
    declares: bool,
    has_declared: bool,
    /// Bytes of the token so far.
    length: usize,
    /// Open brackets and parentheses.
    depth: usize,
    /// Whether the last byte is a dot outside of brackets, or escapes the next one.
    after_dot: bool,
    escaped: bool,
    /// Beginning of the current word, long enough for a label.
    word: Vec<u8>,
    /// Numbers of the labels in the current statement that have the form of given ones.
    pub(super) labels: HashSet<u128>,
}

/// Kind of the current token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Token {
    /// Word, number, punctuation or blank.
    #[default]
    Plain,
    Iri,
    Comment,
    /// One or two quotes, which begin a string.
    Opening {
        quote: u8,
        quotes: u8,
    },
    /// String up to a quote.
    Short {
        quote: u8,
    },
    /// String up to three quotes, of which `quotes` have come.
    Long {
        quote: u8,
        quotes: u8,
    },
}

impl StatementScanner {
    /// Returns whether the next byte is outside of strings, IRIs, comments and long words. Within one, a parser would
    /// read it again from its beginning.
    pub(super) fn is_between_tokens(&self) -> bool {
        self.token == Token::Plain && self.length < LONG_WORD
    }

    /// Returns the error of a token that must not have a line end and got one since the last call.
    pub(super) fn take_broken(&mut self) -> Option<&'static str> {
        self.broken.take()
    }

    /// Returns whether a prefix or the base may have been declared since the last call.
    pub(super) fn take_declared(&mut self) -> bool {
        std::mem::take(&mut self.has_declared)
    }

    /// Leaves the brackets of a wrong statement, some of which may lack their ends.
    pub(super) fn leave_brackets(&mut self) {
        self.depth = 0;
    }

    /// Reads bytes up to the end of a statement, or all of them. Returns their number, and whether a statement ends
    /// there.
    ///
    /// # Errors
    /// When a token is too long or brackets are nested too deeply.
    pub(super) fn scan(&mut self, text: &[u8]) -> Result<(usize, bool), String> {
        for (at, &byte) in text.iter().enumerate() {
            if self.take(byte)? {
                return Ok((at + 1, true));
            }
        }
        Ok((text.len(), false))
    }

    /// Reads one byte. Returns whether it ends a statement.
    fn take(&mut self, byte: u8) -> Result<bool, String> {
        if std::mem::take(&mut self.escaped) {
            self.grow()?;
            return Ok(false);
        }
        match self.token {
            Token::Plain => return self.take_plain(byte),
            Token::Opening { quote, quotes } => {
                self.token = match (byte == quote, quotes) {
                    (true, 1) => Token::Opening { quote, quotes: 2 },
                    (true, _) => Token::Long { quote, quotes: 0 },
                    (false, 1) => Token::Short { quote },
                    (false, _) => {
                        // The string is empty.
                        self.begin(Token::Plain);
                        return self.take_plain(byte);
                    }
                };
                let is_short = self.token == Token::Short { quote };
                self.escaped = byte == b'\\' && is_short;
                if byte == b'\n' && is_short {
                    self.end_line(BROKEN_STRING);
                }
            }
            Token::Short { quote } if byte == quote => self.begin(Token::Plain),
            Token::Long { quote, quotes } => {
                let quotes = if byte == quote { quotes + 1 } else { 0 };
                self.token = Token::Long { quote, quotes };
                if quotes == 3 {
                    self.begin(Token::Plain);
                }
                self.escaped = byte == b'\\';
            }
            Token::Short { .. } => {
                self.escaped = byte == b'\\';
                if byte == b'\n' && self.end_line(BROKEN_STRING) {
                    return Ok(true);
                }
            }
            Token::Iri if byte == b'>' => {
                self.has_declared |= std::mem::take(&mut self.declares);
                self.begin(Token::Plain);
            }
            Token::Iri if byte == b'\n' => {
                if self.end_line(BROKEN_IRI) {
                    return Ok(true);
                }
            }
            Token::Comment if byte == b'\n' || byte == b'\r' => self.begin(Token::Plain),
            Token::Iri | Token::Comment => {}
        }
        self.grow()?;
        Ok(false)
    }

    /// Takes a line end in a token that must not have one. Returns whether it ends the statement.
    fn end_line(&mut self, broken: &'static str) -> bool {
        let from = *self.broken_from.get_or_insert(self.length);
        if from == self.length {
            self.broken = Some(broken);
        }
        let is_over = self.length - from > MAX_BROKEN;
        if is_over {
            self.begin(Token::Plain);
            self.depth = 0;
        }
        is_over
    }

    fn take_plain(&mut self, byte: u8) -> Result<bool, String> {
        let after_dot = std::mem::take(&mut self.after_dot);
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                self.begin(Token::Plain);
                return Ok(after_dot);
            }
            b'<' => self.begin(Token::Iri),
            b'"' | b'\'' => self.begin(Token::Opening {
                quote: byte,
                quotes: 1,
            }),
            b'#' => self.begin(Token::Comment),
            b'[' | b'(' => {
                self.begin(Token::Plain);
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(format!("brackets are nested more than {MAX_DEPTH} deep"));
                }
            }
            b']' | b')' => {
                self.begin(Token::Plain);
                self.depth = self.depth.saturating_sub(1);
            }
            b';' | b',' => self.begin(Token::Plain),
            b'\\' => self.escaped = true,
            _ => {
                self.after_dot = byte == b'.' && self.depth == 0;
                self.recent = self.recent << 8 | u64::from(byte.to_ascii_lowercase());
                self.declares |=
                    ends_with(self.recent, b"prefix") || ends_with(self.recent, b"base");
                if self.word.len() <= GIVEN_LABEL + 2 {
                    self.word.push(byte);
                }
            }
        }
        self.grow()?;
        Ok(false)
    }

    /// Begins a token. The word before it is complete.
    fn begin(&mut self, token: Token) {
        let word = self.word.strip_suffix(b".").unwrap_or(&self.word);
        let number = word.strip_prefix(b"_:").and_then(given_number);
        self.labels.extend(number);
        self.word.clear();
        self.recent = 0;
        self.token = token;
        self.length = 0;
        self.broken_from = None;
    }

    fn grow(&mut self) -> Result<(), String> {
        self.length += 1;
        let most = match self.token {
            Token::Plain | Token::Iri => MAX_WORD,
            _ => MAX_STRING,
        };
        if self.length > most {
            let kind = match self.token {
                Token::Iri => "an IRI",
                Token::Comment => "a comment",
                Token::Plain => "a word",
                _ => "a string",
            };
            return Err(format!("{kind} is longer than {most} bytes"));
        }
        Ok(())
    }
}

/// Returns whether the last bytes, of which there are at most 8, end with a word.
fn ends_with(recent: u64, word: &[u8]) -> bool {
    recent.to_be_bytes().ends_with(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Divides a text into statements, read in pieces of `size` bytes.
    fn statements(text: &str, size: usize) -> Vec<String> {
        let mut scanner = StatementScanner::default();
        let mut found = vec![String::new()];
        for mut piece in text.as_bytes().chunks(size) {
            while !piece.is_empty() {
                let (length, is_end) = scanner.scan(piece).unwrap();
                let last = found.last_mut().unwrap();
                last.push_str(std::str::from_utf8(&piece[..length]).unwrap());
                piece = &piece[length..];
                if is_end {
                    found.push(String::new());
                }
            }
        }
        found
    }

    #[test]
    fn dots_within_tokens_and_brackets_end_nothing() {
        let parts = [
            "@prefix a: <http://a. b/> .\n",
            "a:x a:p 'it\\'s. ' , \"\"\"a \"\". \"\"\" , '' , \"\" ; a:q 1.5 .\n",
            "a:x.y a:p [ a:q a:z . ] .\n",
            "# a comment. with dots . \na:x a:p a:\\'. ",
            "a:x a:p ( 1 2. 3 ).\n",
            "a:x a:p 5",
        ];
        for size in [1, 7, 1000] {
            assert_eq!(statements(&parts.concat(), size), parts, "{size}");
        }
    }

    #[test]
    fn line_ends_belong_to_strings() {
        let short = ["a:x a:p \"a. \n b. \" . ", "a:x a:p 'c. \r\n d. '.\n"];
        let long = [
            "a:x a:p \"\"\"a. \n b. \"\"\" , '''\n. ''' . ",
            "a:x a:p '' .\n",
        ];
        for (texts, is_broken) in [(short, true), (long, false)] {
            for size in [1, 7, 1000] {
                let expected = [texts[0], texts[1], ""];
                assert_eq!(statements(&texts.concat(), size), expected, "{size}");
            }
            for text in texts {
                let mut scanner = StatementScanner::default();
                assert_eq!(scanner.scan(text.as_bytes()), Ok((text.len(), true)));
                assert_eq!(scanner.take_broken().is_some(), is_broken, "{text}");
            }
        }
    }

    #[test]
    fn declarations_are_noticed_wherever_they_begin() {
        let declares = |text: &str| {
            let mut scanner = StatementScanner::default();
            scanner.scan(text.as_bytes()).unwrap();
            scanner.take_declared()
        };
        for text in [
            "@prefix a: <b>",
            "PREFIX\na:\n<b>",
            "@prefix:<b>",
            "Base<b>",
            "\"x\"@en.@base<b>",
        ] {
            assert!(declares(text), "{text}");
        }
        assert!(!declares("a:x a:y <b> , <prefix>"));
    }

    #[test]
    fn labels_that_look_like_given_ones_are_collected() {
        let (long, short) = ("f".repeat(32), "e".repeat(16));
        let text = format!(
            "_:{long} a _:{long}0, [ <p> _:{short}], _:abc, _:F{}.\n",
            &long[1..]
        );
        let mut scanner = StatementScanner::default();
        assert_eq!(scanner.scan(text.as_bytes()), Ok((text.len(), true)));
        let number = |label: &str| u128::from_str_radix(label, 16).unwrap();
        assert_eq!(
            scanner.labels,
            HashSet::from([number(&long), number(&short)])
        );
        for node in (0..1000).map(|_| oxrdf::BlankNode::default()) {
            let number = given_number(node.as_str().as_bytes());
            assert_eq!(number, node.as_ref().unique_id(), "{node}");
        }
    }

    #[test]
    fn tokens_and_nesting_are_bounded() {
        let refused = |text: String| {
            StatementScanner::default()
                .scan(text.as_bytes())
                .unwrap_err()
        };
        assert!(refused("<".repeat(MAX_WORD + 2)).contains("an IRI is longer"));
        assert!(refused("a".repeat(MAX_WORD + 2)).contains("a word is longer"));
        assert!(refused(format!("\"{}", "a".repeat(MAX_STRING + 1))).contains("a string"));
        assert!(refused("[".repeat(MAX_DEPTH + 1)).contains("nested"));
    }
}
