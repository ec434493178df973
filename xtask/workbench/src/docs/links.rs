//! Links of a page in Markdown.

use std::ops::Range;

/// Link to another page, or to a heading of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Position of the path in the text, in bytes.
    pub(super) at: Range<usize>,
    /// Path of the file, relative to the page; empty for the page itself.
    pub(super) path: String,
    /// Anchor of the heading.
    pub(super) anchor: Option<String>,
}

/// Returns the links of `text` to files, without those in code.
pub(super) fn of(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (start, line) in prose(text) {
        let mut from = 0;
        while let Some(found) = line[from..].find("](") {
            let begin = from + found + 2;
            let Some(length) = line[begin..].find(')') else {
                break;
            };
            from = begin + length;
            let target = &line[begin..from];
            let is_code = line[..begin].matches('`').count() % 2 == 1;
            if is_code
                || target.contains(' ')
                || target.contains("://")
                || target.starts_with("mailto:")
            {
                continue;
            }
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target, None),
            };
            links.push(Link {
                at: start + begin..start + begin + path.len(),
                path: path.to_owned(),
                anchor,
            });
        }
    }
    links
}

/// Returns the anchors of the headings of `text`.
#[cfg(test)]
pub(super) fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let slug = |(_, line): (usize, &str)| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        kept.collect()
    };
    headings.map(slug).collect()
}

/// Returns the lines outside of code blocks, with their positions.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    let mut is_code = false;
    text.split_inclusive('\n').filter_map(move |line| {
        let at = start;
        start += line.len();
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        (!is_code && !fence).then_some((at, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_where_they_are_some() {
        let text = "# One, `two`\n[a](b.md#c) `[no](x.md)` [d](#e) [f](https://g)\n```\n[h](i.md)\n# j\n```\n";
        let found = of(text);
        let parts: Vec<_> = found
            .iter()
            .map(|l| (&*l.path, l.anchor.as_deref()))
            .collect();
        assert_eq!(parts, [("b.md", Some("c")), ("", Some("e"))]);
        assert_eq!(&text[found[0].at.clone()], "b.md");
        assert_eq!(anchors(text), ["one-two"]);
    }
}
