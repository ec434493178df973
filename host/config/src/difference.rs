//! Differences between two configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value as Json;

use super::key_path::{KeyPath, quoted_key};

/// Text of a value that is not set.
pub(super) const UNSET: &str = "unset";

/// Key whose values differ, with both values as TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigDifference {
    /// Path of the key.
    pub key: String,
    /// Value in this configuration.
    pub here: String,
    /// Value in the other configuration.
    pub other: String,
}

impl ConfigDifference {
    /// Returns whether the differing key is `key` or lies within the table `key`.
    #[must_use]
    pub fn is_about(&self, key: &str) -> bool {
        let rest = self.key.strip_prefix(key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl fmt::Display for ConfigDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, here, other } = self;
        // Formulas with hundreds of nodes are not readable in a message, so the values are where they come from.
        if !self.is_about("formulas") {
            return write!(f, "{key}: {here}, not {other}");
        }
        match (here.as_str(), other.as_str()) {
            (UNSET, _) => write!(f, "{key}: is only there, {other}"),
            (_, UNSET) => write!(f, "{key}: is only here, {here}"),
            _ if here == other => write!(f, "{key}: differs, though both are {here}"),
            _ => write!(f, "{key}: differs, here {here}, there {other}"),
        }
    }
}

/// Appends the differences between `here` and `other`, the values at `path`, to `differences`.
pub(super) fn compare(
    here: &Json,
    other: &Json,
    path: &KeyPath,
    differences: &mut Vec<ConfigDifference>,
) {
    match (here, other) {
        (Json::Object(a), Json::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let value = |entries: &serde_json::Map<String, Json>| {
                    entries.get(key).cloned().unwrap_or_default()
                };
                compare(&value(a), &value(b), &path.join(key), differences);
            }
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(a, b, &path.join(i), differences);
            }
        }
        _ if here == other => {}
        _ => differences.push(ConfigDifference {
            key: path.to_string(),
            here: shown(here),
            other: shown(other),
        }),
    }
}

/// Returns the values that are not tables by their paths, as TOML.
pub(super) fn leaves(json: &Json) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect(json, &KeyPath::default(), &mut found);
    found
}

fn collect(json: &Json, path: &KeyPath, found: &mut BTreeMap<String, String>) {
    match json {
        Json::Object(entries) => {
            let entries = entries.iter();
            entries.for_each(|(key, value)| collect(value, &path.join(key), found));
        }
        value => drop(found.insert(path.to_string(), shown(value))),
    }
}

/// Formats a value as TOML.
pub(super) fn shown(json: &Json) -> String {
    match json {
        Json::Null => UNSET.to_owned(),
        // Most numbers were single precision before they became JSON.
        Json::Number(n) if n.is_f64() => {
            let x = n.as_f64().unwrap_or_default();
            let single = x as f32;
            if f64::from(single) == x {
                single.to_string()
            } else {
                x.to_string()
            }
        }
        Json::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(shown).collect::<Vec<_>>().join(", ")
            )
        }
        Json::Object(entries) => {
            let entry =
                |(key, value): (&String, &Json)| format!("{} = {}", quoted_key(key), shown(value));
            format!(
                "{{ {} }}",
                entries.iter().map(entry).collect::<Vec<_>>().join(", ")
            )
        }
        scalar => scalar.to_string(),
    }
}

/// Compares the displayed text, for tests.
#[cfg(test)]
impl PartialEq<&str> for ConfigDifference {
    fn eq(&self, shown: &&str) -> bool {
        let text = self.to_string();
        text == *shown
    }
}
