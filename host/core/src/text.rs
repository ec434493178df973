//! Safe display of untrusted text on a terminal or in a log.

use std::borrow::Cow;

/// Returns `text` on one line of at most `bytes` bytes. Control characters, and characters that reorder text or break
/// lines, are escaped. Longer text is cut off with an ellipsis.
#[must_use]
pub fn escaped(text: &str, bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(bytes));
    for c in text.chars() {
        let before = out.len();
        if is_harmless(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
        if out.len() > bytes {
            out.truncate(before);
            out.push('…');
            break;
        }
    }
    out
}

/// Like [`escaped`], but joins lines with spaces instead of escaping their ends.
#[must_use]
pub fn one_line(text: &str, bytes: usize) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    escaped(&lines.collect::<Vec<_>>().join(" "), bytes)
}

/// Like [`escaped`], but without a limit of length, and line ends and tabs are kept. For messages some of whose parts
/// come from files or plugins.
#[must_use]
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| is_harmless(c) || matches!(c, '\n' | '\t');
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if harmless(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    Cow::Owned(out)
}

fn is_harmless(c: char) -> bool {
    let reorders = matches!(c,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    !c.is_control() && !reorders && !breaks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_and_line_breaks_are_shown_not_done() {
        assert_eq!(escaped("a\u{1b}[2Jb\nc", 100), "a\\u{1b}[2Jb\\nc");
        assert_eq!(escaped("\u{202e}txt", 100), "\\u{202e}txt");
        assert_eq!(escaped("\u{61c}txt", 100), "\\u{61c}txt");
        assert_eq!(escaped("größer, ✓", 100), "größer, ✓");
    }

    #[test]
    fn several_lines_become_one() {
        assert_eq!(
            one_line("no\n  such\r\n\nthing\u{1b}", 100),
            "no such thing\\u{1b}"
        );
    }

    #[test]
    fn messages_keep_their_lines() {
        assert_eq!(
            escaped_lines("a\u{1b}[2J\n\tb\r\u{61c}"),
            "a\\u{1b}[2J\n\tb\\r\\u{61c}"
        );
        assert_eq!(escaped_lines("größer, ✓\n"), "größer, ✓\n");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(escaped("ääää", 5), "ää…");
        assert_eq!(escaped("\n\n\n", 5), "\\n\\n…");
    }
}
