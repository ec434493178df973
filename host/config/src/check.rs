//! Checks a tree of values against the schema: unknown and missing keys, types, ranges.

use std::collections::BTreeMap;

use pbg_core::nearest::nearest;
use serde_json::{Map, Value as Json};

use super::errors::{ConfigProblem, MOST_SHOWN};
use super::key_path::KeyPath;
use super::node::{ConfigNode, KeyLocation, TomlValue, excerpt};
use super::spec::{Choice, KeySpec, Range, Spec, ValueType};
use super::suggest;

/// Result of a check.
#[derive(Debug, Default)]
pub(super) struct CheckResult {
    /// Problems found.
    pub(super) problems: Vec<ConfigProblem>,
    /// Paths whose value in the result is a placeholder, because the given value is wrong or missing.
    pub(super) placeholders: Vec<KeyPath>,
}

/// Converts `node` to JSON in which every wrong value is replaced by a placeholder of the right type, so that the rules
/// between the other keys can still be checked.
pub(super) fn check(node: &ConfigNode, spec: &Spec) -> (Json, CheckResult) {
    let mut findings = CheckResult::default();
    let json = findings
        .value(&KeyPath::default(), node, spec)
        .unwrap_or_else(|| placeholder(spec));
    (json, findings)
}

impl CheckResult {
    fn wrong(&mut self, path: &KeyPath, place: KeyLocation, message: String) {
        self.problems.push(ConfigProblem::new(path, place, message));
        self.placeholders.push(path.clone());
    }

    /// Converts a value; returns `None` after reporting a problem.
    fn value(&mut self, path: &KeyPath, node: &ConfigNode, spec: &Spec) -> Option<Json> {
        let scalar = match (&spec.kind, &node.value) {
            (ValueType::Record(fields), TomlValue::Table(entries)) => {
                return Some(self.record(path, node.place, entries, fields));
            }
            (ValueType::Map { item, non_empty }, TomlValue::Table(entries)) => {
                self.not_empty(path, node.place, entries.is_empty() && *non_empty);
                return Some(self.map(path, entries, item));
            }
            (ValueType::List { item, non_empty }, TomlValue::List(items)) => {
                self.not_empty(path, node.place, items.is_empty() && *non_empty);
                return Some(self.list(path, items, item));
            }
            (ValueType::Any, TomlValue::Table(entries)) => {
                return Some(self.map(path, entries, spec));
            }
            (ValueType::Any, TomlValue::List(items)) => return Some(self.list(path, items, spec)),
            (ValueType::Any, TomlValue::Integer(i)) => {
                integer(*i, i64::MIN.into(), i64::MAX.into())
            }
            (ValueType::Any, TomlValue::Float(x)) => number(*x, Range::default(), false),
            (ValueType::Any | ValueType::Boolean, TomlValue::Boolean(b)) => Ok(Json::from(*b)),
            (ValueType::Integer { min, max }, TomlValue::Integer(i)) => integer(*i, *min, *max),
            (ValueType::Number { range, single }, TomlValue::Float(x)) => {
                number(*x, *range, *single)
            }
            (ValueType::Number { range, single }, TomlValue::Integer(i)) => {
                number(*i as f64, *range, *single)
            }
            (ValueType::Text { non_empty: true }, TomlValue::Text(s)) if s.is_empty() => {
                Err("must not be empty".to_owned())
            }
            (ValueType::Any | ValueType::Text { .. }, TomlValue::Text(s)) => {
                Ok(Json::from(s.as_str()))
            }
            (ValueType::Choice(choices), TomlValue::Text(s)) => choice(s, choices),
            (kind, value) => Err(format!(
                "expected {}, found {}",
                describe(kind),
                value.describe()
            )),
        };
        scalar
            .map_err(|message| self.wrong(path, node.place, message))
            .ok()
    }

    fn not_empty(&mut self, path: &KeyPath, place: KeyLocation, is_empty: bool) {
        if is_empty {
            self.wrong(path, place, "must have at least one entry".to_owned());
        }
    }

    fn record(
        &mut self,
        path: &KeyPath,
        place: KeyLocation,
        entries: &BTreeMap<String, ConfigNode>,
        fields: &[KeySpec],
    ) -> Json {
        let mut json = Map::new();
        for field in fields {
            let path = path.join(&field.key);
            let value = match entries.get(&field.key) {
                Some(node) => self.value(&path, node, &field.spec),
                None if field.required => {
                    self.missing(&path, place, field, entries, fields);
                    None
                }
                None => continue,
            };
            // A key that is left out gets its default from serde.
            if let Some(value) = value.or_else(|| field.required.then(|| placeholder(&field.spec)))
            {
                json.insert(field.key.clone(), value);
            }
        }
        for (key, node) in entries {
            if !fields.iter().any(|f| f.key == *key) {
                // Advice is expensive to compute and is not shown beyond the first problems.
                let shown = self.problems.len() < MOST_SHOWN;
                let advice = if shown {
                    suggest::for_key(key, fields)
                } else {
                    String::new()
                };
                let message = format!("unknown key{advice}");
                self.problems
                    .push(ConfigProblem::new(&path.join(key), node.place, message));
            }
        }
        Json::Object(json)
    }

    /// Reports a missing key, unless an unknown key is its misspelling, which is then reported instead.
    fn missing(
        &mut self,
        path: &KeyPath,
        place: KeyLocation,
        field: &KeySpec,
        entries: &BTreeMap<String, ConfigNode>,
        fields: &[KeySpec],
    ) {
        let known = |key: &str| fields.iter().any(|f| f.key == key);
        let keys = || fields.iter().map(|f| f.key.as_str());
        let misspelt = entries
            .keys()
            .take(MOST_SHOWN)
            .any(|key| !known(key) && nearest(key, keys()) == Some(&*field.key));
        self.placeholders.push(path.clone());
        if !misspelt {
            let message = format!("missing: {}", lower_first(&field.doc()));
            self.problems.push(ConfigProblem::new(path, place, message));
        }
    }

    fn map(&mut self, path: &KeyPath, entries: &BTreeMap<String, ConfigNode>, item: &Spec) -> Json {
        let values = entries.iter().map(|(key, node)| {
            let value = self.value(&path.join(key), node, item);
            (key.clone(), value.unwrap_or_else(|| placeholder(item)))
        });
        Json::Object(values.collect())
    }

    fn list(&mut self, path: &KeyPath, items: &[ConfigNode], item: &Spec) -> Json {
        let values = items.iter().enumerate().map(|(i, node)| {
            let value = self.value(&path.join(i), node, item);
            value.unwrap_or_else(|| placeholder(item))
        });
        Json::Array(values.collect())
    }
}

fn integer(value: i128, min: i128, max: i128) -> Result<Json, String> {
    if value < min {
        Err(format!("must be at least {min}, is {value}"))
    } else if value > max {
        Err(format!("must be at most {max}, is {value}"))
    } else {
        // Every bound of the schema fits into either an i64 or a u64.
        let json = i64::try_from(value)
            .map(Json::from)
            .or_else(|_| u64::try_from(value).map(Json::from));
        json.map_err(|_| format!("must fit into 64 bits, is {value}"))
    }
}

fn number(value: f64, range: Range, single: bool) -> Result<Json, String> {
    if !value.is_finite() {
        return Err(format!("must be a finite number, is {value}"));
    }
    // Training uses the rounded value, so it must be in range too.
    let rounded = if single {
        f64::from(value as f32)
    } else {
        value
    };
    if !rounded.is_finite() {
        return Err(format!("must be at most {:e}, is {value:e}", f32::MAX));
    }
    let shown = |x: f64| {
        if x != 0.0 && x.abs() < 1e-4 {
            format!("{x:e}")
        } else {
            x.to_string()
        }
    };
    let broken = Range {
        min: range.min.filter(|&min| rounded < min),
        above: range.above.filter(|&above| rounded <= above),
        max: range.max.filter(|&max| rounded > max),
        below: range.below.filter(|&below| rounded >= below),
    };
    let Some(complaint) = broken.descriptions().next() else {
        return Ok(Json::from(value));
    };
    let rounding = if rounded == value || rounded != 0.0 {
        ""
    } else {
        ", which rounds to 0"
    };
    Err(format!(
        "must be {complaint}, is {}{rounding}",
        shown(value)
    ))
}

fn choice(name: &str, choices: &[Choice]) -> Result<Json, String> {
    if choices.iter().any(|c| c.name == name) {
        return Ok(Json::from(name));
    }
    let names = || choices.iter().map(|c| c.name.as_str());
    let advice = suggest::did_you_mean(nearest(name, names()));
    let all = names().collect::<Vec<_>>().join(", ");
    Err(format!(
        "must be one of {all}, is {}{advice}",
        excerpt(name)
    ))
}

fn describe(kind: &ValueType) -> &'static str {
    match kind {
        ValueType::Boolean => "true or false",
        ValueType::Integer { .. } => "an integer",
        ValueType::Number { .. } => "a number",
        ValueType::Text { .. } => "a string in quotes",
        ValueType::Choice(_) => "a name in quotes",
        ValueType::List { .. } => "a list",
        ValueType::Map { .. } | ValueType::Record(_) => "a table",
        ValueType::Any => "a number, a string, true, false, a list or a table",
    }
}

/// Returns a value of the right type, for keys without a default.
fn placeholder(spec: &Spec) -> Json {
    match &spec.kind {
        ValueType::Boolean => Json::from(false),
        ValueType::Integer { min, .. } => Json::from(i64::try_from(*min).unwrap_or(0)),
        ValueType::Number { .. } => Json::from(1.0),
        ValueType::Text { .. } | ValueType::Any => Json::from(""),
        ValueType::Choice(choices) => Json::from(choices.first().map_or("", |c| &c.name)),
        ValueType::List { .. } => Json::Array(vec![]),
        ValueType::Map { .. } => Json::Object(Map::new()),
        ValueType::Record(fields) => fields
            .iter()
            .filter(|f| f.required)
            .map(|f| (f.key.clone(), placeholder(&f.spec)))
            .collect(),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
}
