//! `--set KEY=VALUE`: changes to the tree of values before it is checked.

use super::key_path::KeyPath;
use super::node::{ConfigNode, KeyLocation, TomlValue};
use super::spec::{Spec, ValueType, root};

/// Splits `key=value` at the first `=`.
///
/// # Errors
/// When there is no `=` or no key; the message shows the expected form.
pub fn split_override(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err(format!(
            "expected KEY=VALUE, as in num_epochs=10, found {text:?}"
        )),
    }
}

/// Sets the value at `path` to the value that `raw` denotes.
pub(super) fn apply(tree: &mut ConfigNode, path: &KeyPath, raw: &str) -> Result<(), String> {
    let (spec, done) = (Some(root()), KeyPath::default());
    set(tree, spec, path.segments(), &done, raw)
}

fn set(
    node: &mut ConfigNode,
    spec: Option<&Spec>,
    rest: &[String],
    done: &KeyPath,
    raw: &str,
) -> Result<(), String> {
    let Some((segment, rest)) = rest.split_first() else {
        *node = ConfigNode {
            value: value(raw, spec),
            place: KeyLocation::Set,
        };
        return Ok(());
    };
    let child_spec = spec.and_then(|s| s.child(segment));
    let in_map = spec.is_some_and(|s| matches!(s.kind, ValueType::Map { .. }));
    let removable = in_map || child_spec.is_some_and(|s| s.nullable);
    let remove = rest.is_empty() && removable && matches!(raw.trim(), "none" | "null");
    let empty = || ConfigNode {
        value: empty(child_spec),
        place: KeyLocation::Set,
    };
    let child = match &mut node.value {
        TomlValue::Table(entries) if remove => {
            entries.remove(segment);
            return Ok(());
        }
        TomlValue::Table(entries) => entries.entry(segment.clone()).or_insert_with(empty),
        TomlValue::List(items) => {
            let (index, count) = (segment.parse::<usize>().ok(), items.len());
            let Some(index) = index.filter(|&index| index <= count) else {
                return Err(no_entry(done, segment, count));
            };
            if index == count {
                items.push(empty());
            }
            &mut items[index]
        }
        other => {
            return Err(format!(
                "`{done}` is {}, which has no keys",
                other.describe()
            ));
        }
    };
    set(child, child_spec, rest, &done.join(segment), raw)
}

fn no_entry(list: &KeyPath, segment: &str, count: usize) -> String {
    format!(
        "`{list}` is a list of {count} entries: the next part of the key must be the number of an entry, 0 to {count} (a new entry), not `{segment}`"
    )
}

fn empty(spec: Option<&Spec>) -> TomlValue {
    match spec.map(|s| &s.kind) {
        Some(ValueType::List { .. }) => TomlValue::List(vec![]),
        _ => TomlValue::Table(std::collections::BTreeMap::new()),
    }
}

/// Reads `raw` as a value of the key's type, otherwise as text, so that the check reports the expected type.
fn value(raw: &str, spec: Option<&Spec>) -> TomlValue {
    let written = ConfigNode::parse_value(raw.trim());
    let text = || TomlValue::Text(raw.to_owned());
    match spec.map(|s| &s.kind) {
        Some(ValueType::Text { .. } | ValueType::Choice(_)) => match written {
            Some(quoted @ TomlValue::Text(_)) => quoted,
            _ => text(),
        },
        // Rust parses forms of numbers that TOML does not: `.5`, `1e3`, `+inf`.
        Some(ValueType::Number { .. }) => written
            .or_else(|| raw.trim().parse().ok().map(TomlValue::Float))
            .unwrap_or_else(text),
        Some(ValueType::List { item, .. }) => match written {
            Some(list @ TomlValue::List(_)) => list,
            _ => separated(raw, item),
        },
        _ => written.unwrap_or_else(text),
    }
}

fn separated(raw: &str, item: &Spec) -> TomlValue {
    let parts = raw
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let items = parts.map(|part| ConfigNode {
        value: value(part, Some(item)),
        place: KeyLocation::Set,
    });
    TomlValue::List(items.collect())
}
