//! Values in the JSON that `pbg-host` writes, found without a parser, which `xtask` would have to compile.

/// Returns the text that follows the keys of `path` and their colons, each behind the one before it.
///
/// The text begins with the value. Keys are found by their names alone, so those on the way to the value must not occur
/// before it with another meaning.
pub(super) fn after<'t>(text: &'t str, path: &[&str]) -> Option<&'t str> {
    path.iter().try_fold(text, |text, key| {
        let (_, rest) = text.split_once(&format!("\"{key}\""))?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    })
}

/// Returns the number or the string, with its quotes, at the end of `path`.
pub(super) fn scalar<'t>(text: &'t str, path: &[&str]) -> Option<&'t str> {
    let rest = after(text, path)?;
    let end = rest.find([',', '}', ']', '\n']).unwrap_or(rest.len());
    Some(rest[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_behind_their_keys() {
        let line = r#"{"event":"epoch_finished","epoch":3,"stats":{"count":211855,"loss":0.5},"seconds":1.5}"#;
        assert_eq!(scalar(line, &["event"]), Some("\"epoch_finished\""));
        assert_eq!(scalar(line, &["stats", "count"]), Some("211855"));
        assert_eq!(scalar(line, &["stats", "loss"]), Some("0.5"));
        assert_eq!(scalar(line, &["seconds"]), Some("1.5"));
        assert_eq!(scalar(line, &["stats", "epoch"]), None);
        let page = "{\n  \"edge_sets\": {\n    \"train\": {\n      \"edges\": 12\n    }\n  }\n}";
        assert_eq!(scalar(page, &["edge_sets", "train", "edges"]), Some("12"));
        let lost = r#"{"buckets":[{"lhs":0,"rhs":1}],"x":[]}"#;
        assert_eq!(
            after(lost, &["buckets"]),
            Some("[{\"lhs\":0,\"rhs\":1}],\"x\":[]}")
        );
    }
}
