//! Converts structured values to configuration overrides, in the form that `--set` takes.

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// Nesting depth that no key exceeds.
const DEEPEST: usize = 32;

/// Returns the overrides that set `values`, an object of keys. Nested objects change only the keys in them; lists
/// replace the whole value, and `null` unsets a key.
///
/// # Errors
/// When it is not an object, or is nested deeper than any key.
pub fn overrides(values: &Value) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    match values {
        Value::Object(_) => flatten("", values, 0, &mut found)?,
        _ => {
            let text = "a configuration is a table of keys";
            return Err(Failure::message(FailureKind::Config, text));
        }
    }
    Ok(found)
}

fn flatten(
    path: &str,
    value: &Value,
    depth: usize,
    found: &mut Vec<(String, String)>,
) -> Result<()> {
    if depth > DEEPEST {
        let text = format!("{path}: nested deeper than any key");
        return Err(Failure::message(FailureKind::Config, text));
    }
    let Value::Object(entries) = value else {
        found.push((path.to_owned(), written(value)));
        return Ok(());
    };
    for (name, value) in entries {
        let path = match path {
            "" => segment(name, depth),
            above => format!("{above}.{}", segment(name, depth)),
        };
        flatten(&path, value, depth + 1, found)?;
    }
    Ok(())
}

/// Returns a name as a part of a path. At the top level, a name may be a path itself, as in `--set`.
fn segment(name: &str, depth: usize) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c) || depth == 0 && c == '.';
    match !name.is_empty() && name.chars().all(plain) {
        true => name.to_owned(),
        false => Value::from(name).to_string(),
    }
}

/// Returns a value in TOML, leaving out entries whose value is null.
fn written(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        other => toml(other).map_or_else(|| other.to_string(), |value| value.to_string()),
    }
}

fn toml(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(bool) => (*bool).into(),
        // A number larger than an integer of TOML is passed on, so that the error message shows it.
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().filter_map(toml).collect::<Vec<_>>().into(),
        Value::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.filter_map(|(name, value)| Some((name.clone(), toml(value)?)));
            toml::Value::Table(entries.collect())
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_become_paths_and_lists_values() {
        let values = json!({
            "lr": 0.5,
            "entities": { "my type": { "num_partitions": 4 } },
            "execution.precision": "bf16",
            "relations": [{ "name": "*", "lhs": "a", "weight": null }],
            "max_norm": null,
        });
        let expected = [
            ("entities.\"my type\".num_partitions", "4"),
            ("execution.precision", "\"bf16\""),
            ("lr", "0.5"),
            ("max_norm", "none"),
            ("relations", "[{ lhs = \"a\", name = \"*\" }]"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut found = overrides(&values).unwrap();
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_table_is_no_configuration() {
        assert!(overrides(&json!([1])).is_err());
        let deep = (0..100).fold(json!(1), |value, _| json!({ "x": value }));
        assert!(overrides(&deep).is_err());
    }
}
