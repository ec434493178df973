//! Parser of N-Triples lines, a format of RDF: subject, predicate and object as terms, and a dot.

/// Calls `take` with the start and the end of each of the three terms of a line. Blank lines and comments have no
/// terms.
///
/// # Errors
/// When the line is not valid.
pub(super) fn split(line: &[u8], take: &mut dyn FnMut(usize, usize)) -> Result<(), String> {
    let mut at = after_blanks(line, 0);
    if matches!(line.get(at), None | Some(b'#')) {
        return Ok(());
    }
    for which in ["subject", "predicate", "object"] {
        let end = term(line, at).ok_or_else(|| {
            format!("the {which} is not an N-Triples term: `<IRI>`, `_:NAME`, or for objects a literal in quotes")
        })?;
        take(at, end);
        at = after_blanks(line, end);
    }
    if line.get(at) != Some(&b'.') {
        let what = "the line must have three terms and a dot; N-Quads and Turtle are not supported";
        return Err(what.to_owned());
    }
    match line.get(after_blanks(line, at + 1)) {
        None | Some(b'#') => Ok(()),
        Some(_) => Err("there is text after the dot".to_owned()),
    }
}

fn after_blanks(line: &[u8], from: usize) -> usize {
    let rest = line[from..].iter();
    from + rest
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
        .count()
}

/// Returns the end of the term that starts at `from`.
fn term(line: &[u8], from: usize) -> Option<usize> {
    let rest = &line[from..];
    match rest {
        [b'<', ..] => Some(from + memchr::memchr(b'>', rest)? + 1),
        [b'_', b':', ..] => {
            let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\t'));
            Some(from + end?)
        }
        [b'"', ..] => {
            let quote = closing_quote(rest)?;
            match &rest[quote + 1..] {
                [b'^', b'^', b'<', ..] => term(line, from + quote + 3),
                [b'@', tag @ ..] => {
                    let is_tag = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'-';
                    Some(from + quote + 2 + tag.iter().take_while(is_tag).count())
                }
                _ => Some(from + quote + 1),
            }
        }
        _ => None,
    }
}

/// Returns the position of the quote that closes the literal at the beginning of `text`.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        match text[at] {
            b'"' => return Some(at),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(line: &str) -> Result<Vec<&str>, String> {
        let mut found = Vec::new();
        split(line.as_bytes(), &mut |from, to| found.push(&line[from..to]))?;
        Ok(found)
    }

    #[test]
    fn terms_of_all_kinds() {
        let cases: [(&str, &[&str]); 6] = [
            ("<a> <b> <c> .", &["<a>", "<b>", "<c>"]),
            ("<a>\t<b>\t\"c\td\"@fr\t.\r", &["<a>", "<b>", "\"c\td\"@fr"]),
            (
                "_:x <b> \"say \\\"no\\\"\".",
                &["_:x", "<b>", "\"say \\\"no\\\"\""],
            ),
            (
                "<a><b>\"1\"^^<int> . # one",
                &["<a>", "<b>", "\"1\"^^<int>"],
            ),
            ("# nothing", &[]),
            ("  ", &[]),
        ];
        for (line, expected) in cases {
            assert_eq!(terms(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn what_is_something_else_is_refused() {
        let lines = [
            "<a> <b> .",
            "<a> <b> <c>",
            "<a> <b> <c> <d> .",
            "a b c .",
            "<a> <b> \"c .",
            "<a> <b> \"c\\",
            "<a> <b> <c> . x",
            "_:a",
            "<a",
        ];
        for line in lines {
            assert!(terms(line).is_err(), "{line}");
        }
    }
}
