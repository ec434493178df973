//! Text that a plugin chose, made fit for a terminal and a log.

/// `text` on one line of at most `bytes` bytes: control characters and those that reorder or
/// break lines are escaped, the rest is cut with an ellipsis.
pub(crate) fn neutral(text: &str, bytes: usize) -> String {
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

fn is_harmless(c: char) -> bool {
    let reorders =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    !c.is_control() && !reorders && !breaks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_and_line_breaks_are_shown_not_done() {
        assert_eq!(neutral("a\u{1b}[2Jb\nc", 100), "a\\u{1b}[2Jb\\nc");
        assert_eq!(neutral("\u{202e}txt", 100), "\\u{202e}txt");
        assert_eq!(neutral("größer, ✓", 100), "größer, ✓");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(neutral("ääää", 5), "ää…");
        assert_eq!(neutral("\n\n\n", 5), "\\n\\n…");
    }
}
