//! Paths of keys, as in `entities.user.num_partitions` or `relations.0.all_negs`.

use std::fmt;

/// Path of a value: names and list indices from the top of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPath(Vec<String>);

/// Maximum depth of a path. It exceeds that of any key and bounds recursion over trees.
const DEEPEST: usize = 32;

impl KeyPath {
    /// Parses a path; names that are not bare keys are quoted as in TOML. Returns `None` when `text` is not a path.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut segments = Vec::new();
        let mut rest = text.trim();
        loop {
            let end = segment_end(rest)?;
            let (segment, tail) = rest.split_at(end);
            segments.push(unquote(segment.trim())?);
            if segments.len() > DEEPEST {
                return None;
            }
            match tail.strip_prefix('.') {
                Some(more) => rest = more,
                None => return Some(Self(segments)),
            }
        }
    }

    /// Returns the path extended by one segment.
    pub(super) fn join(&self, segment: impl fmt::Display) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment.to_string());
        Self(segments)
    }

    /// Returns the names and indices.
    pub(super) fn segments(&self) -> &[String] {
        &self.0
    }

    /// Returns whether `other` is the path of this value or of a value within it.
    pub(super) fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl<S: fmt::Display, const N: usize> From<[S; N]> for KeyPath {
    fn from(segments: [S; N]) -> Self {
        Self(segments.iter().map(S::to_string).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            f.write_str(&quoted_key(segment))?;
        }
        Ok(())
    }
}

/// Writes `name` as a TOML key: bare where TOML allows it, otherwise in quotes.
pub(super) fn quoted_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        return name.to_owned();
    }
    let mut quoted = String::from('"');
    for c in name.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns the length of the first segment of `text`; `None` when a quote is not closed.
fn segment_end(text: &str) -> Option<usize> {
    let start = text.len() - text.trim_start().len();
    let Some(quote) = text[start..]
        .chars()
        .next()
        .filter(|&c| c == '"' || c == '\'')
    else {
        return Some(text.find('.').unwrap_or(text.len()));
    };
    let mut escaped = false;
    for (i, c) in text[start + 1..].char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' && quote == '"' {
            escaped = true;
        } else if c == quote {
            let closed = start + 1 + i + 1;
            let tail = &text[closed..];
            let gap = tail.find('.').unwrap_or(tail.len());
            return tail[..gap].trim().is_empty().then_some(closed + gap);
        }
    }
    None
}

fn unquote(segment: &str) -> Option<String> {
    if segment.starts_with(['"', '\'']) {
        match toml::de::DeValue::parse(segment).ok()?.into_inner() {
            toml::de::DeValue::String(name) => Some(name.into_owned()),
            _ => None,
        }
    } else {
        (!segment.is_empty()).then(|| segment.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_read_and_written() {
        let path = KeyPath::parse(r#"entities."a.b".num_partitions"#).unwrap();
        assert_eq!(path.segments(), ["entities", "a.b", "num_partitions"]);
        assert_eq!(path.to_string(), r#"entities."a.b".num_partitions"#);
        assert_eq!(KeyPath::parse(" lr ").unwrap().segments(), ["lr"]);
        assert_eq!(
            KeyPath::parse("a.'b c' . d").unwrap().segments(),
            ["a", "b c", "d"]
        );
        for bad in ["", ".", "a.", ".a", "a..b", "\"a", "'a'b.c", "\"\\q\""] {
            assert_eq!(KeyPath::parse(bad), None, "{bad}");
        }
        assert_eq!(KeyPath::parse(&vec!["a"; 100_000].join(".")), None);
    }

    #[test]
    fn a_value_contains_what_lies_within() {
        let path = |text| KeyPath::parse(text).unwrap();
        assert!(path("a").contains(&path("a.b")) && path("a.b").contains(&path("a.b")));
        assert!(!path("a.b").contains(&path("a")) && !path("a.b").contains(&path("a.c")));
    }

    proptest! {
        #[test]
        fn any_names_survive(segments in prop::collection::vec(any::<String>(), 1..4)) {
            let path = KeyPath(segments);
            prop_assert_eq!(KeyPath::parse(&path.to_string()), Some(path));
        }

        #[test]
        fn any_text_is_a_path_or_none(text in any::<String>()) {
            let _ = KeyPath::parse(&text);
        }
    }
}
